"""Defaults of a run (pe_jax/configs/base.py), for --config=configs/base.py:pe=SPEC."""

from pe_jax.configs.base import chosen, encodings, get_config, task

__all__ = ["chosen", "encodings", "get_config", "task"]
