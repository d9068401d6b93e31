"""The effect of random positions (Ruoss et al., 2023, arXiv:2305.16843): the tasks and the setting
of configs/papers/chomsky.py, with and without them. The models with random positions are the same
runs as there. ruoss2023_small.py runs on two cores.

    pe-jax sweep --config=configs/papers/ruoss2023.py --workdir=DIR --out=DIR
"""

from configs.papers import chomsky

ENCODINGS = (
    "sinusoidal",
    "randomized(max=2048)+sinusoidal",
    "rope",
    "randomized(max=2048)+rope",
)


def get_config(arg="task=reverse_string,pe=rope"):
    return chomsky.get_config(arg)


def get_sweep():
    for task in chomsky.TASKS:
        for spec in ENCODINGS:
            yield get_config(f"task={task},pe={spec}")
