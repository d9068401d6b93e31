"""The programs of a run, from the shapes of their inputs alone: nothing is computed, so that they
can be lowered and compiled for devices that are not there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, Sharding

from pe_jax.evaluation.scoring import target_nats
from pe_jax.runs.run import Run
from pe_jax.training.mesh import batch_sharding, shardings
from pe_jax.training.step import init, make_steps, structure


@contextlib.contextmanager
def backend(platform: str) -> Iterator[None]:
    """Within it the package builds the programs that it would build on this platform, "tpu" or
    "gpu": all seeds at once, and dense attention up to a larger size than on a CPU.
    """
    with mock.patch.object(jax, "default_backend", lambda: platform):
        yield


def training(run: Run, mesh: Mesh | None = None) -> tuple[Any, tuple[Any, Any]]:
    """(the jitted `steps` of step.py, the shapes of the state and of the batches for one step, on
    the mesh where there is one).
    """
    seeds, train = run.run.seeds, run.train
    graphdef, _ = structure(run.lm, run.encodings)
    state = jax.eval_shape(lambda: init(run.lm, run.encodings, train, seeds))
    shape = 1, len(seeds), train.batch, train.length + 1
    batches = jax.ShapeDtypeStruct(shape, jnp.int32)
    if mesh:
        state = jax.tree.map(placed, state, shardings(mesh, state))
        batches = placed(batches, batch_sharding(mesh))
    return make_steps(graphdef, train, seeds, mesh), (state, batches)


def evaluation(run: Run, length: int) -> tuple[Any, tuple[Any, Any, Any], dict[str, Any]]:
    """(`target_nats`, the shapes of its inputs, its static arguments) for as many windows of
    `length` tokens as an evaluation takes at once, all of their tokens scored.
    """
    graphdef, params = structure(run.lm, run.encodings)
    windows = max(1, run.eval.batch_tokens // length)
    tokens = jax.ShapeDtypeStruct((windows, length + 1), jnp.int32)
    encodings = tuple(encoding.at(length) for encoding in run.encodings)
    static = {"graphdef": graphdef, "encodings": encodings, "last": length}
    return target_nats, (params, tokens, jax.ShapeDtypeStruct((), jnp.int32)), static


def placed(inputs: Any, sharding: Sharding) -> Any:
    """The shapes of arrays that lie where the sharding says."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), inputs)
