"""A pretrained model at longer lengths, with scalings of RoPE and other encodings swapped in.

python -m experiments.extend --model=hf:DIR --source=files:PATH --workdir=DIR
"""

from pe_jax.commands import cli

if __name__ == "__main__":
    cli.start("extend", "python -m experiments.extend")
