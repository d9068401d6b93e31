"""Programs for accelerators, on a machine that has none: every encoding lowers for CUDA and TPU."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import sampled

from configs import encodings
from experiments.accelerators import programs
from pe_jax.encoding import Encoding
from pe_jax.runs.run import Run

PLATFORMS = ("cuda", "tpu")
ALONE = [name for name, beside in encodings.BESIDE.items() if not beside]
SPECS = (*encodings.specs(), *ALONE)
OF_JAX = {"cu_threefry2x32_ffi"}  # custom calls that every JAX for CUDA has: random bits


def run(spec):
    """A tiny model of one layer, whose evaluation is as long as its training."""
    lm = {"layers": 1, "model": 16, "heads": 2, "dtype": "bfloat16"}
    train = {"length": 8, "batch": 2}
    evaluation = {"lengths": (8,), "batch_tokens": 8}
    return Run.of(
        {"pe": spec, "lm": lm, "train": train, "eval": evaluation, "run": {"seeds": (0,)}}
    )


def with_attention(run, form):
    return dataclasses.replace(run, lm=dataclasses.replace(run.lm, attention=form))


def lowered(program, inputs, **static):
    """The program in StableHLO, for both platforms at once."""
    with programs.backend("tpu"):
        traced = program.trace(*inputs, **static)
    return traced.lower(lowering_platforms=PLATFORMS).as_text()


def assert_portable(module):
    """No number of float64, and no call of a library that only a CPU has."""
    assert not re.findall(r"\bf64\b|xf64>", module)
    assert set(re.findall(r"custom_call @([\w.]+)", module)) <= OF_JAX


def lowers(own, form):
    program, inputs, static = programs.evaluation(with_attention(own, form), 8)
    assert_portable(lowered(program, inputs, **static))


@pytest.mark.parametrize("spec", SPECS)
def test_training_lowers_for_cuda_and_tpu(spec):
    assert_portable(lowered(*programs.training(run(spec))))


@pytest.mark.parametrize("spec", sampled(SPECS, lambda spec: run(spec).encodings))
def test_evaluation_lowers_for_cuda_and_tpu(spec):
    for form in ("dense", "blockwise"):
        lowers(run(spec), form)


@dataclasses.dataclass(frozen=True)
class Factored(Encoding):
    """Q of a QR decomposition: LAPACK on a CPU, another library on every accelerator."""

    def relative_bias(self, params, n):
        return n[None] + jnp.linalg.qr(jnp.ones((2, 2)))[0][:, :1]


@dataclasses.dataclass(frozen=True)
class Called(Encoding):
    """Distances by way of the host."""

    def relative_bias(self, params, n):
        shape = jax.ShapeDtypeStruct((2, *n.shape), np.float32)
        return jax.pure_callback(lambda n: np.stack([n, n]), shape, n)


@dataclasses.dataclass(frozen=True)
class Double(Encoding):
    """Distances by way of float64."""

    def relative_bias(self, params, n):
        with jax.enable_x64(True):
            both = n.astype(jnp.float64)[None] * jnp.ones((2, 1))
            return both.astype(jnp.float32)


@pytest.mark.parametrize(
    ("bad", "error", "said"),
    [
        (Factored, AssertionError, "geqrf"),
        (Called, NotImplementedError, "callback"),
        (Double, AssertionError, "f64"),
    ],
)
def test_what_an_accelerator_lacks_is_noticed(bad, error, said):
    own = run("nope")
    own = dataclasses.replace(own, encodings=(bad(own.encodings[0].dims),))
    with pytest.raises(error, match=said):
        lowers(own, "dense")
