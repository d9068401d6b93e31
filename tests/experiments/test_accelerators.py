"""Programs for accelerators, on a machine that has none: every encoding lowers for CUDA and TPU."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import pytest
from helpers import DIMS, covering

from configs import encodings
from experiments.accelerators import programs
from experiments.accelerators.programs import counted, measure
from pe_jax.encoding import Encoding
from pe_jax.runs.run import Run
from pe_jax.specs.parse import make
from pe_jax.training import mesh

PLATFORMS = ("cuda", "tpu")
ALONE = [name for name, beside in encodings.BESIDE.items() if not beside]
SPECS = (*encodings.specs(), *ALONE)
COVERING = covering(SPECS, lambda spec: make(spec, DIMS))
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


def assert_lowers(own, form):
    program, inputs, static = programs.evaluation(with_attention(own, form), 8)
    assert_portable(lowered(program, inputs, **static))


@pytest.mark.parametrize("spec", COVERING)
def test_training_lowers_for_cuda_and_tpu(spec):
    assert_portable(lowered(*programs.training(run(spec))))


@pytest.mark.parametrize("form", ["blockwise", pytest.param("dense", marks=pytest.mark.slow)])
@pytest.mark.parametrize("spec", COVERING)
def test_evaluation_lowers_for_cuda_and_tpu(spec, form):
    """Dense is what training is, too, so that it is slow here."""
    assert_lowers(run(spec), form)


def test_training_is_split_over_a_mesh():
    """Over eight devices that a CPU is made of: an eighth of the batch, a whole state each."""
    own = run("rope")
    own = dataclasses.replace(own, train=dataclasses.replace(own.train, batch=8))
    program, (state, batches) = programs.training(own, mesh.make("data:8"))
    for part, devices in ((state, 1), (batches, 8)):
        for leaf in jax.tree.leaves(part):
            share = math.prod(leaf.sharding.shard_shape(leaf.shape))
            assert share * devices == leaf.size and len(leaf.sharding.device_set) == 8
    assert "num_partitions = 8" in program.lower(state, batches).as_text()


@dataclasses.dataclass(frozen=True)
class Factored(Encoding):
    """Q of a QR decomposition: LAPACK on a CPU, another library on every accelerator."""

    def relative_bias(self, params, n):
        return n[None] + jnp.linalg.qr(jnp.ones((2, 2)))[0][:, :1]


@dataclasses.dataclass(frozen=True)
class Double(Encoding):
    """Distances by way of float64."""

    def relative_bias(self, params, n):
        with jax.enable_x64(True):
            both = n.astype(jnp.float64)[None] * jnp.ones((2, 1))
            return both.astype(jnp.float32)


@pytest.mark.parametrize(("bad", "said"), [(Factored, "geqrf"), (Double, "f64")])
def test_what_an_accelerator_lacks_is_noticed(bad, said):
    own = run("nope")
    own = dataclasses.replace(own, encodings=(bad(own.encodings[0].dims),))
    with pytest.raises(AssertionError, match=said):
        assert_lowers(own, "dense")


GIB = 2**30


class Full:
    def compile(self):
        raise jax.errors.JaxRuntimeError(
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
            "temporaries (17.25G) exceeds available HBM (15.75G)."
        )


def test_a_program_is_measured():
    """Operations and bytes are left out where a loop does not say how often it turns."""
    looped = jax.jit(lambda a: jax.lax.fori_loop(0, a[0].astype(int), lambda i, a: a * a[0], a))
    for program, known in ((jax.jit(lambda a: a @ a), True), (looped, False)):
        needs = measure(program.lower(jnp.ones(8)))
        assert needs["arguments"] == 32 and needs["temporaries"] >= 0
        assert ("operations" in needs) == ("moved" in needs) == known
    needs = measure(Full())
    assert (needs["temporaries"], needs["available"]) == (17.25 * GIB, 15.75 * GIB)


def test_every_turn_of_a_loop_is_counted():
    """As of the products written one after another, without the loop's own few numbers."""
    matrices = jnp.ones((7, 64, 64))
    looped = jax.jit(lambda a: jax.lax.map(lambda b: b @ b, a)).lower(matrices).compile()
    assert " while(" in looped.as_text()
    needs = counted(looped)
    assert needs["operations"] == pytest.approx(7 * 2 * 64**3, rel=0.01)
    assert needs["moved"] > 7 * 2 * 64**2 * 4
