"""RoPE trained at 64 bytes, continued at 256 with and without interpolated positions (Chen et al.,
2023).

There are two steps; the first prints at its end the folder that the second starts from:

    pe-jax run --config=configs/pi.py:pe=rope --workdir=DIR
    pe-jax sweep --config=configs/pi.py --config.train.init_from=DIR/rope-XXXXXXXX \
    --workdir=DIR
    pe-jax report --workdir=DIR --out=results/pi

The first run is evaluated unmodified and with the swap `pi`, zero-shot. The others are trained for
100 more steps with as many tokens a step. Every run scores the same targets.
"""

from pe_jax.configs import base

FACTOR = 4
ENCODINGS = (f"pi(factor={FACTOR:.1f})", "rope")


def get_config(arg="pe=rope"):
    """The run of 64 bytes from which the others start."""
    c = base.get_config(arg)
    c.eval.lengths = (64, 128, 256, 512)
    c.train.rate = 3e-3
    c.eval.last = 32  # half of 64 for all runs, at any training length
    c.eval.swaps = ("pi",)
    return c


def get_sweep():
    for spec in ENCODINGS:
        c = get_config(f"pe={spec}")
        c.train.length *= FACTOR
        c.train.batch //= FACTOR
        c.train.steps = 100
        c.train.rate = 1e-3
        c.eval.swaps = ()
        yield c
