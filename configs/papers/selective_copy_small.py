"""configs/papers/selective_copy.py for two cores: 16 data tokens instead of 256, 3,000 steps of
32 samples at a rate of 2e-3.

    pe-jax sweep --config=configs/papers/selective_copy_small.py --workdir=DIR
"""

from configs.papers import selective_copy


def get_config(arg="task=selective_copy,pe=rope"):
    c = selective_copy.among(selective_copy.get_config(arg), 16)
    c.train.batch, c.train.steps, c.train.rate, c.train.warmup = 32, 3000, 2e-3, 100
    return c


def get_sweep():
    return selective_copy.sweep(get_config)
