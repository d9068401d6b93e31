"""Trains, evaluates and records one run.

python -m experiments.run --config=configs/base.py:pe=randomized+rope --workdir=DIR
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.main("run")
