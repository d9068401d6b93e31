"""Every value of a config that can be wrong is refused before anything is begun, with the rule."""

import dataclasses
import typing

import pytest

from pe_jax.encodings import ENCODINGS
from pe_jax.fields import hints
from pe_jax.model.config import LmConfig
from pe_jax.runs.run import Run
from pe_jax.specs.parse import defaults, parse

WRONG = {
    "train.final": (-0.1, 1.5),
    "train.warmup": (-5, 2.0),
    "train.beta1": (2.0, 1.0, -0.1),
    "train.beta2": (1.0,),
    "train.decay": (-1.0, float("nan")),
    "train.rate": (0.0, float("inf"), "fast", True),
    "train.rates": ((-1.0,), (1e-3, 1e-3), ("a",)),
    "train.steps": (0, 10**20, 1.5, "350", True, None),
    "train.loss": ("every", 1),
    "train.init_from": (3,),
    "lm.layers": (0, 1001, 2**31 - 1),
    "lm.mlp": (0, -4),
    "lm.vocab": (1e3, 2**31, 100),  # text is bytes
    "lm.dropout": (1.0, -0.1),
    "lm.embed_std": (-1.0,),
    "lm.memory": (-1,),
    "lm.dtype": ("float64", 3),
    "lm.causal": ("False", 1),
    "eval.lengths": ((), (1,), (64.5,), ("64",), 64),
    "eval.metrics": ("same_targets", (3,)),
    "eval.swaps": ((3,),),
    "eval.split": ("train",),
    "eval.targets": (0, -1, 1.5),
    "eval.batch_tokens": (0,),
    "eval.memory": ((0,), (1.5,), (2**31,)),
    "data.source": (3, None),
    "run.seeds": ((), (0, 0), (-1,), (2**31,), (0.5,), (True,), 3),
    "run.mesh": ("data:2,data:2", "data", "data:0", "data:²", "model:2"),
    "log.checkpoint_seconds": (-1.0, "soon"),
    "log.valid_every": (0, 1.5),
}


def test_a_wrong_value_of_a_config_is_refused_by_name(subtests):
    for name in WRONG:
        with subtests.test(name=name):
            section, field = name.split(".")
            for value in WRONG[name]:
                with pytest.raises(ValueError, match=name) as told:
                    Run.of({"pe": "rope", section: {field: value}})
                assert "\n" not in str(told.value), value


@pytest.mark.parametrize("spec", ["learned(length=8)", "randomized(max=8)+rope", "rnn(length=8)"])
def test_a_training_length_beyond_the_positions_of_an_encoding_is_refused(spec):
    with pytest.raises(ValueError, match="serves 8 positions, and a memory of 0 and 16 tokens"):
        Run.of({"pe": spec, "train": {"length": 16}, "eval": {"lengths": (16,)}})


def wrong(hint):
    """Values that no field with this annotation may have."""
    kinds = {hint, typing.get_origin(hint), *typing.get_args(hint)}
    if bool in kinds:
        return ["yes"]
    return [3] if {str, typing.Literal} & kinds else ["x", float("nan"), -(10**9)]


def test_a_wrong_value_of_an_encoding_is_refused_by_name():
    dims = LmConfig().dims(64)
    free = {("forget_gate", "start"), ("ssmax", "s")}  # any finite number
    free |= {("xpos", "middle"), ("jordan_rope", "middle")}
    for name, cls in ENCODINGS.items():
        for field in defaults(cls):
            for value in wrong(hints(cls)[field]):
                if (name, field) in free and value == -(10**9):
                    continue
                (member,) = parse(name)
                with pytest.raises(ValueError, match=field):
                    member.with_fields({field: value}).encoding(dims)
                    pytest.fail(f"{name} takes {field}={value!r}")


WRONG_SPECS = """
rope(base=0) rope(base=-1.0) learned(length=-1) learned(length=0) rope()() rope(base=1e400)
t5(buckets=0) window(window=0) rope(base=10)(base=5) rope(base=10.0,base=5.0) rope( rope[first]
learned(where='input')[::2]
""".split()
WRONG_SPECS.append(f"rope(base=1{'0' * 400})")


def test_a_wrong_value_in_a_spec_is_refused(subtests):
    for spec in WRONG_SPECS:
        with subtests.test(spec=spec):
            with pytest.raises(ValueError, match="must be|cannot read|has base twice|drop one"):
                Run.of({"pe": spec})


def test_a_file_that_ends_the_program_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import sys\nsys.exit(1)\n")
    with pytest.raises(ValueError, match="mine.py does not import: SystemExit: 1"):
        Run.of({"pe": f"{path}:Mine"})


def test_an_encoding_made_directly_checks_its_fields_too():
    rope = ENCODINGS["rope"](LmConfig().dims(64))
    with pytest.raises(ValueError, match="RoPE's base must be a finite number above 0, got 0.0"):
        dataclasses.replace(rope, base=0.0)
