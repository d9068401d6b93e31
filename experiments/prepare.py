"""A text as a TFDS dataset.

python -m experiments.prepare --source=files:PATH --name=NAME --data_dir=DIR
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("prepare", "python -m experiments.prepare")
