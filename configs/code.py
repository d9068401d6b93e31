"""Which encodings use a longer context of code? Eight are trained at 32 tokens of the standard
library (some 100 bytes) and evaluated at up to 512. The references are KERPLE's logarithm trained
at 128 and at 512, and evaluated with windows of 8 and 4.

    pe-jax sweep --config=configs/code.py --workdir=DIR --out=results/code

0.8 M parameters in 4 layers of width 96, tokens of a BPE of 2,048, 2,500 steps of 4,096 tokens,
three seeds. Each encoding has the learning rate with the lowest bits of validation text over all
seeds; in results/code all have 9e-3. The last 16 tokens of every window are scored, the same at
every length. The same model gains almost nothing from a longer context of novels by bytes
(configs/headroom.py). So the study first tests whether code has more: KERPLE's logarithm trained at
128 tokens must be 0.05 bits per byte below the one trained at 32. A run takes some five hours of a
core, so use a GPU.

Pilots, one seed each at a rate of 9e-3: KERPLE's logarithm trained at 256 tokens has 1.09 bits per
byte in windows of 32 tokens and 0.96 in windows of 128. With 2 layers of width 64 and 1,250 steps,
trained at 128, it has 1.32 and 1.30: too small to use a longer context.
"""

from pe_jax.configs import base

LENGTH, LONGER, TOKENS = 32, (128, 512), 4096
ENCODINGS = ("rope", "alibi", "t5", "nope", "kerple_log", "fire", "transformer_xl", "sinusoidal")
ORACLE, SIZE = "kerple_log", (4, 96)


def get_config(arg="pe=rope", length=LENGTH):
    c = base.get_config(arg)
    c.data.tokenizer = "bpe:2048"
    c.lm.layers, c.lm.model = SIZE
    c.train.length, c.train.batch, c.train.steps = length, TOKENS // length, 2500
    c.train.rates, c.train.warmup = (3e-3, 9e-3), 100
    c.eval.lengths = tuple(LENGTH * 2**power for power in range(5))
    c.eval.metrics, c.eval.last = ("same_targets",), LENGTH // 2
    windows = tuple(f"window(window={LENGTH // part})" for part in (4, 8))
    c.eval.swaps = windows if c.pe.spec == ORACLE and length == LENGTH else ()
    return c


def get_sweep():
    for length in LONGER:
        c = get_config(f"pe={ORACLE}", length=length)
        c.run.oracle_of = LENGTH
        yield c
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
