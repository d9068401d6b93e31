"""What the entry points share: flags, configs from flags, and mistakes told in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from absl import app, flags, logging

INTERRUPTED = 75  # the state is saved: the same command goes on


def start(name: str, main: Callable[[], int]) -> None:
    """Parses the command line and exits with main()'s code; a user's mistake is one line and code 2."""

    def parse(argv: Sequence[str]) -> list[str]:
        try:
            rest = flags.FLAGS(argv)
        except (flags.Error, ValueError, AttributeError, KeyError, TypeError, OSError, ImportError) as error:
            sys.exit(fail(name, error))
        if len(rest) > 1:
            sys.exit(fail(name, f"unknown argument {rest[1]!r}; every option begins with --"))
        return rest

    logging.set_verbosity(logging.WARNING)
    app.run(lambda _: main(), flags_parser=parse)


def fail(name: str, error: object) -> int:
    """Prints a mistake in one line and gives its exit code."""
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    print(f"experiments.{name}: {' '.join(str(text).split())}", file=sys.stderr)
    return 2
