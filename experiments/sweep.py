"""Many runs, each in a process of its own.

python -m experiments.sweep --config=configs/quickstart.py --workdir=DIR
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("sweep")
