"""Every sweep of configs/: its runs are as many as it says, and every run passes all checks."""

import importlib
from pathlib import Path

import pytest

from configs import encodings, gpt2_small, markov, pj_rope
from pe_jax.commands.sweep import runs_of
from pe_jax.configs import base, quickstart
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.rope import RoPE
from pe_jax.runs.run import Run
from pe_jax.specs.parse import parse
from pe_jax.specs.swap import replaces


def first_of(config):
    """The run at the first of the rates of a config."""
    train = config.to_dict()["train"]
    rates = train["rates"] or (train["rate"],)
    return Run.of(config.to_dict() | {"train": train | {"rate": rates[0], "rates": ()}})


def test_the_sweep_over_encodings_has_every_encoding_once():
    runs = [first_of(config) for config in encodings.get_sweep()]
    used = {member.name for run in runs for member in parse(run.config["pe"]["spec"])}
    left_out = {"abacus", "position_coupling"}  # for addition alone
    assert used == set(ENCODINGS) - left_out - {*encodings.SWAPS}
    assert all(replaces(ENCODINGS[name], RoPE) for name in encodings.SWAPS)


def test_the_models_of_pj_rope_have_the_published_setting():
    runs = [Run.of(config.to_dict()) for config in pj_rope.get_sweep()]
    assert len({run.id for run in runs}) == len(runs) == 9
    for run in runs:
        rates = run.train.rates_by_step()
        assert {round(float(rates(step)), 7) for step in (0, 1, 150, 299)} == {3e-3}
        assert run.train.length == 1024 and run.run.seeds == (0, 1, 2)
        assert bool(run.eval.swaps) == ("rope" in run.config["pe"])


def test_the_quickstart_is_seven_encodings_and_one_trained_at_a_longer_length():
    *runs, oracle = (Run.of(config.to_dict()) for config in quickstart.get_sweep())
    assert len({run.id for run in runs}) == 7
    for run in runs:
        assert run.train.length == 64 and run.eval.lengths == (64, 128, 256, 512, 1024)
        assert len(set(run.run.seeds)) == 3 and run.data.source == "stdlib"
        assert {"same_targets", "nonoverlapping"} <= set(run.eval.metrics)
    assert (oracle.run.oracle_of, oracle.train.length, oracle.eval.last) == (64, 256, 32)
    assert oracle.train.batch * 256 == runs[0].train.batch * 64
    assert oracle.train.steps == runs[0].train.steps


def test_the_study_of_markov_chains_has_ten_encodings_at_two_lengths():
    runs = [first_of(config) for config in markov.get_sweep()]
    assert len({run.id for run in runs}) == len(runs) == 20
    for run, length in zip(runs, [64] * 10 + [256] * 10, strict=True):
        assert run.train.length == length and run.eval.lengths[-1] == 4096
        assert run.train.batch * length == 2048 and run.eval.last == length // 2


def test_gpt2_small_is_gpt2_small():
    for config in gpt2_small.get_sweep():
        run = Run.of(config.to_dict() | {"data": {"tokenizer": "bytes"}})
        own = run.parameters().total - run.parameters().encoding
        assert own == 123_587_328  # 12 * 12 * 768**2 + (50304 + 25) * 768
        tokens = run.train.batch * run.train.length * run.train.steps
        assert tokens == pytest.approx(2.5e9, rel=1e-4)
        assert run.eval.lengths[-1] == 16384 and run.lm.vocab == 50304


FIELDS = """
import dataclasses
from typing import Any, Literal

from pe_jax import Encoding


@dataclasses.dataclass(frozen=True)
class Mine(Encoding):
    ends: tuple[int, ...] | None = None
    kind: Literal["a", "b"] | None = None
    more: Any = None
    made: tuple = dataclasses.field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "made", (1, 2))
"""


def test_ones_own_encoding_may_have_fields_of_many_kinds(tmp_path):
    (tmp_path / "mine.py").write_text(FIELDS)
    spec = f"{tmp_path / 'mine.py'}:Mine"
    config = base.get_config(f"pe={spec}")
    config.pe.Mine.ends, config.pe.Mine.kind = (3, 4), "b"
    (made,) = Run.of(config.to_dict()).encodings
    assert (made.ends, made.kind, made.more, made.made) == ((3, 4), "b", None, (1, 2))


STUDIES = {path.stem for path in Path(encodings.__file__).parent.glob("*.py")}


def test_every_study_has_its_runs():
    model = Path(__file__).parents[1] / "golden/pretrained/llama_tied"
    for name in sorted(STUDIES):
        module = importlib.import_module(f"configs.{name}")
        pretrained = name in ("continued", "scaling_ruler")
        values = {"train.init_from": f"hf:{model}"} if pretrained else {}
        if name == "gpt2_small":
            values = {"data.tokenizer": f"file:{model / 'tokenizer.json'}"}
        configs = runs_of(module, module.get_config(), values)
        ids = {first_of(config).id for config in configs}
        assert len(ids) == len(configs) > 0, name


PAPERS = sorted(path.stem for path in Path(encodings.__file__).parent.glob("papers/*.py"))
SHRUNK = {name.removesuffix("_small") for name in PAPERS if name.endswith("_small")}
SAMPLE = [pytest.param(n, marks=pytest.mark.slow if n in SHRUNK else ()) for n in PAPERS]


@pytest.mark.parametrize("name", SAMPLE)
def test_every_run_of_a_paper_can_begin_and_no_two_are_one(name):
    module = importlib.import_module(f"configs.papers.{name}")
    runs = [first_of(config) for config in module.get_sweep()]
    assert len({run.id for run in runs}) == len(runs) > 0
    first_of(module.get_config())


@pytest.mark.parametrize("name", [name for name in PAPERS if name.endswith("_small")])
def test_a_small_study_has_the_encodings_of_the_paper(name):
    """What it shrinks are models, steps and lengths."""
    small, whole = (
        list(importlib.import_module(f"configs.papers.{of}").get_sweep())
        for of in (name, name.removesuffix("_small"))
    )
    members = [{config.pe.spec.split("(length")[0] for config in runs} for runs in (small, whole)]
    assert members[0] == members[1]
    assert {config.task.name for config in small} <= {config.task.name for config in whole}
