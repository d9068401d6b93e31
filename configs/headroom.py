"""Who uses a longer context of text? Eight encodings trained at 256 bytes of the novels, evaluated
at up to 4,096, beside RoPE trained at 1,024, and RoPE with windows of 64 and 32 bytes.

    PE_JAX_CORPORA=DIR pe-jax sweep --config=configs/headroom.py --workdir=DIR
    --out=results/headroom

0.5 M parameters, a step of 16,384 bytes, 33 M bytes in all. Each encoding has the learning rate
with the lowest bits of validation text, all three seeds choosing. Of every window the last 128
bytes are scored, the same at every length. These sizes are the middle rung of configs/ladder.py.
"""

from configs import encodings
from pe_jax.configs import base

LENGTH, LONGER, BYTES = 256, 1024, 16384
ENCODINGS = ("rope", "alibi", "t5", "nope", "kerple_log", "fire", "transformer_xl", "sinusoidal")
SIZE = 4, 96


def get_config(arg="pe=rope", size=SIZE, length=LENGTH):
    c = base.get_config(arg)
    c.data.source = encodings.text()
    c.lm.layers, c.lm.model = size
    c.train.length, c.train.batch, c.train.steps = length, BYTES // length, 2000
    c.train.rates, c.train.warmup = (1e-3, 3e-3, 9e-3), 100
    c.eval.lengths = tuple(LENGTH * 2**power for power in range(5))
    c.eval.metrics, c.eval.last, c.eval.batch_tokens = ("same_targets",), LENGTH // 2, BYTES
    windows = tuple(f"window(window={LENGTH // part})" for part in (4, 8))
    c.eval.swaps = windows if c.pe.spec == "rope" and length == LENGTH else ()
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
    c = get_config("pe=rope", length=LONGER)
    c.run.oracle_of = LENGTH
    yield c
