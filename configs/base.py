"""Every knob of a run is in pe_jax/configs/base.py; here for configs/base.py:pe=SPEC."""

from pe_jax.configs.base import encodings, get_config, spec_of

__all__ = ["encodings", "get_config", "spec_of"]
