"""One run: trains, evaluates, records. The same command goes on where it was cut off.

    pe-jax run --config=base.py:pe=randomized+rope --workdir=DIR

Any knob of the config is set by --config.SECTION.KNOB=VALUE, as in --config.train.steps=200. With
--distributed the same command is given on every host; only the first process uses --workdir.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pe_jax.commands import cli

OPTIONS = flags.FlagValues()
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
integer = functools.partial(flags.DEFINE_integer, flag_values=OPTIONS)
_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file, with :pe=SPEC; see base.py.", flag_values=OPTIONS
)
_WORKDIR = string("workdir", "runs", "Folder of the runs.")
_COMMAND = string("command", None, "What the record says reproduces it; default: this one.")
_DISTRIBUTED = flags.DEFINE_boolean(
    "distributed",
    False,
    "Whether this is one of several processes that share the run, on run.mesh.",
    flag_values=OPTIONS,
)
_COORDINATOR = string(
    "coordinator", None, "HOST:PORT of the first process, without a cluster that JAX knows."
)
_PROCESSES = integer("processes", None, "How many processes there are.")
_PROCESS = integer("process", None, "The index of this process, from 0 on.")


def main() -> int:
    if _CONFIG.value is None:
        return cli.fail("--config=FILE is required, for example --config=base.py:pe=rope")
    joining = _COORDINATOR.value, _PROCESSES.value, _PROCESS.value
    if not _DISTRIBUTED.value:
        if joining != (None, None, None):
            return cli.fail("--coordinator, --processes and --process need --distributed")
        return _run()
    from pe_jax.errors import Refused
    from pe_jax.runs import environment
    from pe_jax.training import processes

    try:
        processes.initialize(*joining)
        environment.keep_programs()  # before the first program, which decides whether JAX keeps any
        return _run()
    except Refused as error:
        return cli.fail(error)
    except Exception as error:
        traceback.print_exc()
        cli.fail(
            f"{type(error).__name__}: {error}; where another process has ended, its own output "
            "says why, and the same command, given for all processes, goes on"
        )
        sys.stdout.flush()
        os._exit(1)  # a usual exit would wait for the other processes, which may wait for this one


def _run() -> int:
    """Carries out the run, alone or as one of several processes, of which the first shows it."""
    from pe_jax.errors import Refused
    from pe_jax.training.processes import broadcast, each

    try:
        from pe_jax.runs.run import Run

        run = each(lambda: Run.of(_CONFIG.value.to_dict()))
    except (Refused, ValueError, TypeError, OSError) as error:
        return cli.fail(error)
    import jax

    from pe_jax.commands import console
    from pe_jax.runs.execute import execute
    from pe_jax.runs.folder import Folder
    from pe_jax.runs.progress import SILENT
    from pe_jax.training.session import Interrupted

    workdir, folder = Path(_WORKDIR.value), Folder.of(run.id, _WORKDIR.value)
    command = _COMMAND.value or cli.command_line()
    first = jax.process_index() == 0
    view = SILENT
    try:
        finished = broadcast(lambda: folder.complete(run) is not None)
        with console.RunView(run, folder) if first else contextlib.nullcontext(SILENT) as view:
            result = execute(run, workdir, command, view)
    except Interrupted as error:
        view.say(f"stopped by {error}, saved: {cli.goes_on(command)}")
        return cli.INTERRUPTED
    except (Refused, OSError) as error:
        return cli.fail(error)
    if not first:
        return 0
    if finished:
        view.say(f"{run.label} was finished already: it is not run again")
    console.show(result)
    print(folder.path / "result.json")
    return 0
