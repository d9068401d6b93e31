"""A trained run at other lengths, by other metrics or with other swaps.

python -m experiments.evaluate --workdir=DIR/RUN --lengths=128,256
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("evaluate", "python -m experiments.evaluate")
