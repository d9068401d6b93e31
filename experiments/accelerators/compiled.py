"""One program compiled for TPU v5e by libtpu, which needs no TPU for it: the memory that it takes
on each chip, its operations and the bytes that it moves. Nothing is run.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Mapping
from typing import Any, Literal

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from configs import encodings_gpu
from experiments.accelerators import programs
from pe_jax.runs.run import Run
from pe_jax.training import mesh

TOPOLOGIES = {4: "v5e:2x2", 8: "v5e:2x4"}
"""The smallest that has so many chips, by their number."""
EVALUATED = 16384
"""Tokens of the windows that are evaluated."""
FULL = re.compile(r"temporaries \(([\d.]+)G\) exceeds available HBM \(([\d.]+)G\)")
"""What the compiler says of a program that does not fit."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A program of a run of configs/encodings_gpu.py."""

    spec: str
    program: Literal["training", "evaluation"]
    changes: tuple[tuple[str, Any], ...] = ()
    """Values of the config that are set otherwise: ("run.mesh", "data:4")."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Case:
        """The case of a recorded row."""
        return cls(row["spec"], row["program"], tuple(map(tuple, row["changes"])))

    def lower(self) -> Any:
        """The program, lowered for the chips: one step of all seeds, or one pass over as many
        windows as an evaluation takes at once.
        """
        config = encodings_gpu.get_config(f"pe={self.spec}")
        config.update_from_flattened_dict(dict(self.changes))
        run = Run.of(config.to_dict())
        count = math.prod(mesh.parse(run.run.mesh).values())
        smallest = min(there for there in TOPOLOGIES if there >= count)
        chips = topologies.get_topology_desc(TOPOLOGIES[smallest], "tpu").devices[:count]
        alone = SingleDeviceSharding(chips[0])
        with programs.backend("tpu"):
            if self.program == "evaluation":
                program, inputs, static = programs.evaluation(run, EVALUATED)
                return program.lower(*programs.placed(inputs, alone), **static)
            if count == 1:
                program, inputs = programs.training(run)
                return program.lower(*programs.placed(inputs, alone))
            program, inputs = programs.training(run, mesh.make(run.run.mesh, chips))
            return program.lower(*inputs)


def measure(lowered: Any) -> dict[str, Any]:
    """What a program needs on each chip: bytes of memory by what holds them, operations, bytes
    moved, and the seconds of its compilation. Of one that does not fit, the bytes of temporaries
    that it would have and those that there are.
    """
    begun = time.monotonic()
    try:
        program = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if not (said := FULL.search(str(error))):
            raise
        sizes = (round(float(size) * 2**30) for size in said.groups())
        lacking = dict(zip(("temporaries", "available"), sizes, strict=True))
        return lacking | {"seconds": round(time.monotonic() - begun)}
    memory, cost = program.memory_analysis(), program.cost_analysis()
    measured = {
        "arguments": memory.argument_size_in_bytes,
        "results": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
        "seconds": round(time.monotonic() - begun),
    }
    if " while(" in program.as_text():  # what is inside a loop is counted once
        return measured
    return measured | {"operations": cost["flops"], "moved": cost["bytes accessed"]}
