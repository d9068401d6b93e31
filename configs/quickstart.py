"""The quickstart's sweep is in pe_jax/configs/quickstart.py; here for configs/quickstart.py."""

from pe_jax.configs.quickstart import ENCODINGS, get_config, get_sweep

__all__ = ["ENCODINGS", "get_config", "get_sweep"]
