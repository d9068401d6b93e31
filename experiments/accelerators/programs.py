"""The programs of a run, from the shapes of their inputs. Nothing is computed, so they can be
lowered and compiled for absent devices, as libtpu does for a TPU v5e.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, Sharding, SingleDeviceSharding

from pe_jax.evaluation.scoring import target_nats
from pe_jax.runs.run import Run
from pe_jax.training import mesh as meshes
from pe_jax.training.step import init, make_steps, structure

TOPOLOGIES = {4: "v5e:2x2", 8: "v5e:2x4"}
"""The smallest topology of TPU v5e with each number of chips."""
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84942979072
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 12 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
"""What XLA asks of an H100 (SXM), from NVIDIA's data sheet."""
EVALUATED = 16384
"""Tokens of the evaluated windows."""


class Chip(NamedTuple):
    """A chip that programs are compiled for, with its rates by the maker's data sheet."""

    title: str
    backend: str
    compiler: str
    """The package that compiles for it."""
    operations: float
    """Dense bfloat16 operations per second."""
    bandwidth: float
    """Bytes per second between its memory and its cores."""

    def devices(self, count: int) -> list[Any]:
        """As many such chips."""
        if self.backend == "gpu":
            described = {"target_config": H100, "topology": f"1x1x{count}"}
            return topologies.get_topology_desc("", "cuda", **described).devices
        smallest = min(there for there in TOPOLOGIES if there >= count)
        return topologies.get_topology_desc(TOPOLOGIES[smallest], "tpu").devices[:count]


CHIPS = {
    "v5e": Chip("TPU v5e", "tpu", "libtpu", 197e12, 819e9),
    "h100": Chip("H100", "gpu", "jax-cuda13-plugin", 989e12, 3352e9),
}
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
    """A program of a run of a config."""

    spec: str
    program: Literal["training", "evaluation"]
    changes: tuple[tuple[str, Any], ...] = ()
    """Changed values of the config: ("run.mesh", "data:4")."""
    config: str = "encodings_gpu"
    chip: str = "v5e"

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Case:
        """The case of a recorded row."""
        changes = tuple(map(tuple, row["changes"]))
        where = row.get("config", cls.config), row.get("chip", cls.chip)
        return cls(row["spec"], row["program"], changes, *where)

    def run(self) -> Run:
        """The run. Its text is not read, and stays in bytes whatever the vocabulary."""
        config = importlib.import_module(f"configs.{self.config}").get_config(f"pe={self.spec}")
        config.update_from_flattened_dict(dict(self.changes) | {"data.tokenizer": "bytes"})
        return Run.of(config.to_dict())

    def lower(self) -> Any:
        """The program, lowered for the chips: one step of all seeds, or one pass over the number of
        windows that an evaluation takes at once.
        """
        run, chip = self.run(), CHIPS[self.chip]
        count = math.prod(meshes.parse(run.run.mesh).values())
        chips = chip.devices(count)
        static: dict[str, Any] = {}
        with backend(chip.backend, count):
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
    memory = program.memory_analysis()
    needs = {
        "arguments": memory.argument_size_in_bytes,
        "results": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
        "seconds": round(time.monotonic() - begun),
    }
    return needs | counted(program)


def counted(program: Any) -> dict[str, float]:
    """Operations and bytes moved by XLA's count, which takes a loop for a single turn: the others
    are added. {} if a loop does not say how often it turns, or holds another one.
    """
    text = program.as_text()
    bodies = dict(re.findall(r"^(?:ENTRY )?(%[\w.-]+) \(.*?\{\n(.*?)^\}", text, re.M | re.S))
    cost = program.cost_analysis() or _cost(text)
    total = {"operations": cost["flops"], "moved": cost["bytes accessed"]}
    for condition, body in re.findall(r" while\(.*condition=(%[\w.-]+), body=(%[\w.-]+)", text):
        called = re.findall(r"calls=(%[\w.-]+)", bodies[condition])
        tested = "".join(bodies[name] for name in (condition, *called))
        bounds = set(re.findall(r" s32\[\]\S* constant\((\d+)\)", tested))
        if len(bounds) != 1 or " while(" in bodies[body]:
            return {}
        entry = text.partition("\n")[2].replace("\nENTRY ", "\n")
        turn = _cost("HloModule turn\n" + entry.replace(f"\n{body} (", f"\nENTRY {body} ("))
        others = int(bounds.pop()) - 1
        total["operations"] += others * turn["flops"]
        total["moved"] += others * turn["bytes accessed"]
    return total


# XLA's count of a program that need not be for a device of this machine.
def _cost(text: str) -> Mapping[str, float]:
    of_xla, client = importlib.import_module("jaxlib._jax"), jax.devices("cpu")[0].client
    module = importlib.import_module("jaxlib._hlo").hlo_module_from_text(text)
    return of_xla.hlo_module_cost_analysis(client, module)
