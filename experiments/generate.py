"""Text from a trained model.

python -m experiments.generate --workdir=DIR/RUN --prompt="def "
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("generate", "python -m experiments.generate")
