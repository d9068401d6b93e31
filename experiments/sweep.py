"""Executes many runs, each in its own process.

python -m experiments.sweep --config=configs/quickstart.py --workdir=DIR
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.main("sweep")
