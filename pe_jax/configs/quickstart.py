"""The README's table: seven encodings, three seeds, trained at 64 bytes of text, evaluated at up
to 1024.

    pe-jax sweep --config=quickstart.py --workdir=DIR

`learned` is shown with clipping, which no paper proposes, to have a curve beyond its table.
"""

from pe_jax.configs import base

# The longest runs first: the last one of a sweep has the machine to itself.
ENCODINGS = ("transformer_xl", "t5", "alibi", "rope", "sinusoidal", "learned(clip=True)", "nope")


def get_config(arg="pe=rope"):
    return base.get_config(arg)


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
