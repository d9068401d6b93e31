"""configs/papers/ruoss2023.py for two cores: two of its tasks, in the setting of chomsky_small.py.

pe-jax sweep --config=configs/papers/ruoss2023_small.py --workdir=DIR --jobs=2
"""

from configs.papers import chomsky_small, ruoss2023

TASKS = ("even_pairs", "reverse_string")


def get_config(arg="task=reverse_string,pe=rope"):
    return chomsky_small.get_config(arg)


def get_sweep():
    for task in TASKS:
        for spec in ruoss2023.ENCODINGS:
            yield get_config(f"task={task},pe={spec}")
