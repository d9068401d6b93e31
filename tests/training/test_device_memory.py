"""Training that memory cannot hold is refused before it begins; what fits is not."""

import dataclasses

import jax
import numpy as np
import pytest

from pe_jax.errors import Refused
from pe_jax.model.config import LmConfig
from pe_jax.runs.identity import parameters
from pe_jax.specs.parse import make
from pe_jax.training import device_memory
from pe_jax.training.config import TrainConfig
from pe_jax.training.loop import train
from pe_jax.training.session import Session
from pe_jax.training.step import structure

LM = LmConfig(layers=3, model=16, heads=2)
SHALLOW = dataclasses.replace(LM, layers=1)
TRAIN = TrainConfig(steps=2, steps_per_call=2, length=16, batch=4)
TEXTS = [np.arange(2000) % 250]


@pytest.mark.parametrize(
    "spec",
    [
        "nope",
        "learned+t5[::2]",
        "kerple_log(per_layer=('*',))[:2]",
        "conv[0:]",
        "gated_delta[0]+nope",  # in place of the attention of a layer
    ],
)
@pytest.mark.parametrize("lm", [LM, dataclasses.replace(SHALLOW, gated=True, biases="all")])
def test_the_size_of_a_model_is_that_of_its_parameters(spec, lm):
    encodings = make(spec, lm.dims(16))
    built = sum(leaf.size for leaf in jax.tree.leaves(structure(lm, encodings)[1]))
    assert parameters(lm, encodings).total == built


def test_a_program_that_does_not_fit_is_refused_before_it_runs(free, monkeypatch, tmp_path):
    model, needed = (SHALLOW, make("rope", SHALLOW.dims(TRAIN.length)), TRAIN), []
    monkeypatch.setattr(device_memory, "in_bytes", lambda n: needed.append(n) or str(n))
    free(1000)
    with pytest.raises(Refused, match=r"training needs \d+, \d+ are free: lower train.batch"):
        train(*model, (0, 1), TEXTS, tmp_path / "small", Session())
    assert not list(tmp_path.glob("small/*"))
    free(needed[0])
    train(*model, (0, 1), TEXTS, tmp_path / "large", Session())
