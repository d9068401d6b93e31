"""Which encodings use a longer context of text? Eight are trained at 64 bytes of novels and
evaluated at up to 1,024. The references are KERPLE's logarithm trained at 256 and at 1,024, and
evaluated with windows of 16 and 8.

    PE_JAX_CORPORA=DIR pe-jax sweep --config=configs/headroom.py --workdir=DIR \
    --out=results/headroom

0.5 M parameters, a step of 16,384 bytes, 41 M bytes in all. Each encoding has the learning rate
with the lowest bits of validation text over all three seeds. The last 32 bytes of every window
are scored, the same at every length. These sizes are the middle rung of configs/ladder.py.

Pilots on this text and model, one run each at a rate of 1e-3, in 2,000 steps: RoPE was trained at
256 and at 1,024. The longer one's validation loss was higher by 0.08 bits per byte in bytes and by
0.01 with the tokens of bpe:2048. The loss of kerple_log falls as fast at 256 as at 64.
"""

from configs import encodings
from pe_jax.configs import base

LENGTH, LONGER, BYTES = 64, (256, 1024), 16384
ENCODINGS = ("rope", "alibi", "t5", "nope", "kerple_log", "fire", "transformer_xl", "sinusoidal")
ORACLE, SIZE = "kerple_log", (4, 96)


def get_config(arg="pe=rope", size=SIZE, length=LENGTH):
    c = base.get_config(arg)
    c.data.source = encodings.text()
    c.lm.layers, c.lm.model = size
    c.train.length, c.train.batch, c.train.steps = length, BYTES // length, 2500
    c.train.rates, c.train.warmup = (3e-3, 9e-3, 27e-3), 100
    c.eval.metrics, c.eval.last, c.eval.batch_tokens = ("same_targets",), LENGTH // 2, BYTES
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
