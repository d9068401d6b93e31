"""One run: trains, evaluates, records. The same command goes on where it was cut off.

python -m experiments.run --config=configs/base.py:pe=randomized+rope --workdir=DIR
"""

from __future__ import annotations

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from experiments import cli

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file, with :pe=SPEC; see configs/base.py."
)
_WORKDIR = flags.DEFINE_string("workdir", "runs", "Folder of the runs.")
_COMMAND = flags.DEFINE_string(
    "command", None, "What the record says reproduces it; default: this one."
)


def main() -> int:
    if _CONFIG.value is None:
        return cli.fail(
            "run", "--config=FILE is required, for example --config=configs/base.py:pe=rope"
        )
    from experiments import console

    try:
        from pe_jax.run import Run

        run = Run.of(_CONFIG.value.to_dict())
    except (ValueError, TypeError, OSError) as error:
        return cli.fail("run", error)
    from pe_jax import record
    from pe_jax.errors import Refused
    from pe_jax.execution import execute
    from pe_jax.session import Interrupted

    workdir = Path(_WORKDIR.value)
    command = _COMMAND.value or cli.command("run")
    finished = (workdir / run.id / "result.json").exists()
    try:
        with console.RunView(run) as view:
            result = execute(run, workdir, command, view)
    except Interrupted as error:
        view.say(f"stopped by {error}, saved: {cli.goes_on(command)}")
        return cli.INTERRUPTED
    except (Refused, OSError) as error:
        return cli.fail("run", error)
    if finished:
        view.say(f"{run.label} was finished already: it is not run again")
    view.show(record.decode(record.Result, result), workdir / run.id)
    return 0


if __name__ == "__main__":
    cli.start("run", main)
