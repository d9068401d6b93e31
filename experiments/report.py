"""Tables, figures and an HTML page of finished runs.

python -m experiments.report --workdir=DIR [--out=results/NAME]
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("report", "python -m experiments.report")
