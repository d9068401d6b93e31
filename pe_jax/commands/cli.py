"""Starts a command: parses its flags, runs it, and prints a user's mistake in one line.

A command is a module of this folder. Its docstring and its flags, OPTIONS, make --help; main() gets
the arguments without -- and returns the exit code. sys.argv[0] is the command as a user types it,
"pe-jax run", however it was started.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib
import inspect
import os
import re
import shlex
import sys
import textwrap
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from absl import flags, logging

import pe_jax
from pe_jax.errors import Interrupted, Refused, in_words, nearest

INTERRUPTED = 75  # the exit code of a stopped command that goes on when it is given again
CUT_OFF = 141  # the exit code where nobody reads the output any more, as shells have it
# errors whose message is enough; MISTAKES = () in a command that runs a user's code for long
MISTAKES = ValueError, TypeError
COMMANDS = {
    "run": "Trains one model for all its seeds, and evaluates it.",
    "sweep": "Does many runs, each in a process; finished ones are skipped.",
    "status": "Shows the state of the runs of a work directory.",
    "extend": "Scores a pretrained model at longer lengths, with other scalings.",
    "evaluate": "Scores trained runs at other lengths, or with other swaps.",
    "report": "Writes tables, figures and an HTML page of finished runs.",
    "compare": "Compares two folders of results, or models with a baseline.",
    "export": "Writes a model as a folder that transformers reads.",
    "generate": "Writes text with a trained model.",
    "atlas": "Draws what encodings do to attention.",
    "prepare": "Reads a large text into the store, for runs.",
    "list": "Lists encodings, tasks, metrics, configs or config fields.",
}


class Options(flags.FlagValues):
    """The flags of one command. Each method defines a flag, by its name, default and help."""

    def _define(self, kind: Callable, name: str, default: Any, help: str, **more) -> Any:
        return kind(name, default=default, help=help, flag_values=self, **more)

    string = functools.partialmethod(_define, flags.DEFINE_string)
    strings = functools.partialmethod(_define, flags.DEFINE_multi_string)
    integer = functools.partialmethod(_define, flags.DEFINE_integer)
    number = functools.partialmethod(_define, flags.DEFINE_float)
    boolean = functools.partialmethod(_define, flags.DEFINE_bool)
    choice = functools.partialmethod(_define, flags.DEFINE_enum)
    names = functools.partialmethod(_define, flags.DEFINE_list)  # with commas between them

    def numbers(self, name: str, help: str) -> Any:
        """A tuple of integers with commas between them; None by default."""
        return flags.DEFINE(_Integers(), name, None, help, flag_values=self)


class _Integers(flags.ArgumentParser):
    def parse(self, argument: str) -> tuple[int, ...]:
        return tuple(map(int, argument.split(",")))


def main(name: str = "") -> NoReturn:
    """`pe-jax COMMAND ...`, or the command `name`; exits with its code."""
    sys.argv[0] = "pe-jax"
    if not name:
        name = sys.argv.pop(1) if len(sys.argv) > 1 else "--help"
    try:
        try:
            code = _run(name)
        finally:
            if sys.stdout:  # None where it was closed
                sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        code = CUT_OFF if isinstance(error, BrokenPipeError) else fail(error)
    sys.exit(code)


def _run(name: str) -> int:
    if name in ("help", "--help", "-h"):
        print("usage: pe-jax COMMAND [--help] ...\n")
        for command, sentence in COMMANDS.items():
            print(f"  {command:12} {sentence}")
        return 0
    if name == "--version":
        print(f"pe_jax {pe_jax.__version__}")
        return 0
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        return fail(f"unknown command {name!r}{nearest(name, COMMANDS)} Known: {known}.")
    sys.argv[0] = f"pe-jax {name}"
    if sys.stderr:
        faulthandler.enable()  # where XLA crashes
    module = importlib.import_module(f"pe_jax.commands.{name}")
    if {"--help", "-h"} & {*sys.argv}:
        parts = (module.__doc__ or "").strip().split("\n\n")
        print(*(part if part.startswith(" ") else filled(part) for part in parts), sep="\n\n")
        print(module.OPTIONS.get_help(include_special_flags=False).partition(":")[2])
        return 0
    return carry_out(module.main, module.OPTIONS, getattr(module, "MISTAKES", MISTAKES))


def carry_out(
    command: Callable[..., int],
    options: flags.FlagValues,
    mistakes: tuple[type[Exception], ...] = MISTAKES,
) -> int:
    """The exit code of command(): 2 after a user's mistake, which is one line. An error outside
    `mistakes`, Refused and OSError has its traceback.
    """
    home = re.compile("(--(config|data_dir|out|store|workdir)=)~(?=/)")  # which shells leave
    argv = [home.sub(lambda m: m[1] + os.path.expanduser("~"), word) for word in sys.argv]
    if "config" in options:  # config_file.read parses the fields, when it has the config
        argv = [argument for argument in argv if not argument.startswith("--config.")]
    flags.FLAGS(argv[:1])  # the flags of libraries, which absl wants parsed
    logging.use_absl_handler()
    logging.set_verbosity(logging.WARNING)
    operands = []
    try:
        _, *operands = options(argv)
        inspect.signature(command).bind(*operands)
    except (flags.Error, TypeError) as error:
        words = f" {shlex.join(operands)}: options are --NAME=VALUE" if operands else ""
        return fail(f"{str(error).rstrip('.')}{words}; see {sys.argv[0]} --help")
    try:
        return command(*operands)
    except Interrupted as error:
        return stopped(f"stopped by {error}, saved")
    except KeyboardInterrupt:
        stopped("stopped")
        os._exit(INTERRUPTED)  # a usual exit crashes where XLA still compiles
    except (Refused, OSError, flags.Error, *mistakes) as error:
        return fail(error)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich exits where nobody reads
            raise error.__context__ from None
        return fail(f"a user's file calls sys.exit({error.code!r}), which ends no command")
    except Exception:
        traceback.print_exc()
        return 1


def stopped(how: str) -> int:
    """Prints the command that goes on, and gives the exit code."""
    message = f"{sys.argv[0]}: {how}: the same command goes on: {command_line()}"
    print(message, file=sys.stderr, flush=True)
    return INTERRUPTED


def command_line() -> str:
    """The command line of this process, to be typed again."""
    return f"{sys.argv[0]} {shlex.join(sys.argv[1:])}".rstrip()


def fail(mistake: Exception | str) -> int:
    """Prints a mistake in one line and gives its exit code."""
    if isinstance(mistake, BrokenPipeError):  # nobody reads the output any more
        raise mistake
    text = in_words(mistake) if isinstance(mistake, OSError) else str(mistake)
    print(f"{sys.argv[0]}: {' '.join(text.split())}", file=sys.stderr)
    return getattr(mistake, "exit_code", 2)


def filled(text: str, indent: str = "", width: int = 80) -> str:
    """Text in lines of `width` columns, all but the first indented, with whole words."""
    more: Any = {"break_on_hyphens": False, "break_long_words": False}
    return textwrap.fill(text, width, subsequent_indent=indent, **more)
