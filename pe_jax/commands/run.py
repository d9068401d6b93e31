"""One run: trains, evaluates, records. The same command goes on where it was cut off.

    pe-jax run --config=base.py:pe=randomized+rope --workdir=DIR

Any field of the config is set by --config.SECTION.FIELD=VALUE, as in --config.train.steps=200;
`pe-jax list fields` prints all fields. Encodings and tasks have --config.pe.NAME.FIELD=VALUE and
--config.task.FIELD=VALUE. With several --config.train.rates it trains at each, and evaluates the
best.
"""

from __future__ import annotations

import sys

from pe_jax.commands import cli, config_file

OPTIONS = cli.Options()
_CONFIG = OPTIONS.string("config", None, "Config file: base.py:pe=rope.", required=True)
_WORKDIR = OPTIONS.string("workdir", "runs", "Folder of the runs.")
_COMMAND = OPTIONS.string("command", None, "The command for the record; default: this one.")
MISTAKES = ()  # errors of a user's code have their traceback


def main() -> int:
    try:
        config = config_file.read(_CONFIG.value).config.to_dict()

        from pe_jax.runs import rates

        runs = rates.runs_of(config)
    except (ValueError, TypeError) as error:
        return cli.fail(error)
    from pe_jax.commands import console
    from pe_jax.runs.folder import Folder

    run, workdir, command = runs[0], _WORKDIR.value, _COMMAND.value or cli.command_line()
    finished = len(runs) == 1 and Folder.of(run.id, workdir).complete(run.run.seeds, run.asked())
    for line in console.natures(run) if run.train.steps and not finished else ():
        print(line, file=sys.stderr)
    result = rates.execute_best(runs, workdir, command)
    if finished:
        print(f"{run.label} was finished already: it is not run again", file=sys.stderr)
    console.show(result)
    print(Folder.of(result.id, workdir).path / "result.json")
    return 0
