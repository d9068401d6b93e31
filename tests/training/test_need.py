"""Training that memory cannot hold is refused before anything is allocated; what fits is not."""

import dataclasses
import time

import jax
import numpy as np
import pytest
from commands import Lab, run_of, tiny

from pe_jax.compose.parse import make
from pe_jax.errors import Refused
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import sizes
from pe_jax.tasks.text import TEXT
from pe_jax.training import need
from pe_jax.training.config import TrainConfig
from pe_jax.training.loop import train
from pe_jax.training.session import Session
from pe_jax.training.step import model_size, structure

LM = LmConfig(layers=3, model=16, heads=2)
SHALLOW = dataclasses.replace(LM, layers=1)
TRAIN = TrainConfig(steps=2, steps_per_call=2, length=16, batch=4)
TEXTS = [np.arange(2000) % 250]


@pytest.fixture
def free(monkeypatch):
    """free(bytes) makes that many free."""
    return lambda size: monkeypatch.setattr(need, "free_bytes", lambda devices: size)


@pytest.mark.parametrize(
    "spec", ["nope", "learned+t5[::2]", "kerple_log(per_layer=('*',))[:2]", "conv[0:]"]
)
@pytest.mark.parametrize("lm", [LM, dataclasses.replace(SHALLOW, gated=True, biases="all")])
def test_the_size_of_a_model_is_that_of_its_parameters(spec, lm):
    encodings = make(spec, lm.dims(16))
    built = sum(leaf.size for leaf in jax.tree.leaves(structure(lm, encodings)[1]))
    assert model_size(lm) + sum(sum(sizes(e).values()) for e in encodings) == built


TOO_LARGE = [
    ("rope", {"lm.vocab": 10**8}, "lm.vocab"),
    ("rope", {"lm.model": 2**20}, "lm.model"),
    ("rope", {"lm.mlp": 2**31 - 1}, "lm.mlp"),
    ("rope", {"lm.layers": 1000, "lm.model": 4096}, "lm.layers"),
    ("rope", {"lm.memory": 2**31 - 1}, "lm.memory"),
    ("rope", {"train.batch": 10**7}, "train.batch"),
    ("rope", {"train.steps_per_call": 2**31 - 1, "train.steps": 2**31 - 1}, "steps_per_call"),
    ("learned(length=1000000000)", {}, "encoding's fields"),
    ("t5(buckets=1000000000)", {}, "encoding's fields"),
]


def test_what_is_too_large_is_told_by_its_knob_at_once(free, subtests):
    for spec, values, knob in TOO_LARGE:
        with subtests.test(spec=spec):
            free(10 * 10**9)
            began = time.process_time()
            run = run_of(spec, **values)
            why = need.lacking(run.lm, run.encodings, run.train, run.task, len(run.run.seeds), None)
            assert time.process_time() - began < 5
            assert "10 GB are free" in why and knob in why.partition("lower")[2]
            free(None)
            assert not need.lacking(
                run.lm, run.encodings, run.train, run.task, len(run.run.seeds), None
            )


def test_the_arithmetic_refuses_nothing_that_fits_and_the_program_what_does_not(
    free, monkeypatch, tmp_path
):
    model, needed = (SHALLOW, make("rope", SHALLOW.dims(TRAIN.length)), TRAIN), []
    least = sum(part.bytes for part in need._allocations(*model, TEXT, 2, None))
    monkeypatch.setattr(need, "in_bytes", lambda number: needed.append(number) or str(number))
    free(least - 1)
    assert need.lacking(*model, TEXT, 2, None)
    free(least)
    assert not need.lacking(*model, TEXT, 2, None)
    with pytest.raises(Refused, match=r"training needs \d+, "):
        train(*model, (0, 1), TEXTS, tmp_path / "small", Session())
    most = needed[-2]
    assert least < most < 20 * least and not list(tmp_path.glob("small/*"))
    free(most)
    train(*model, (0, 1), TEXTS, tmp_path / "large", Session())


def test_the_command_refuses_it_in_one_line_and_writes_nothing(tmp_path):
    lab = Lab(tmp_path, tmp_path.parent / "programs")
    done = lab.run(tmp_path / "runs", **{"lm.mlp": 2**31 - 1}).wait()
    assert done.code == 2 and done.err.count("\n") == 1, done.err
    assert "training needs at least" in done.err and not list(tmp_path.glob("runs/*"))
    flags = tiny(**{"data.source": lab.text, "lm.mlp": 2**31 - 1})
    planned = lab.start("sweep", "--config=configs/base.py:pe=rope", *flags, "--dry_run").wait()
    assert planned.code == 0 and "note: rope: on this machine training needs" in planned.out
