"""configs/papers/flip_flop.py for two cores: trained at 64 tokens instead of 512, with batches of
32 at a rate of 1e-3, and also scored at longer lengths.

    pe-jax sweep --config=configs/papers/flip_flop_small.py --workdir=DIR --jobs=2

It uses 30,000 steps and eight seeds, because after the paper's 10,000 steps a model has learned the
task in one seed and not in another. path takes 15 times as long a step and makes no error after
some hundred steps, so it has 10,000 steps and three seeds.
"""

from configs.papers import flip_flop


def get_config(arg="task=flip_flop,pe=rope"):
    c = flip_flop.get_config(arg)
    c.train.length, c.eval.lengths = 64, (64, 128, 256, 512)
    c.train.batch, c.train.rate = 32, 1e-3
    if c.pe.spec != "path":
        c.train.steps, c.run.seeds = 30_000, tuple(range(8))
    return c


def get_sweep():
    for spec in flip_flop.ENCODINGS:
        yield get_config(f"task=flip_flop,pe={spec}")
