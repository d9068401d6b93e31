"""The README's table: seven encodings, three seeds, trained at 64 bytes of text, evaluated at up
to 1024, each at the learning rate that validation text prefers (configs/rates.py).

    pe-jax sweep --config=quickstart.py --workdir=DIR

`learned` is shown with clipping, which no paper proposes, to have a curve beyond its table. One run
more is the reference for what a longer context is worth: Transformer-XL trained at 256 bytes, as
many a step.
"""

from pe_jax.configs import base

# The longest runs first: the last one of a sweep has the machine to itself.
ENCODINGS = ("transformer_xl", "t5", "alibi", "rope", "sinusoidal", "learned(clip=True)", "nope")
RATE, RATES = 27e-3, {"nope": 9e-3}
LONGER = 256


def get_config(arg="pe=rope"):
    c = base.get_config(arg)
    c.train.rate = RATES.get(c.pe.spec, RATE)
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
    c = get_config("pe=transformer_xl")
    c.run.oracle_of, c.eval.last, c.eval.swaps = c.train.length, c.train.length // 2, ()
    c.train.batch, c.train.length = c.train.batch * c.train.length // LONGER, LONGER
    yield c
