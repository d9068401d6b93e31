"""pe_jax/configs/base.py, which has every knob of a run, for --config=configs/base.py:pe=SPEC."""

from pe_jax.configs.base import encodings, get_config, spec_of

__all__ = ["encodings", "get_config", "spec_of"]
