"""Which group an encoding belongs to, by the hooks that it overrides. No encoding is known by name,
except rope, which stands beside encodings that only move the positions which others read.
"""

from __future__ import annotations

from collections.abc import Sequence

from pe_jax.compose.parse import parse
from pe_jax.encoding import Dims, Encoding, sites

FACTS = {"at", "limit"}  # hooks that change no array
GROUPS = {  # an encoding belongs to the first group that has one of its hooks
    "content": {
        "locate",
        "logits",
        "normalize",
        "relative_keys",
        "relative_queries",
        "relative_values",
    },
    "rotation": {"qk"},
    "bias": {"bias", "gate", "relative_bias", "relative_gate"},
    "input": {"embed"},
    "scale": {"scale"},
    "mask": {"reach"},
}


def group(encodings: Sequence[Encoding]) -> str:
    """Where position enters: content (together with the content of queries, keys or values),
    rotation, bias, input, scale or mask; "none" where it does not enter, as in nope.
    """
    used = _used(encodings)
    return next((name for name, hooks in GROUPS.items() if used & hooks), "none")


def moves_positions(encodings: Sequence[Encoding]) -> bool:
    """Whether they change positions and nothing else: alone they are the same as nope."""
    used = _used(encodings)
    return bool(used) and used <= FACTS | {"positions"}


def spec_of(name: str, dims: Dims) -> str:
    """The spec to measure an encoding by: its name, with rope where it only moves positions."""
    alone = [member.cls(dims, **member.fields) for member in parse(name)]
    return f"{name}+rope" if moves_positions(alone) else name


def _used(encodings: Sequence[Encoding]) -> set[str]:
    return {site for encoding in encodings for site in sites(encoding)}
