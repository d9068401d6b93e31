"""Segment memory (Dai et al., 2019): encodings trained on segments of 64 bytes with the hidden
states of the 64 before, and without.

    python -m experiments.sweep --config=configs/memory.py --workdir=DIR --out=results/memory

Every model is evaluated on whole windows, which is a memory that holds all there is; those with a
memory also by segments of 64 with the memory of training, and with one four times as long.
"""

from configs import base

ENCODINGS = ("transformer_xl", "rope", "nope")
MEMORY = 64


def get_config(arg="pe=transformer_xl"):
    c = base.get_config(arg)
    c.eval.swaps = ()
    c.eval.metrics = ("same_targets",)
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
        c = get_config(f"pe={spec}")
        c.lm.memory = MEMORY
        c.eval.memory = (MEMORY, 4 * MEMORY)
        yield c
