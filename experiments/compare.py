"""Two folders of results side by side.

python -m experiments.compare A B [--out=DIR]
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("compare", "python -m experiments.compare")
