"""What an encoding reads, by probes of one layer, and the spec that it is judged by."""

from pe_jax.atlas import facts
from pe_jax.model.config import LmConfig


def test_kinds_of_encodings():
    wanted = {
        "learned": facts.Kind("absolute", False),
        "rope": facts.Kind("relative", True),
        "fire": facts.Kind("both", False),
        "streaming": facts.Kind("both", False),
        "grape_ap": facts.Kind("absolute", False),
        "tupe": facts.Kind("both", False),
        "cope": facts.Kind("order", True),
        "randomized": facts.Kind("moved", None),
    }
    assert {name: facts.kind(name) for name in wanted} == wanted


def test_what_only_moves_positions_is_judged_with_rope():
    dims = LmConfig().dims(64)
    assert [facts.spec_of(name, dims) for name in ("shape", "nope", "log_n")] == [
        "shape+rope",
        "nope",
        "log_n",
    ]
