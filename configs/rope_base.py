"""Does RoPE fail beyond its training length L because some of its pairs have not turned once within
L? 24 models with bases of 10, 100, 10,000 and 500,000 and heads of 16 and 32 components are trained
at 64, 256 and 1,024 bytes of novels and evaluated at up to 4 L.

    PE_JAX_CORPORA=DIR pe-jax sweep --config=configs/rope_base.py --workdir=runs/rope_base \
    --out=results/rope_base
    python -m experiments.studies.verdicts rope_base
    python -m experiments.studies.rises

Pair i of a head of K components turns by base^(-2i / K) a position. The predictor is the share of
the K / 2 pairs that turn by less than 2 pi within L (`short_pairs`): at longer distances such a
pair reaches angles that were never seen (Peng et al., 2023; arXiv:2309.00071). The rise is the
bits per byte at 2 L less those at L on the same targets, the mean over three seeds.

Predictions, stated before the first run:

1. Where the share is 0, the rise is below 0.1 bits.
2. Where the share is above 0.3, the rise is above 1 bit.
3. Over the 24 models, the rank correlation (Spearman) of share and rise is at least 0.7. Below it
   the predictor is rejected, whatever the first two say.

A prediction of the first two fails with the first model that breaks it. The runs of Press et al.
(2022), KERPLE and DAPE with RoPE are then placed on the same axis. The table has no oracle: it
measures robustness, not the use of context.

0.1 M parameters, 1,000 steps of 4,096 bytes. Every model has the rate with the lowest bits of
validation text over its seeds. The grid began as 3e-3, 9e-3 and 27e-3. In the first seven
models 9e-3 was 0.12 to 0.16 bits better than 3e-3, and 27e-3 the best of the six that had tried it,
so that 81e-3 took the place of 3e-3. Seven models of L = 1,024 were scored at all lengths before
81e-3 had run for them. As 9e-3 was then the best of nine models, at the end of that grid, 3e-3 was
run for the 17 that lacked it. So scores beyond L had been printed, of at least three models when
81e-3 was added and of all when 3e-3 was; the choice is by validation alone, and neither was ever
chosen. The last 32 bytes of every window are scored.
"""

import math

from configs import encodings
from pe_jax.configs import base

LENGTHS, HEADS, BASES = (64, 256, 1024), (4, 2), (10.0, 100.0, 1e4, 5e5)
BYTES = 4096  # per step


def short_pairs(theta, head, length):
    """Share of the pairs of a head that turn by less than 2 pi within `length` positions."""
    turns = [length * theta ** (-2 * i / head) / (2 * math.pi) for i in range(head // 2)]
    return sum(turn < 1 for turn in turns) / len(turns)


def get_config(arg="pe=rope"):
    c = base.get_config(arg)
    c.data.source = encodings.text()
    c.train.steps = 1000
    c.train.rates = (3e-3, 9e-3, 27e-3, 81e-3)
    c.eval.metrics, c.eval.last, c.eval.targets = ("same_targets",), 32, 8192
    c.eval.swaps = ()
    return c


def get_sweep():
    for length in LENGTHS:
        for heads in HEADS:
            for theta in BASES:
                c = get_config(f"pe=rope(base={theta})")
                c.lm.heads = heads
                c.train.length, c.train.batch = length, BYTES // length
                c.eval.lengths = tuple(length * 2**power for power in range(3))
                yield c
