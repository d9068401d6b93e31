"""Memory: what a pass needs is known before it runs, and one that does not fit is not run."""

import dataclasses
import multiprocessing
import threading

import commands
import numpy as np
import psutil
import pytest
from evaluated import evaluated, stacked

from pe_jax.evaluation import scoring
from pe_jax.evaluation.config import EvalConfig
from pe_jax.model.config import LmConfig
from pe_jax.record import Reason
from pe_jax.runs import environment
from pe_jax.specs.parse import make
from pe_jax.training import device_memory
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, structure

LM = LmConfig(layers=1, model=16, heads=2, attention="dense")


def scored(lengths, lm=LM, batch_tokens=4096):
    """(the rows of an untrained model at these lengths, what was said)."""
    encodings = make("rope", lm.dims(8))
    params = init(lm, encodings, TrainConfig(), (0,))["params"]
    models = stacked(structure(lm, encodings)[0], params, encodings, seeds=(0,))
    asked = EvalConfig(lengths, ("nonoverlapping",), (), targets=4096, batch_tokens=batch_tokens)
    text = [np.random.default_rng(0).integers(0, 256, 5000)]
    asked = asked.resolved(8)
    with commands.messages() as said:
        rows = evaluated(models, text, asked).rows
    return rows, said


def test_a_length_that_does_not_fit_is_told_and_the_others_are_scored(free):
    free(600_000)
    rows, said = scored((8, 64, 1024), batch_tokens=64)
    assert said == [] and [row.value is None for row in rows] == [False, False, True]
    assert rows[2].reason is Reason.OUT_OF_MEMORY and rows[2].at > rows[2].free == 600_000
    assert rows[2].why == f"needs {rows[2].at / 1e6:.3g} MB, 0.6 MB are free"
    assert dataclasses.replace(rows[2], free=None).why == "out of memory"
    large = dataclasses.replace(rows[2], at=41_234_000_000, free=23 * 10**9)
    assert large.why == "needs 41.2 GB, 23 GB are free"


def test_attention_is_blockwise_where_dense_does_not_fit(free):
    free(None)
    dense, said = scored((8, 1024))
    assert said == []
    free(20_000_000)
    rows, (said,) = scored((8, 1024))
    assert said.startswith("1024 tokens: attention is blockwise, since the pass needs 6")
    assert said.endswith(" MB, 20 MB are free")
    assert rows[0] == dense[0] and rows[1].value != dense[1].value
    assert rows[1].value == pytest.approx(dense[1].value, abs=1e-5)


def test_passes_that_do_not_fit_together_run_one_after_another(free):
    free(10)
    whole, entered, left = device_memory.Budget(None), threading.Event(), threading.Event()

    def hold():
        with whole.take(5):
            entered.set()
            left.wait(10)

    with whole.take(6):
        other = threading.Thread(target=hold)
        other.start()
        with whole.take(4):  # it fits beside the first
            assert not entered.wait(0.1)
    assert entered.wait(10)
    free(3)  # it is looked at when nothing is taken
    assert whole.lacks(9) is None
    left.set()
    other.join()
    assert whole.lacks(9) == 3 and whole.lacks(3) is None


def measured(connection):
    """Sends what a dense pass was said to need, and what it took, in bytes."""
    sizes, needed = [], scoring.needed
    scoring.needed = lambda *args, **options: sizes.append(needed(*args, **options)) or sizes[-1]
    lm = dataclasses.replace(LM, heads=8)
    scored((8,), lm)
    before = psutil.Process().memory_info().rss
    scored((8, 2048), lm)
    connection.send((max(sizes), environment.peak_memory_mib() * 2**20 - before))


def test_the_estimate_is_what_is_taken():
    here, there = multiprocessing.Pipe()
    process = commands._context.Process(target=measured, args=(there,))
    process.start()
    there.close()
    need, took = here.recv()
    process.join()
    assert took / 1.5 < need < took * 1.5
