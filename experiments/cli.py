"""What the entry points share: flags, configs from flags, and mistakes told in one line."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags, logging

INTERRUPTED = 75  # the state is saved: the same command goes on
TOLD = (ValueError, TypeError, AttributeError, OSError, ImportError, RuntimeError, flags.Error)
WRAPPED = ("flag --config=", "Error whilst parsing config file", "Configuration is not available")


def start(name: str, main: Callable[..., int], operands: str = "") -> None:
    """Parses the command line and exits with main()'s code; a user's mistake is one line and code
    2. `operands` names the arguments without --, which main gets, as "A B".
    """
    wanted = operands.split()

    def parse(argv: Sequence[str]) -> list[str]:
        try:
            rest = flags.FLAGS(argv)
        except SystemExit as stop:  # --help: absl exits with 1
            sys.exit(0 if stop.code == 1 else stop.code)
        except Exception as error:  # a config file is the user's code: it may raise anything
            sys.exit(fail(name, error))
        if len(rest) > 1 + len(wanted):
            unknown = rest[1 + len(wanted)]
            sys.exit(
                fail(
                    name,
                    f"unknown argument {unknown!r}; every option begins with --, as --workdir=DIR",
                )
            )
        if len(rest) < 1 + len(wanted):
            sys.exit(fail(name, f"the command is python -m experiments.{name} {operands}"))
        return rest

    def run(argv: Sequence[str]) -> int:
        try:
            return main(*argv[1:])
        except Exception as error:
            traceback.print_exc()
            fail(name, f"{type(error).__name__}: {error}")
            return 1

    def stopped() -> None:
        print(f"experiments.{name}: stopped: {goes_on(command(name))}", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)  # a usual exit crashes where XLA still compiles

    def unraisable(problem) -> None:
        """A Ctrl-C that comes inside a destructor would be printed and lost."""
        if issubclass(problem.exc_type, KeyboardInterrupt):
            stopped()
        sys.__unraisablehook__(problem)

    logging.set_verbosity(logging.WARNING)
    sys.unraisablehook = unraisable
    try:
        app.run(run, flags_parser=parse)
    except KeyboardInterrupt:
        stopped()


def command(name: str) -> str:
    """The command line of this process, to be typed again."""
    return f"python -m experiments.{name} {shlex.join(sys.argv[1:])}".rstrip()


def goes_on(line: str) -> str:
    """What to say of a command line after a stop."""
    return f"the same command goes on: {line}"


def fail(name: str, mistake: Exception | str) -> int:
    """Prints a mistake in one line and gives its exit code."""
    text = mistake if isinstance(mistake, str) else _words(_innermost(mistake))
    print(f"experiments.{name}: {' '.join(text.split())}", file=sys.stderr)
    return 2


def _innermost(error: BaseException) -> BaseException:
    """The mistake inside what ml_collections and absl wrap around it."""
    while True:
        below = error.__cause__ or error.__context__
        if error.args and isinstance(error.args[0], BaseException):
            error = error.args[0]
        elif below and any(mark in str(error) for mark in WRAPPED):
            error = below
        else:
            return error


def _words(error: BaseException) -> str:
    if isinstance(error, OSError):
        return _missing() or str(error)
    if isinstance(error, KeyError) and error.args:
        return f"no such name: {error.args[0]}"
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error}"
    if isinstance(error, TOLD):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"


def _missing() -> str | None:
    """What to say of a --config whose file is not there."""
    given = (a.partition("=")[2] for a in sys.argv if a.startswith(("--config=", "-config=")))
    for path in (Path(value.partition(":")[0]) for value in given):
        if not path.is_file():
            names = os.listdir(path.parent) if path.parent.is_dir() else []
            near = difflib.get_close_matches(path.name, names, 3)
            return f"no config file {path}" + (f"; nearest: {', '.join(near)}" if near else "")
    return None
