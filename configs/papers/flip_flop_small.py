"""configs/papers/flip_flop.py for two cores: trained at 64 tokens in place of 512, with batches of
32 at a rate of 1e-3, and scored at longer lengths, too. The steps are the paper's: after 3,000 the
seeds of one encoding were up to 22 points apart.

    pe-jax sweep --config=configs/papers/flip_flop_small.py --workdir=DIR --jobs=2
"""

from configs.papers import flip_flop


def get_config(arg="task=flip_flop,pe=rope"):
    c = flip_flop.get_config(arg)
    c.train.length, c.eval.lengths = 64, (64, 128, 256, 512)
    c.train.batch, c.train.rate = 32, 1e-3
    return c


def get_sweep():
    for spec in flip_flop.ENCODINGS:
        yield get_config(f"task=flip_flop,pe={spec}")
