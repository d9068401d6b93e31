"""Starts a command: parses its flags, runs it, and prints a user's mistake in one line.

A command is a module of this folder. Its docstring and its flags, OPTIONS, make --help; main() gets
the arguments without -- and returns the exit code. sys.argv[0] is the command as a user types it,
"pe-jax run", however it was started.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import io
import os
import shlex
import sys
import textwrap
import traceback
from collections.abc import Callable
from typing import NoReturn

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
    "conformance": "Writes test vectors of encodings, and their checker.",
    "prepare": "Makes a TFDS dataset of a text.",
    "list": "Lists encodings, tasks, metrics, configs, config fields or swaps.",
}


class Options(flags.FlagValues):
    """The flags of one command. Each method defines a flag."""

    def string(self, name: str, default: str | None, help: str) -> flags.FlagHolder:
        return flags.DEFINE_string(name, default, help, flag_values=self)

    def strings(self, name: str, help: str) -> flags.FlagHolder:  # [] by default
        return flags.DEFINE_multi_string(name, [], help, flag_values=self)

    def integer(self, name: str, default: int | None, help: str, **bounds) -> flags.FlagHolder:
        return flags.DEFINE_integer(name, default, help, flag_values=self, **bounds)

    def number(self, name: str, default: float | None, help: str, **bounds) -> flags.FlagHolder:
        return flags.DEFINE_float(name, default, help, flag_values=self, **bounds)

    def boolean(self, name: str, help: str) -> flags.FlagHolder:
        return flags.DEFINE_bool(name, False, help, flag_values=self)

    def listed(self, name: str, help: str, kind: type = str) -> flags.FlagHolder:
        """A tuple of values with commas between them; None by default."""
        return flags.DEFINE(_Tuple(kind), name, None, help, flag_values=self)


class _Tuple(flags.ArgumentParser):
    def __init__(self, kind: type):
        self.kind = kind

    def parse(self, argument: str) -> tuple:
        return tuple(self.kind(part.strip()) for part in argument.split(",") if part.strip())


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
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # a minus sign, which cp1252 lacks
    sys.argv[0] = f"pe-jax {name}"
    if sys.stderr:
        faulthandler.enable()  # where XLA crashes
    module = importlib.import_module(f"pe_jax.commands.{name}")
    if {"--help", "-h"} & {*sys.argv}:
        print(_help(module.__doc__, module.OPTIONS))
        return 0
    return carry_out(module.main, module.OPTIONS, getattr(module, "MISTAKES", MISTAKES))


def carry_out(
    command: Callable[..., int],
    options: flags.FlagValues,
    mistakes: tuple[type[Exception], ...] = MISTAKES,
) -> int:
    """The exit code of command(): 2 after a user's mistake, told in one line. An error that is none
    of `mistakes`, Refused or OSError is shown with its traceback.
    """
    argv = sys.argv
    if "config" in options:  # config_file.read parses the fields, when it has the config
        argv = [argument for argument in argv if not argument.startswith("--config.")]
    flags.FLAGS(argv[:1])  # the flags of libraries, which absl wants parsed
    logging.use_absl_handler()
    logging.set_verbosity(logging.WARNING)
    if bad := next((a for a in argv if a.encode(errors="ignore").decode() != a), None):
        return fail(f"{bad!r} is not UTF-8: give a path that is")
    operands = []
    try:
        _, *operands = options(argv)
        inspect.signature(command).bind(*operands)
    except (flags.Error, TypeError) as error:
        words = f" {shlex.join(operands)}: options are --NAME=VALUE" if operands else ""
        return fail(f"{error}{words}; see {sys.argv[0]} --help")
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


def command_line(without: flags.FlagValues | None = None) -> str:
    """The command line of this process, to be typed again, without some flags."""
    argv = sys.argv if without is None else without(sys.argv, known_only=True)
    return f"{sys.argv[0]} {shlex.join(argv[1:])}".rstrip()


def fail(mistake: Exception | str) -> int:
    """Prints a mistake in one line and gives its exit code."""
    if isinstance(mistake, BrokenPipeError):  # nobody reads the output any more
        raise mistake
    text = in_words(mistake) if isinstance(mistake, OSError) else str(mistake)
    print(f"{sys.argv[0]}: {' '.join(text.split())}", file=sys.stderr)
    return getattr(mistake, "exit_code", 2)


def _help(about: str | None, options: flags.FlagValues) -> str:
    """The docstring, its paragraphs filled, and each flag with its sentence and default."""
    parts = (about or "").strip().split("\n\n")
    text = "\n\n".join(part if part.startswith(" ") else filled(part) for part in parts)
    lines = [text, ""]
    for name in sorted(options):
        flag = options[name]
        default = "" if flag.boolean or flag.default in (None, "", []) else flag.default
        about = " ".join(flag.help.replace(".;", ";").split())  # absl adds words on repetition
        said = f"  --{name}: {about}" + f" (default: {default!r})" * (default != "")
        lines.append(filled(said, " " * 6))
    return "\n".join(lines)


def filled(text: str, indent: str = "", width: int = 80) -> str:
    """Text in lines of `width` columns, all but the first indented, with whole words."""
    wrapper = textwrap.TextWrapper(width, subsequent_indent=indent, break_on_hyphens=False)
    wrapper.break_long_words = False
    return wrapper.fill(text)
