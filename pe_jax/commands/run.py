"""One run: trains, evaluates, records. The same command goes on where it was cut off.

    pe-jax run --config=base.py:pe=randomized+rope --workdir=DIR

Any knob of the config is set by --config.SECTION.KNOB=VALUE, as in --config.train.steps=200.
"""

from __future__ import annotations

import functools
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pe_jax.commands import cli

OPTIONS = flags.FlagValues()
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file, with :pe=SPEC; see base.py.", flag_values=OPTIONS
)
_WORKDIR = string("workdir", "runs", "Folder of the runs.")
_COMMAND = string("command", None, "What the record says reproduces it; default: this one.")


def main() -> int:
    if _CONFIG.value is None:
        return cli.fail("--config=FILE is required, for example --config=base.py:pe=rope")
    from pe_jax.errors import Refused

    try:
        from pe_jax.runs.run import Run

        run = Run.of(_CONFIG.value.to_dict())
    except (Refused, ValueError, TypeError, OSError) as error:
        return cli.fail(error)
    from pe_jax.commands import console
    from pe_jax.runs.execute import execute
    from pe_jax.runs.folder import Folder
    from pe_jax.runs.progress import SILENT
    from pe_jax.training.session import Interrupted

    workdir, folder = Path(_WORKDIR.value), Folder.of(run.id, _WORKDIR.value)
    command = _COMMAND.value or cli.command_line()
    view = SILENT
    try:
        finished = folder.complete(run.run.seeds, run.asked()) is not None
        with console.RunView(run, folder) as view:
            result = execute(run, workdir, command, view)
    except Interrupted as error:
        view.say(f"stopped by {error}, saved: {cli.goes_on(command)}")
        return cli.INTERRUPTED
    except (Refused, OSError) as error:
        return cli.fail(error)
    if finished:
        view.say(f"{run.label} was finished already: it is not run again")
    console.show(result)
    print(folder.path / "result.json")
    return 0
