"""What an encoding reads, by probes of one layer, and the spec that it is judged by."""

from pe_jax.atlas import kinds
from pe_jax.model.config import LmConfig


def test_kinds_of_encodings():
    wanted = {
        "learned": kinds.Kind("absolute", False),
        "rope": kinds.Kind("relative", True),
        "fire": kinds.Kind("relative", False),
        "tupe": kinds.Kind("both", False),
        "cope": kinds.Kind("order", True),
        "randomized": kinds.Kind("moved", None),
    }
    assert {name: kinds.kind(name) for name in wanted} == wanted


def test_what_only_moves_positions_is_judged_with_rope():
    dims = LmConfig().dims(64)
    assert [kinds.spec_of(name, dims) for name in ("shape", "nope", "log_n")] == [
        "shape+rope",
        "nope",
        "log_n",
    ]
