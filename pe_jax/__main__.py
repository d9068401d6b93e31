"""`python -m pe_jax` is `pe-jax`."""

from pe_jax.commands.cli import main

if __name__ == "__main__":
    main()
