"""An atlas of encodings: what each does to attention, in figures, a table and one HTML page.

python -m experiments.atlas [--encodings=rope,alibi] [--workdir=DIR] --out=DIR
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("atlas", "python -m experiments.atlas")
