"""Two folders of results side by side, or every model of one against a baseline.

python -m experiments.compare A B [--out=DIR]
python -m experiments.compare A --baseline=rope [--out=DIR]
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("compare", "python -m experiments.compare")
