"""Many runs, a process each. Finished ones are skipped, and one that fails stops no other.

    pe-jax sweep --config=FILE --workdir=DIR [--jobs=N] [--dry_run] [--out=DIR2]
    pe-jax sweep --config=FILE --workdir=DIR --shard=2/8
    pe-jax sweep --config=FILE --workdir=DIR --shard=$SLURM_ARRAY_TASK_ID/8
    pe-jax sweep --config=FILE --workdir=DIR --engine=ray [--address=auto]

FILE is a Python file whose get_sweep() yields the config of each run, as configs/quickstart.py.
--also adds encodings, for example one of your own: --also=my_dir/my_file.py:MyEncoding.
FILE:pe=SPEC runs that encoding alone. --config.SECTION.FIELD=VALUE sets a field of every run.
"""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_collections import ConfigDict

from pe_jax import contract, terms
from pe_jax.commands import cli, config_file
from pe_jax.errors import Refused

if TYPE_CHECKING:
    from pe_jax.record import Result
    from pe_jax.runs.run import Run
    from pe_jax.sweep.queue import Item

    Study = tuple[Run, ...]  # the run of a config at each of its rates

BASE = "pe_jax.configs.base"
STOPPED = "stopped, runs go on from their last checkpoint"
OPTIONS = cli.Options()
_CONFIG = OPTIONS.string("config", None, "Config file with get_sweep().", required=True)
_WORKDIR = OPTIONS.string("workdir", "runs", "Folder of the runs.")
_JOBS = OPTIONS.integer(
    "jobs", 0, "Runs at a time; 0: one on an accelerator, else one a core.", lower_bound=0
)
_DRY_RUN = OPTIONS.boolean("dry_run", False, "List the runs with their parameters, and stop.")
_OUT = OPTIONS.string("out", None, "Folder for the tables and the report; default: none.")
_ALSO = OPTIONS.string("also", "", "More encodings to run, separated by commas.")
_SHARD = OPTIONS.string(
    "shard", "1/1", "I/N: every N-th run from the I-th on, as in $SLURM_ARRAY_TASK_ID/8."
)
_ENGINE = OPTIONS.choice("engine", "local", "This machine or Ray.", enum_values=["local", "ray"])
_ADDRESS = OPTIONS.string("address", "", "Ray cluster to join, as HOST:6379, or auto.")


def main() -> int:
    environment = dict(os.environ)
    # This process only waits: the accelerator belongs to the runs.
    os.environ["JAX_PLATFORMS"] = "cpu"
    file = config_file.read(_CONFIG.value)
    with contract.calling(_CONFIG.value, f"{file.module.__file__}:", config_file.SAID):
        made = runs_of(file.module, file.config, file.fields, terms.elements(_ALSO.value))
    from pe_jax.runs import rates
    from pe_jax.sweep import queue

    queue.check_engine(_ENGINE.value, _ADDRESS.value)
    shard = queue.parse_shard(_SHARD.value)
    studies = _distinct([rates.runs_of(config.to_dict()) for config in made])
    if not studies:
        raise ValueError("get_sweep() of --config lists no run")
    part = shard.own(studies)
    if _DRY_RUN.value:
        show(_at_each_rate(part), {run.id for study in part if not _result(study) for run in study})
        return 0
    return _carried_out(part, studies, environment)


def _carried_out(part: list[Study], studies: list[Study], environment: dict[str, str]) -> int:
    # `part` is that of this shard: the shard that finishes last writes the report of all studies
    from pe_jax.commands import console
    from pe_jax.report import labels
    from pe_jax.sweep import queue, status

    out, workdir = console.folder(_OUT.value), Path(_WORKDIR.value)
    _check([run for study in part if not _result(study) for run in study])
    also = [f"--also={_ALSO.value}"] * bool(_ALSO.value)
    words = [f"--config={_CONFIG.value}", *also, *config_file.words(), "--workdir=DIR"]
    command = shlex.join(["pe-jax", "sweep", *words])  # without the flags of this machine
    by = environment, _ENGINE.value, _JOBS.value, _ADDRESS.value
    failed = queue.run_all(_at_each_rate(part), command, *by)
    if failed is None:
        return cli.stopped(STOPPED)
    chosen = []
    for runs in part:
        if len(runs) > 1 and not {run.id for run in runs} & failed.keys():
            try:
                chosen.append(_best(runs))
            except Refused as error:
                failed[runs[0].id] = str(error)
    best = queue.run_all(chosen, command, *by)
    if best is None:
        return cli.stopped(STOPPED)
    failed |= best
    ids = {run.id for runs in studies for run in runs}
    standings = [run for run in status.standings(workdir) if run.id in ids]
    fallen = {run.id for run in standings if run.state == "failed"}  # of other shards, too
    theirs = [s for s in studies if s not in part and not fallen & {run.id for run in s}]
    others = sum(map(_pending, theirs))
    results = [result for study in (part if others else studies) if (result := _result(study))]
    if results:
        missing = [*console.missing(standings, results).values()]
        again = shlex.join(["pe-jax", "report", f"--workdir={workdir}", f"--out={out}"])
        console.publish(results, None if others else out, missing=missing, again=again)
    if others:
        left = f"{others} of {len(studies)} runs are still to be done by other shards"
        print(left, file=sys.stderr)
    names = labels.names([run for runs in studies for run in runs])
    for id, reason in failed.items():
        log = workdir / id / "log.txt"
        where = f" ({log})" if log.exists() else ""
        print(f"failed: {names[id]}: {reason}{where}", file=sys.stderr)
    if failed:
        again = f"the same command tries again what has failed: {cli.command_line()}"
        print(again, file=sys.stderr)
    return 1 if failed else 0


def show(items: Sequence[Item], left: set[str]) -> None:
    """Prints a row for each run, with its id if it is `left`: what --dry_run lists."""
    from pe_jax.commands.console import stdout
    from pe_jax.report import labels, sheet
    from pe_jax.report.phrases import count

    names, rows = labels.names([item.run for item in items]), []
    for item in items:
        run, state = item.run, "to be scored" if item.result else "to do"
        state = state if run.id in left else "finished"
        sizes = str(len(run.run.seeds)), str(run.train.steps), f"{run.parameters().total:,}"
        rows.append(tuple(map(sheet.Printed, (names[run.id], run.id, *sizes, state))))
    columns = ("run", "id", "seeds", "steps", "parameters", "state")
    spare = ("id", "parameters", "seeds", "steps")
    table = sheet.Sheet("", columns, (("", tuple(rows)),), spare=spare)
    stdout().print(*sheet.terminal([table]))
    print(f"{count(len(items), 'run')}, {len(left)} to do")


def _item(run: Run, config: dict[str, Any], asked: str | None) -> Item:
    from pe_jax.runs.folder import Folder
    from pe_jax.sweep.queue import Item

    return Item(run, Folder.of(run.id, _WORKDIR.value), config, asked)


def _at_each_rate(studies: Sequence[Study]) -> list[Item]:
    from pe_jax.runs import rates

    each = ((run, len(runs) > 1) for runs in studies for run in runs)
    asked = [(rates.trial(run), None) if several else (run, run.asked()) for run, several in each]
    return [_item(run, run.config, what) for run, what in asked]


def _best(runs: Study) -> Item:
    # The run that is evaluated: the only one, or the one at the best of several rates. Refused if
    # none can be chosen.
    from pe_jax.runs import rates

    if len(runs) == 1:
        return _item(runs[0], runs[0].config, runs[0].asked())
    run, tried = rates.best(runs, _WORKDIR.value)
    every = [one.rate for one in tried]
    config = run.config | {"train": run.config["train"] | {"rates": every}}
    return _item(run, config, run.asked(every))


def _result(study: Study) -> Result | None:
    # None if it has not finished, or lacks what is asked for
    try:
        return _best(study).result
    except Refused:  # no rate can be chosen yet
        return None


def _pending(study: Study) -> bool:
    # Whether a shard has to do it yet; no longer where no rate can be chosen of those tried
    try:
        return _best(study).result is None
    except Refused:
        return any(item.result is None for item in _at_each_rate([study]))


def _check(left: list[Run]) -> None:
    # Prints doubts about the text of the runs that are left. Refused if a run cannot begin.
    from pe_jax.commands import console
    from pe_jax.runs.progress import Display

    for run in {run.encodings: run for run in left}.values():
        for line in console.natures(run):
            print(line)
    by_needs = {repr((run.data, run.eval, run.train.length, run.train.batch)): run for run in left}
    for run in by_needs.values():
        with Display():  # a large text is read into the store
            about = run.load().trained.about  # refused if it is too short
        for doubt in about.doubts():
            print(f"note: {doubt}")


def runs_of(
    module: Any, config: ConfigDict, values: Mapping[str, Any], also: Sequence[str] = ()
) -> list[ConfigDict]:
    """The configs of a module's get_sweep(), or the one `config`; then one of its get_config for
    each spec of `also`. Each gets the `values`, by names such as "train.steps"; AttributeError for
    a name that it lacks, with the nearest.
    """
    lists = hasattr(module, "get_sweep")
    configs = []
    for run in (module.get_sweep() or ()) if lists else [config]:
        if not isinstance(run, ConfigDict):
            raise ValueError(f"get_sweep() must give configs of base.py, got {str(run)[:60]!r}")
        configs.append(run.copy_and_resolve_references())  # before the file changes it again
    own = getattr(module, "get_config", None)
    if also and lists and getattr(own, "__module__", BASE) == BASE:
        raise ValueError("--also runs the file's own get_config: define get_config in it")
    configs += [config_file.config_of(module, f"pe={spec}") for spec in also]
    for run in configs:
        for name, value in values.items():
            *parents, last = name.split(".")
            section = functools.reduce(getattr, parents, run)
            getattr(section, last)  # setattr would add a misspelt one
            setattr(section, last, value)
    return configs


def _distinct(studies: list[Study]) -> list[Study]:
    # Equal ones once. ValueError for two that train the same and ask for different things, since a
    # run has one result.
    known: dict[str, Study] = {}
    for study in studies:
        for run in study:
            first = known.setdefault(run.id, study)
            parts = [[(of.eval, of.run, of.train) for of in runs] for runs in (study, first)]
            if parts[0] != parts[1]:
                raise ValueError(
                    f"two runs of the sweep train the same, {run.label}, and differ in section "
                    "eval, run.seeds or train.rates: make one of them, or use `pe-jax evaluate`"
                )
    return [*{id(study): study for study in known.values()}.values()]
