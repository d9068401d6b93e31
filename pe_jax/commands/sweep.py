"""Many runs, each in a process of its own. Finished ones are skipped, and one that fails stops no
other.

    pe-jax sweep --config=FILE --workdir=DIR [--jobs=N] [--dry_run] [--out=DIR2]
    pe-jax sweep --config=FILE --workdir=DIR --shard=2/8
    pe-jax sweep --config=FILE --workdir=DIR --shard=slurm    # in an array
    pe-jax sweep --config=FILE --workdir=DIR --engine=ray [--address=auto]
    pe-jax sweep --status --workdir=DIR

FILE is a Python file that lists its runs by get_sweep():

    from pe_jax.configs import base

    def get_config(arg="pe=rope"):
        return base.get_config(arg)

    def get_sweep():
        for spec in ("rope", "alibi"):
            yield get_config(f"pe={spec}")

--also adds encodings, for example one of your own: --also=my_dir/my_file.py:MyEncoding.
FILE:pe=SPEC runs that encoding alone. --config.SECTION.FIELD=VALUE sets a field of every run.
"""

from __future__ import annotations

import copy
import functools
import os
import shlex
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags
from ml_collections import ConfigDict

from pe_jax.commands import cli, config_file

if TYPE_CHECKING:
    from pe_jax.record import Result
    from pe_jax.runs.run import Run
    from pe_jax.sweep.queue import Make

BASE = "pe_jax.configs.base"
OPTIONS = cli.Options()
_CONFIG = OPTIONS.string("config", None, "Config file with get_sweep().")
_WORKDIR = OPTIONS.string("workdir", "runs", "Folder of the runs.")
_JOBS = OPTIONS.integer(
    "jobs",
    0,
    "Runs at a time; the cores are shared out. 0: one beside an accelerator, else one a core.",
    lower_bound=0,
)
_DRY_RUN = OPTIONS.boolean("dry_run", "List the runs, their parameters and time, and stop.")
_OUT = OPTIONS.string("out", None, "Folder for the tables and the report; default: none.")
_STATUS = OPTIONS.boolean("status", "Show how the runs of --workdir stand, and stop.")
_ALSO = OPTIONS.string("also", "", "Encodings to run besides, separated by commas.")
_SHARD = OPTIONS.string(
    "shard",
    "1/1",
    "I/N: do every N-th run from the I-th on, so that N commands share the sweep; slurm: by the "
    "task of a SLURM array.",
)
_ENGINE = OPTIONS.string("engine", "local", "What runs the processes: local, this machine; or ray.")
_ADDRESS = OPTIONS.string(
    "address",
    "",
    "Of a Ray cluster to join, as HOST:6379, or auto; default: Ray is started on this machine.",
)
_PRINT_COMMANDS = OPTIONS.boolean("print_commands", "Print a command for each run, and stop.")


def main() -> int:
    if _STATUS.value:
        from pe_jax.commands import status

        return status.show(_workdir())
    if _CONFIG.value is None:
        return cli.fail("--config=FILE is required: a file of runs, or base.py:pe=rope for one")
    environment = dict(os.environ)
    # This process only waits: the accelerator belongs to the runs.
    os.environ["JAX_PLATFORMS"] = "cpu"
    configs = _configs(config_file.read(_CONFIG.value))
    from pe_jax.runs.run import Run
    from pe_jax.sweep import queue

    make = queue.choose(_ENGINE.value, _JOBS.value, _ADDRESS.value)
    shard = queue.parse_shard(_SHARD.value, environment)
    runs = _by_id([Run.of(config) for config in configs])
    if not runs:
        raise ValueError("get_sweep() of --config lists no run")
    own = {id: runs[id] for id in shard.own(list(runs))}
    if _PRINT_COMMANDS.value:
        command = _command_without("print_commands", "shard")
        for i in range(len(runs)):
            print(f"{command} --shard={i + 1}/{len(runs)}")
        return 0
    if _DRY_RUN.value:
        from pe_jax.commands import dry_run

        dry_run.show(list(own.values()), _workdir(), _JOBS.value)
        return 0
    return _carried_out(own, runs, make, environment)


def _carried_out(
    runs: dict[str, Run], every: dict[str, Run], make: Make, environment: dict[str, str]
) -> int:
    """Does the unfinished `runs` of this shard by an engine, shows the results, and gives the exit
    code. `every` has the runs of all shards: the shard that finishes last writes their report.
    """
    from pe_jax.commands import console
    from pe_jax.report import labels
    from pe_jax.runs.folder import Folder
    from pe_jax.sweep import queue, status

    out = console.folder(_OUT.value)
    folders = {id: Folder.of(id, _workdir()) for id in every}

    def finished(run: Run) -> Result | None:
        """The result of a run; None if it has not finished, or lacks what the run asks for."""
        return folders[run.id].answer(run.run.seeds, run.asked())

    _check([run for run in runs.values() if not finished(run)])
    here = "workdir", "jobs", "out", "shard", "engine", "address"  # of this machine
    command = f"{_command_without(*here)} --workdir=DIR"
    failed = queue.run_all(runs, folders, make, command, environment)
    if failed is None:
        return cli.stopped("stopped, runs go on from their last checkpoint")
    others = [run for id, run in every.items() if id not in runs and not finished(run)]
    results = [result for run in (runs if others else every).values() if (result := finished(run))]
    if results:
        standings = [run for run in status.standings(_workdir()) if run.id in folders]
        missing = [*console.missing(standings, results).values()]
        again = shlex.join(["pe-jax", "report", f"--workdir={_workdir()}", f"--out={out}"])
        console.publish(results, None if others else out, missing=missing, again=again)
    if others:
        left = f"{len(others)} of {len(every)} runs are still to be done by other shards"
        print(left, file=sys.stderr)
    names = labels.short(every.values())
    for id, reason in failed.items():
        log = folders[id].path / "log.txt"
        where = f" ({log})" if log.exists() else ""
        print(f"failed: {names[id]}: {reason}{where}", file=sys.stderr)
    if failed:
        again = f"the same command tries again what has failed: {cli.command_line()}"
        print(again, file=sys.stderr)
    return 1 if failed else 0


def _check(left: list[Run]) -> None:
    """Prints what is doubtful about the text of the runs that are left. Refused if a run cannot
    begin.
    """
    from pe_jax.commands import console
    from pe_jax.runs.trackers import require

    require({name for run in left for name in run.log.trackers})
    for run in {run.encodings: run for run in left}.values():
        for line in console.natures(run):
            print(line)
    by_needs = {repr((run.data, run.eval, run.train.length, run.train.batch)): run for run in left}
    for run in by_needs.values():
        for doubt in run.load().trained.about.doubts():  # load refuses text that is too short
            print(f"note: {doubt}")


def _workdir() -> Path:
    return Path(_WORKDIR.value)


def _configs(file: config_file.ConfigFile) -> list[dict[str, Any]]:
    """The config of each run; of FILE:pe=SPEC of that encoding alone."""
    from pe_jax.specs.parse import parse_list

    module, also = file.module, parse_list(_ALSO.value)
    if file.argument:
        module = types.SimpleNamespace(get_config=module.get_config)
    with config_file.users_code(str(file.module.__file__)):
        configs = runs_of(module, file.config, file.fields, also)
    return [config.to_dict() for config in configs]


def runs_of(
    module: Any, config: ConfigDict, values: Mapping[str, Any], also: Sequence[str] = ()
) -> list[ConfigDict]:
    """The configs that a config module lists by get_sweep(), in order; without that function the
    one `config`. A run is added for each spec of `also`. Every config gets the command line's
    `values`, by names such as "train.steps"; AttributeError for a name that a config lacks, with
    the nearest. ValueError for what is no config.
    """
    lists = hasattr(module, "get_sweep")
    configs = []
    for run in (module.get_sweep() or ()) if lists else [config]:
        if not isinstance(run, ConfigDict):
            raise ValueError(
                "get_config and each entry of get_sweep() of --config must be a config, as "
                f"get_config of base.py makes it, got {str(run)[:60]!r}"
            )
        configs.append(run.copy_and_resolve_references())  # before the file changes it again
    own = getattr(module, "get_config", None)
    if also and lists and getattr(own, "__module__", BASE) == BASE:
        raise ValueError(
            "--also adds a run of the file's get_config, and this file has none of its own: define "
            "get_config in it, with all that get_sweep sets"
        )
    configs += [module.get_config(f"pe={spec}") for spec in also]
    for run in configs:
        for name, value in values.items():
            *parents, last = name.split(".")
            section = functools.reduce(getattr, parents, run)
            getattr(section, last)  # setattr would add a misspelt one
            setattr(section, last, value)
    return configs


def _by_id(runs: list[Run]) -> dict[str, Run]:
    """The runs by their ids, equal ones once. ValueError for two that train the same and ask for
    different things, since a run has one result.
    """
    known: dict[str, Run] = {}
    for run in runs:
        other = known.setdefault(run.id, run)
        if (other.eval, other.run, other.train) != (run.eval, run.run, run.train):
            raise ValueError(
                f"two runs of the sweep train the same, {run.label}, and differ in section eval, "
                "run.seeds or train.rates: make one of them that asks for all, or evaluate it in "
                f"another way afterwards, with `pe-jax evaluate`"
            )
    return known


def _command_without(*names: str) -> str:
    """The command line of this process without some flags."""
    left_out = flags.FlagValues()
    for name in names:
        left_out[name] = copy.deepcopy(OPTIONS[name])
    return cli.command_line(left_out)
