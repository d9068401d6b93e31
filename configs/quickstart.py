"""The quickstart's sweep (pe_jax/configs/quickstart.py), for --config=configs/quickstart.py."""

from pe_jax.configs.quickstart import ENCODINGS, get_config, get_sweep

__all__ = ["ENCODINGS", "get_config", "get_sweep"]
