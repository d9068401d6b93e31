"""The programs of a run, from the shapes of their inputs. Nothing is computed, so they can be
lowered and compiled for absent devices, as libtpu does for a TPU v5e.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, Sharding, SingleDeviceSharding

from configs import encodings_gpu
from pe_jax.evaluation.scoring import target_nats
from pe_jax.runs.run import Run
from pe_jax.training import mesh as meshes
from pe_jax.training.step import init, make_steps, structure

TOPOLOGIES = {4: "v5e:2x2", 8: "v5e:2x4"}
"""The smallest topology with each number of chips."""
EVALUATED = 16384
"""Tokens of the evaluated windows."""
FULL = re.compile(r"temporaries \(([\d.]+)G\) exceeds available HBM \(([\d.]+)G\)")
"""The compiler's message for a program that does not fit."""


@contextlib.contextmanager
def backend(platform: str, devices: int = 1) -> Iterator[None]:
    """Context in which the package builds the programs of this platform, "tpu" or "gpu", with this
    number of devices: all seeds at once, fused attention on one device, and dense attention up to a
    larger size than on a CPU.
    """
    with (
        mock.patch.object(jax, "default_backend", lambda: platform),
        mock.patch.object(jax, "device_count", lambda: devices),
    ):
        yield


def training(run: Run, mesh: Mesh | None = None) -> tuple[Any, tuple[Any, Any]]:
    """(the jitted `steps` of step.py, the shapes of the state and of the batches for one step), on
    the mesh if there is one.
    """
    seeds, train = run.run.seeds, run.train
    graphdef, _ = structure(run.lm, run.encodings)
    state = jax.eval_shape(lambda: init(run.lm, run.encodings, train, seeds))
    shape = 1, len(seeds), train.batch, train.length + 1
    batches = jax.ShapeDtypeStruct(shape, jnp.int32)
    if mesh:
        state = jax.tree.map(placed, state, meshes.shardings(mesh, state))
        batches = placed(batches, meshes.batch_sharding(mesh))
    return make_steps(graphdef, train, seeds, mesh), (state, batches)


def evaluation(run: Run, length: int) -> tuple[Any, tuple[Any, Any, Any], dict[str, Any]]:
    """(`target_nats`, the shapes of its inputs, its static arguments) for the number of windows of
    `length` tokens that an evaluation takes at once, with all tokens scored.
    """
    graphdef, params = structure(run.lm, run.encodings)
    windows = max(1, run.eval.batch_tokens // length)
    tokens = jax.ShapeDtypeStruct((windows, length + 1), jnp.int32)
    encodings = tuple(encoding.at(length) for encoding in run.encodings)
    static = {"graphdef": graphdef, "encodings": encodings, "last": length}
    return target_nats, (params, tokens, jax.ShapeDtypeStruct((), jnp.int32)), static


def placed(inputs: Any, sharding: Sharding) -> Any:
    """The shapes of arrays with this sharding."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), inputs)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program of a run of configs/encodings_gpu.py."""

    spec: str
    program: Literal["training", "evaluation"]
    changes: tuple[tuple[str, Any], ...] = ()
    """Changed values of the config: ("run.mesh", "data:4")."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Case:
        """The case of a recorded row."""
        return cls(row["spec"], row["program"], tuple(map(tuple, row["changes"])))

    def lower(self) -> Any:
        """The program, lowered for the chips: one step of all seeds, or one pass over the number of
        windows that an evaluation takes at once.
        """
        config = encodings_gpu.get_config(f"pe={self.spec}")
        config.update_from_flattened_dict(dict(self.changes))
        run = Run.of(config.to_dict())
        count = math.prod(meshes.parse(run.run.mesh).values())
        smallest = min(there for there in TOPOLOGIES if there >= count)
        chips = topologies.get_topology_desc(TOPOLOGIES[smallest], "tpu").devices[:count]
        static: dict[str, Any] = {}
        with backend("tpu", count):
            if self.program == "evaluation":
                program, inputs, static = evaluation(run, EVALUATED)
            else:
                sizes = tuple(meshes.parse(run.run.mesh).values())
                on = Mesh(np.array(chips).reshape(sizes), meshes.AXES) if count > 1 else None
                program, inputs = training(run, on)
            if count == 1:
                inputs = placed(inputs, SingleDeviceSharding(chips[0]))
            return program.lower(*inputs, **static)


def measure(lowered: Any) -> dict[str, Any]:
    """The requirements of a program on each chip: bytes of memory by use, operations, bytes moved,
    and the seconds of its compilation. For a program that does not fit, the bytes of temporaries
    that it needs and those available.
    """
    begun = time.monotonic()
    try:
        program = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if not (said := FULL.search(str(error))):
            raise
        lacking, available = (round(float(size) * 2**30) for size in said.groups())
        needs: dict[str, Any] = {"temporaries": lacking, "available": available}
        return needs | {"seconds": round(time.monotonic() - begun)}
    memory, cost = program.memory_analysis(), program.cost_analysis()
    needs = {
        "arguments": memory.argument_size_in_bytes,
        "results": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
        "seconds": round(time.monotonic() - begun),
    }
    if " while(" in program.as_text():  # what is inside a loop is counted once
        return needs
    return needs | {"operations": cost["flops"], "moved": cost["bytes accessed"]}
