"""configs/papers/chomsky.py for two cores: six of its tasks, 2 layers of width 64, 2,000 steps of
32 samples; 64 samples at each of half of its lengths are scored.

    pe-jax sweep --config=configs/papers/chomsky_small.py --workdir=DIR --jobs=2
"""

from configs.papers import chomsky

TASKS = (
    "even_pairs",
    "reverse_string",
    "missing_duplicate_string",
    "odds_first",
    "stack_manipulation",
    "bucket_sort",
)


def get_config(arg="task=reverse_string,pe=rope"):
    c = chomsky.get_config(arg)
    c.lm.layers, c.lm.model = 2, 64
    c.train.batch, c.train.steps, c.train.rate, c.train.warmup = 32, 2000, 1e-3, 100
    c.eval.lengths, c.eval.samples = (20, 40, *range(41, 501, 34)), 64
    return c


def get_sweep():
    for task in TASKS:
        for spec in chomsky.ENCODINGS:
            yield get_config(f"task={task},pe={spec}")
