"""Every encoding early in training and at one rate for all: a quarter of the steps of
configs/encodings.py, at a rate of 3e-3, which validation text would not choose.

    pe-jax sweep --config=configs/encodings_early.py --workdir=DIR
    --out=results/encodings_early

NOTES.md holds its ranking against that of configs/encodings.py.
"""

from configs import encodings


def get_config(arg="pe=rope"):
    c = encodings.get_config(arg)
    c.train.steps, c.train.rate, c.train.rates = 350, 3e-3, ()
    return c


def get_sweep():
    for spec in encodings.specs():
        yield get_config(f"pe={spec}")
