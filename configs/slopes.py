"""Do ALiBi's slopes belong in units of 1 / L? rope+alibi with slopes of 1, 4 and 16 times the
published ones is trained at 64, 256 and 1,024 bytes, and compared with alibi alone.

    pe-jax sweep --config=configs/slopes.py --workdir=DIR --out=results/slopes
    pe-jax report --workdir=DIR --out=results/slopes --baseline=alibi

The hypothesis, stated before the study: slope times L decides whether rope+alibi keeps its value
beyond L. At L = 64 with the published slopes it does not (results/encodings, 2.39 to 3.80 bits per
byte at 16 L). We read Poincare RoPE (arXiv:2606.05345) as finding it flat at L = 1,024, though its
slopes are learned and it has no value at L. If the hypothesis holds, L = 64 is flat with 16 times
the slopes, and L = 1,024 with the published ones.

A step has 4,096 bytes at every L. The text is as in configs/encodings.py. Every run has the rate
with the lowest bits of validation text over all three seeds.
"""

from configs import encodings
from pe_jax.configs import base

LENGTHS, SCALES = (64, 256, 1024), (1.0, 4.0, 16.0)
BYTES = 4096  # per step


def get_config(arg="pe=rope+alibi"):
    c = base.get_config(arg)
    c.data.source = encodings.text()
    c.train.steps = 1000
    c.train.rates = (3e-3, 9e-3, 27e-3, 81e-3)
    c.eval.metrics = ("same_targets",)
    c.eval.swaps = ()
    return c


def get_sweep():
    for length in LENGTHS:
        for spec in ("alibi", *(f"rope+alibi(slope_scale={scale})" for scale in SCALES)):
            c = get_config(f"pe={spec}")
            c.train.length, c.train.batch = length, BYTES // length
            c.eval.lengths = tuple(length * 2**power for power in range(5))
            c.eval.last = 32
            c.eval.targets = 2048
            yield c
