"""Learning rates of the quickstart's encodings, chosen over all three seeds by validation text at
the training length; quickstart.py uses them.

pe-jax sweep --config=configs/rates.py --workdir=DIR --out=results/rates
"""

from pe_jax.configs import base, quickstart

RATES = (3e-3, 9e-3, 27e-3, 81e-3)


def get_config(arg="pe=rope"):
    c = base.get_config(arg)
    c.train.rates = RATES
    return c


def get_sweep():
    for spec in quickstart.ENCODINGS:
        yield get_config(f"pe={spec}")
