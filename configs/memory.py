"""Segment memory (Dai et al., 2019): encodings trained on segments of 16 bytes, with and without
the hidden states of the 48 bytes before.

    pe-jax sweep --config=configs/memory.py --workdir=DIR --out=results/memory

Every model is evaluated on whole windows, which equals an unlimited memory. Models with a memory
are also evaluated by segments of 16, with the memory of training and with one four times as long.
"""

from pe_jax.configs import base

ENCODINGS = ("transformer_xl", "rope")
SEGMENT, MEMORY = 16, 48


def get_config(arg="pe=transformer_xl"):
    c = base.get_config(arg)
    c.train.length = SEGMENT
    c.train.batch = 128  # as many bytes a step as elsewhere
    c.train.steps = 1500
    c.train.rate = 3e-3
    c.eval.lengths = (16, 32, 64, 128, 256)
    c.eval.metrics = ("same_targets",)
    c.eval.swaps = ()
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
        c = get_config(f"pe={spec}")
        c.lm.memory = MEMORY
        c.eval.memory = (MEMORY, 4 * MEMORY)
        yield c
