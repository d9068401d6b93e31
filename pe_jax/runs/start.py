"""Where training starts that does not start at random: train.init_from names a finished run
(warm_start.py) or a pretrained model (from_pretrained.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.runs.from_pretrained import FromPretrained, is_pretrained
from pe_jax.runs.warm_start import WarmStart
from pe_jax.training.config import TrainConfig

Start = WarmStart | FromPretrained


def start_of(
    train: TrainConfig,
    lm: LmConfig,
    spec: str,
    encodings: Sequence[Encoding],
    seeds: Sequence[int],
) -> Start | None:
    """What train.init_from names; None where it is "". Raises as the two do."""
    if is_pretrained(train.init_from):
        return FromPretrained.of(train, lm, spec, encodings)
    return WarmStart.of(train, lm, spec, encodings, seeds) if train.init_from else None
