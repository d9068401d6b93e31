"""pe_jax/configs/base.py, the defaults of a run, for --config=configs/base.py:pe=SPEC."""

from pe_jax.configs.base import chosen, encodings, get_config, task

__all__ = ["chosen", "encodings", "get_config", "task"]
