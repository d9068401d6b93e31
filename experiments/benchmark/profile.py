"""The time of a training step by part: the instructions of XLA's program, by the named scopes of
the model. Several fused instructions count for the scope of the last.
"""

from __future__ import annotations

import collections
import itertools
import os
import re
import resource
import statistics
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from experiments.benchmark import turns
from experiments.benchmark.compared import conditions, step_of
from experiments.benchmark.sides import CALL, Ask, Facts, Workload, serve, timed
from pe_jax.report.phrases import count
from pe_jax.runs.environment import commit
from pe_jax.training.step import init, make_steps, structure

PARTS = {
    "products of dense layers": r"\b(attention|mlp|loss)\b(?!.*\battend\b).*\bdot",
    "products of attention": r"\battend\b.*\bdot",
    "softmax, mask, rotation": r"\battend\b",
    "layouts of heads": r"\battention\b",
    "activation of the MLP": r"\bmlp\b",
    "loss over the vocabulary": r"\bloss\b",
    "optimizer": r"\boptimizer\b",
    "norms, sums, embedding": "",
}
"""The scopes of each part; an instruction belongs to the first part that it matches."""


def run(spec: str, times: int, out: Path) -> None:
    """Profiles the step of a spec `times` times on one core, and on all of them."""
    cores, host, asked, versions = os.sched_getaffinity(0), turns.machine(), {}, {}
    for own in ({max(cores)}, cores):
        worker = turns.Worker("experiments.benchmark.profile", spec, cores=own)
        asked[str(len(own))], versions = [worker.ask() for _ in range(times)], worker.facts
        worker.close()
    record = {"commit": commit(), "machine": host, "load_after": round(os.getloadavg()[0], 2)}
    record |= {"spec": spec, "shape": Workload().sizes(), "cores": asked} | versions
    turns.report(record, markdown(record), out / "profile")


def markdown(record: Mapping[str, Any]) -> str:
    """A row for each part: its milliseconds a step on one core and on all, and their shares."""
    columns, faults = collections.defaultdict(list), []
    for asked in record["cores"].values():
        whole = statistics.median(one["ms"] for one in asked)
        for part in PARTS:
            ms = statistics.median(one["parts"].get(part, 0.0) for one in asked)
            columns[part] += [f"{ms:.1f}", f"{100 * ms / whole:.0f} %"]
        columns["the step"] += [f"{whole:.1f}", ""]
        faults.append(f"{statistics.median(one['faults'] for one in asked):,.0f}")
    cores = [count(int(n), "core") for n in record["cores"]]
    head = ["part", *(f"{column}, {on}" for on in cores for column in ("ms", "share"))]
    faults = " and ".join(faults)
    return (
        f"{step_of(record)}, {record['spec']}, jax {record['versions']['jax']}: where its time "
        f"goes, by XLA's trace. {conditions(record)} Page faults a step: {faults}.\n\n"
        + turns.table(head, [[part, *cells] for part, cells in columns.items()])
    )


def side(spec: str, work: Workload) -> tuple[Facts, Ask]:
    """Each answer covers CALL steps in one call: milliseconds a step by wall time and by part, and
    page faults a step.
    """
    encodings = work.encodings(spec)
    graphdef, params = structure(work.lm, encodings)
    state, batches = init(work.lm, encodings, work.train, (0,)), work.batches()[:, None]
    program = make_steps(graphdef, work.train, (0,)).lower(state, batches).compile()
    scopes = _scopes(program.as_text() or "")

    def call() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(program(state, batches))

    def ask() -> Facts:
        spent: dict[str, float] = collections.defaultdict(float)
        with tempfile.TemporaryDirectory() as folder:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            with jax.profiler.trace(folder):
                _, times = timed(call, CALL)
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
            (path,) = Path(folder).rglob("*.xplane.pb")
            data = jax.profiler.ProfileData.from_file(str(path))
            lines = (line for plane in data.planes for line in plane.lines)
            for event in itertools.chain.from_iterable(line.events for line in lines):
                if scope := scopes.get(event.name):
                    part = next(
                        name for name, pattern in PARTS.items() if re.search(pattern, scope)
                    )
                    spent[part] += event.duration_ns / 1e6 / CALL
        return {"ms": times["ms"], "parts": spent, "faults": faults / CALL}

    call()
    return {"versions": {name: version(name) for name in ("jax", "flax", "optax")}}, ask


def _scopes(program: str) -> dict[str, str]:
    """The scopes of each instruction, followed by its operation and kind, without loops and calls,
    which contain others.
    """
    found = re.findall(r"^\s*(?:ROOT )?%([\w.\-]+) = [^=]*? ([\w\-]+)\((.*)$", program, re.M)
    return {
        name: "/".join([*re.findall('op_name="([^"]*)"', rest), kind])
        for name, kind, rest in found
        if kind not in ("while", "call", "conditional")
    }


if __name__ == "__main__":
    serve(lambda: side(sys.argv[1], Workload()))
