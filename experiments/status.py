"""How the runs of a work directory stand.

python -m experiments.status --workdir=DIR
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("status", "python -m experiments.status")
