"""Factors of `longrope` for a finished run, searched on its validation text.

python -m experiments.longrope --workdir=DIR/RUN --length=256
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("longrope", "python -m experiments.longrope")
