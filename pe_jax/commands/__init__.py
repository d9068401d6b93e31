"""The command line: `pe-jax` and its commands."""
