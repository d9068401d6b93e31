"""configs/papers/flip_flop.py for two cores: trained at 64 tokens in place of 512, 3,000 steps of
64 at a rate of 1e-3, and scored at longer lengths, too.

    python -m experiments.sweep --config=configs/papers/flip_flop_small.py --workdir=DIR --jobs=2
"""

from configs.papers import flip_flop


def get_config(arg="task=flip_flop,pe=rope"):
    c = flip_flop.get_config(arg)
    c.train.length, c.eval.lengths = 64, (64, 128, 256, 512)
    c.train.batch, c.train.steps, c.train.rate = 64, 3000, 1e-3
    return c


def get_sweep():
    for spec in flip_flop.ENCODINGS:
        yield get_config(f"task=flip_flop,pe={spec}")
