"""One run: trains, evaluates, records. The same command goes on where it was cut off.

    pe-jax run --config=base.py:pe=randomized+rope --workdir=DIR

Any field of the config is set by --config.SECTION.FIELD=VALUE, as in --config.train.steps=200;
`pe-jax list fields` prints all.
"""

from __future__ import annotations

from pathlib import Path

from pe_jax.commands import cli, config_file

OPTIONS = cli.Options()
_CONFIG = OPTIONS.string("config", None, "Config file, with :pe=SPEC; see base.py.")
_WORKDIR = OPTIONS.string("workdir", "runs", "Folder of the runs.")
_COMMAND = OPTIONS.string(
    "command", None, "The command that reproduces the run, for its record; default: this one."
)
MISTAKES = ()  # what fails in a user's code is shown with its traceback


def main() -> int:
    if _CONFIG.value is None:
        return cli.fail("--config=FILE is required, for example --config=base.py:pe=rope")
    try:
        config = config_file.read(_CONFIG.value).config.to_dict()

        from pe_jax.runs.run import Run

        run = Run.of(config)
    except (ValueError, TypeError) as error:
        return cli.fail(error)
    from pe_jax.commands import console
    from pe_jax.runs.execute import execute
    from pe_jax.runs.folder import Folder

    workdir, folder = Path(_WORKDIR.value), Folder.of(run.id, _WORKDIR.value)
    finished = folder.complete(run.run.seeds, run.asked()) is not None
    with console.RunView(run, folder) as view:
        result = execute(run, workdir, _COMMAND.value or cli.command_line(), view)
    if finished:
        view.say(f"{run.label} was finished already: it is not run again")
    console.show(result)
    print(folder.path / "result.json")
    return 0
