"""The folder of a run in a work directory: which one it is, which seeds train in it together, and
whether its result is the one that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from pe_jax.errors import Refused
from pe_jax.reason import Reason
from pe_jax.record import Begun, Result, Row
from pe_jax.runs import layout
from pe_jax.runs.run import Run, users_files
from pe_jax.runs.scores import file_of
from pe_jax.runs.sections import section, with_tuples
from pe_jax.storage import records
from pe_jax.tasks import section as tasks
from pe_jax.training import free_memory


def find(run: Run, workdir: Path) -> Path:
    """`<workdir>/<run.id>`; or, if that is not there, the folder of an earlier release, in which
    ids were made otherwise, whose config trains the same. Of several it is the one with the most
    seeds.
    """
    return find_all([run], workdir)[run.id]


def find_all(runs: Iterable[Run], workdir: Path) -> dict[str, Path]:
    """The folder of each run, as `find` gives it, by its id. Reads each config once, and none of a
    folder that is the one of another of the runs.
    """
    folders = {run.id: workdir / run.id for run in runs}
    seeds = {id: 0 for id, folder in folders.items() if not folder.exists()}
    for stem in {_stem(id) for id in seeds}:
        for path, begun in _of_stem(workdir, stem, without=folders):
            if (id := _id(begun.config)) in seeds and len(begun.seeds) > seeds[id]:
                folders[id], seeds[id] = path, len(begun.seeds)
    return folders


def _stem(name: str) -> str:
    """The name of a folder without the 8 digits at its end."""
    return name[:-8]


def _of_stem(
    workdir: Path, stem: str, without: Container[str] = ()
) -> Iterator[tuple[Path, Begun]]:
    """The folders of this stem that have a config, but for those of these names."""
    for path in sorted(workdir.glob("*/config.json")):
        name = path.parent.name
        if re.fullmatch(re.escape(stem) + "[0-9a-f]{8}", name) and name not in without:
            try:
                begun = records.read(Begun, path)
            except Refused:
                continue
            if begun:
                yield path.parent, begun


def _id(config: Mapping[str, Any]) -> str | None:
    """The id of the run of a config; None if that cannot be run: its parent or the file of its
    encoding has gone.
    """
    try:
        return Run.of(config).id
    except (ValueError, TypeError, OSError):
        return None


def check_sources(folder: Path, begun: Begun) -> None:
    """Refused if a user's file that the run's config names is another than when it was trained."""
    for path, known in begun.sources.items():
        if users_files(begun.config).get(path) != known:
            raise Refused(
                f"{path} has changed since {folder} was trained with it: restore the file, or "
                "train with the new one, which is another run"
            )


def groups(folder: Path, run: Run) -> tuple[tuple[int, ...], ...]:
    """The seeds of each program that trains the seeds of the run: a seed stays in the program with
    which its training began, and the others begin in programs of their own.
    """
    begun = [group for group in layout.trained_groups(folder) if set(group) & set(run.run.seeds)]
    known = {seed for group in begun for seed in group}
    return (*begun, *run.run.groups([seed for seed in run.run.seeds if seed not in known]))


def answer(run: Run, folder: Path) -> Result | None:
    """The folder's result, if it is whole, and of the seeds, the evaluation and the rates of the
    run.
    """
    try:
        result = records.read(Result, folder / "result.json")
    except Refused:  # it is made anew
        return None
    if result is None or set(result.seeds) != set(run.run.seeds):
        return None
    try:
        same = _asked(run.config) == _asked(result.config)
    except (ValueError, TypeError):  # what an earlier release was asked for may be gone
        same = False
    if not same:
        return None
    if any(":" in name for name in (*run.eval.swaps, *run.eval.metrics)):  # a file may have changed
        try:
            kept = records.read(Result, file_of(layout.of_one_rate(folder), run.eval, run.task))
        except Refused:
            return None
        return result if kept and set(result.rows) <= set(kept.rows) else None
    return result


def starved(result: Result) -> list[Row]:
    """The rows that too little memory has left without a value."""
    return [row for row in result.rows if row.reason is Reason.OUT_OF_MEMORY]


def complete(run: Run, folder: Path) -> Result | None:
    """The answer, unless it lacks scores that there is memory for by now."""
    result = answer(run, folder)
    if result is None or not starved(result):
        return result
    left = free_memory.free(jax.local_devices())
    fits = any(left is None or row.at is None or row.at <= left for row in starved(result))
    return None if fits else result


def _asked(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a config asks for besides seeds and what decides the run's id."""
    lm, train, run, evaluation = (
        section(name, config.get(name, {})) for name in ("lm", "train", "run", "eval")
    )
    rates = (train.rates, run.choosing) if train.rates else ()
    task = tasks.make(with_tuples(config.get("task", {})), lm.causal)
    return rates, evaluation.resolved(train.length, lm.memory, task)
