"""The start of every command: parses its flags, and tells a user's mistake in one line.

A command is a module of this folder: its docstring for --help, its flags in OPTIONS, its arguments
without -- in OPERANDS where it has some, and main(), which gets these and returns the exit code.
sys.argv[0] is the command as a user types it again, "pe-jax run", however it was started.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from absl import app, flags, logging

import pe_jax
from pe_jax.commands import docstrings
from pe_jax.errors import in_words, nearest

INTERRUPTED = 75  # the exit code of a stopped command that goes on when it is given again
CUT_OFF = 141  # the exit code where nobody reads the output any more, as shells have it
# errors whose message alone says what is wrong
TOLD = (ValueError, TypeError, AttributeError, ImportError, RuntimeError, flags.Error)
# absl's message for a value of the wrong kind, and what each kind takes
UNREAD = re.compile(r"flag (--\S+?)=(.*): .*\b(int|float|boolean)\b.*")
KINDS = {"int": "an integer", "float": "a number", "boolean": "true or false"}
# parts of the messages of ml_collections and absl around an error in a config file
WRAPPED = ("flag --config=", "Error whilst parsing config file", "Configuration is not available")
COMMANDS = {
    "run": "Trains one model for all its seeds, and evaluates it.",
    "sweep": "Does many runs, each in a process; finished ones are skipped.",
    "status": "Shows how the runs of a work directory stand.",
    "extend": "Scores a pretrained model at longer lengths, with other scalings.",
    "evaluate": "Scores trained runs at other lengths, or with other swaps.",
    "report": "Writes tables, figures and an HTML page of finished runs.",
    "compare": "Shows two folders of results, or models against a baseline.",
    "export": "Writes a model as a folder that transformers reads.",
    "generate": "Writes text with a trained model.",
    "atlas": "Draws what encodings do to attention.",
    "conformance": "Writes test vectors of encodings, and their checker.",
    "prepare": "Makes a TFDS dataset of a text.",
    "list": "Lists encodings, tasks, metrics, configs or swaps.",
}
CONFIGS = Path(__file__).parents[1] / "configs"
CLONE = Path(__file__).parents[2]  # of an installed package: the folder of all packages


@contextlib.contextmanager
def _read_to_the_end() -> Iterator[None]:
    """Ends the process in a line if stdout cannot be written, without a word after `| head -1`."""
    try:
        try:
            yield
        finally:
            if sys.stdout:  # None where it was closed
                sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        sys.exit(CUT_OFF if isinstance(error, BrokenPipeError) else fail(error))


@_read_to_the_end()
def main() -> NoReturn:
    """`pe-jax COMMAND ...`; without a command it lists them."""
    sys.argv[0] = "pe-jax"
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("help", "--help", "-h"):
        print("usage: pe-jax COMMAND [--help] ...\n")
        for known, sentence in COMMANDS.items():
            print(f"  {known:12} {sentence}")
        sys.exit(0)
    if name == "--version":
        print(f"pe_jax {pe_jax.__version__}")
        sys.exit(0)
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        sys.exit(fail(f"unknown command {name!r}{nearest(name, COMMANDS)} Known: {known}."))
    del sys.argv[1]
    start(name)


@_read_to_the_end()
def start(name: str) -> NoReturn:
    """Runs a command of this folder and exits."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # a minus sign, which cp1252 lacks
    sys.argv[0] = f"pe-jax {name}"
    module = importlib.import_module(f"pe_jax.commands.{name}")
    carry_out(module.main, module.OPTIONS, getattr(module, "OPERANDS", ""), module.__doc__ or "")


def carry_out(
    command: Callable[..., int], options: flags.FlagValues, operands: str = "", about: str = ""
) -> NoReturn:
    """Parses the command line into `options` and exits with command()'s code; a user's mistake is
    one line and code 2. `operands` names the arguments of command(), those without --: in "A [B]"
    B is optional. `about` stands above the flags in --help.
    """

    def parse(argv: Sequence[str]) -> list[str]:
        flags.FLAGS(argv[:1])  # the flags of libraries, which absl wants parsed
        if {"--help", "-h"} & set(argv):
            knobs = _knobs() if "config" in options else ""
            print(f"{_paragraphs(about)}\n\n{_listed(options)}{knobs}")
            sys.exit(0)
        try:
            return _operands(options(_with_configs_found(argv)), operands.split())
        except flags.UnrecognizedFlagError as error:
            first = error.flagname.partition(".")[0]  # config, of --config.SECTION.KNOB
            sys.exit(fail(f"unknown flag {error.flagname!r}{nearest(first, options)}"))
        except (Exception, SystemExit) as error:  # a config file may raise anything
            sys.exit(fail(error))

    def run(argv: Sequence[str]) -> int:
        try:
            return command(*argv[1:])
        except (OSError, SystemExit) as error:  # a user's code may call sys.exit
            return fail(error)
        except Exception as error:
            traceback.print_exc()
            fail(f"{type(error).__name__}: {error}")
            return 1

    def stopped() -> None:
        print(f"{sys.argv[0]}: stopped: {goes_on(command_line())}", file=sys.stderr, flush=True)
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
    sys.exit(1)  # app.run does not return


def command_line() -> str:
    """The command line of this process, to be typed again."""
    return f"{sys.argv[0]} {shlex.join(sys.argv[1:])}".rstrip()


def goes_on(line: str) -> str:
    """What to say of a command line after a stop."""
    return f"the same command goes on: {line}"


def fail(mistake: BaseException | str) -> int:
    """Prints a mistake in one line and gives its exit code. A BrokenPipeError is raised again: that
    nobody reads the output any more is no mistake.
    """
    if isinstance(mistake, BaseException):
        for error in (mistake, mistake.__context__):  # rich exits where a pipe is broken
            if isinstance(error, BrokenPipeError):
                raise error
    text = mistake if isinstance(mistake, str) else _words(_innermost(mistake))
    text = re.sub(r"\s+Did you mean (\S+) instead of \S+\?", r"; did you mean \1?", text)
    text = UNREAD.sub(lambda found: f"{found[1]} must be {KINDS[found[3]]}, got {found[2]!r}", text)
    print(f"{sys.argv[0]}: {' '.join(text.split())}", file=sys.stderr)
    return getattr(mistake, "exit_code", 2)


def _operands(given: list[str], wanted: list[str]) -> list[str]:
    """The program and its arguments without --, as many as wanted."""
    needed = [name for name in wanted if not name.startswith("[")]
    if len(given) > 1 + len(wanted):
        unknown = given[1 + len(wanted)]
        raise ValueError(
            f"unknown argument {unknown!r}; every option begins with --, as --workdir=DIR"
        )
    if len(given) < 1 + len(needed):
        raise ValueError(f"give {' and '.join(needed)}: {sys.argv[0]} {' '.join(wanted)}")
    return given


def _listed(options: flags.FlagValues) -> str:
    """Each flag with its sentence and default."""
    lines = []
    for name, flag in sorted((name, options[name]) for name in options):
        value = json.dumps(flag.default) if flag.default == "\n" else flag.default
        if isinstance(value, str) and len(value) > 60:
            value = value.replace(",", ", ")  # a line ends between its parts
        known = "" if flag.default in (None, "", []) or flag.boolean else f" (default: {value})"
        said = flag.help.partition(";\n")[0]  # absl adds that a flag may be repeated
        lines.append(_flag(f"--{name}: {said}{known}"))
    return "\n".join(lines)


def _knobs() -> str:
    """Each knob of the config with its default and sentence, by sections."""
    lines = [
        "",
        "",
        "The config, each knob with its default. The encodings and the task have theirs:",
        "--config.pe.NAME.FIELD=VALUE and --config.task.FIELD=VALUE.",
    ]
    for section in docstrings.sections():
        lines += ["", filled(f"{section.name}: {section.sentence}")]
        lines += [_flag(f"{flag}: {sentence}") for flag, sentence in section.knobs.items()]
    return "\n".join(lines)


def _in_a_section(name: str) -> str:
    """The end of the message for a `name`, in quotes, that a section of the config lacks: the flag
    of the knob, in any section, that resembles it most.
    """
    flags = [flag.partition("=")[0] for section in docstrings.sections() for flag in section.knobs]
    by_knob = {flag.rpartition(".")[2]: flag for flag in flags}
    near = difflib.get_close_matches(name.strip("'"), by_knob, 1)
    return f"; did you mean {by_knob[near[0]]}?" if near else ""


def _flag(text: str) -> str:
    return filled(f"  {text}", " " * 6)


def _paragraphs(text: str) -> str:
    """A docstring with its paragraphs filled; indented ones stay as they are."""
    parts = text.strip().split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else filled(part) for part in parts)


def filled(text: str, indent: str = "", width: int = 80) -> str:
    """Text in lines of `width` columns, of which all but the first are indented. Words, such as
    flags, are whole.
    """
    return textwrap.fill(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns(otherwise: int = 160) -> int:
    """The width of the terminal, or COLUMNS; where stdout is neither, another one."""
    return shutil.get_terminal_size((otherwise, 24)).columns


def _with_configs_found(argv: Sequence[str]) -> list[str]:
    """The command line with the path of its --config found. ValueError for a value given twice."""
    found, values = list(argv), set()
    for i, argument in enumerate(argv):
        if argument.encode(errors="ignore").decode() != argument:
            raise ValueError(f"{argument!r} is not UTF-8: give a path that is")
        flag, given, value = argument.partition("=")
        if flag in values:
            raise ValueError(f"{flag} is given twice: give the value that is meant")
        if flag.startswith("--config."):
            values.add(flag)
        if flag == "--config.run.seeds" and value.isdecimal():
            three, one = f"{flag}='(0,1,2)'", f"{flag}='({value},)'"
            raise ValueError(f"{flag} lists seeds, got {value}: {three} has three, {one} this one")
        if flag in ("--config", "-config"):
            if given:
                found[i] = f"{flag}={_config(value)}"
            elif i + 1 < len(found):
                found[i + 1] = _config(found[i + 1])
    return found


def _config(value: str) -> str:
    """PATH:ARGUMENT with the path found: a file of the working directory, else for NAME.py and
    configs/NAME.py the config of that name in the package or its clone. ValueError without one.
    """
    path, colon, argument = value.partition(":")
    name = Path(path).name
    if Path(path).is_file():
        if name.endswith(".py"):
            return value
        raise ValueError(f"a config file is a Python file, NAME.py, got {path!r}")
    known = known_configs()
    if name in known and Path(path).parent in (Path(), Path("configs")):
        return f"{known[name]}{colon}{argument}"
    here = Path(path).parent.glob("*.py")
    near = nearest(name, sorted({*known, *(entry.name for entry in here)}), 3)
    others = "" if _is_clone() else "; the configs of the studies are in a clone of the project"
    raise ValueError(
        f"no config file {path!r}{near} Found from any folder: {', '.join(sorted(known))}{others}."
    )


def known_configs() -> dict[str, Path]:
    """The configs of the package and, in a clone, those of its folder configs/, by their names."""
    folders = (CLONE / "configs", CONFIGS) if _is_clone() else (CONFIGS,)
    return {path.name: path for folder in folders for path in folder.glob("[!_]*.py")}


def _is_clone() -> bool:
    return (CLONE / "pyproject.toml").is_file()


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
        return in_words(error)
    if isinstance(error, KeyError) and "ml_collections" in _place(error).filename:
        name = str(error.args[0])  # quoted; ml_collections adds the nearest of the same section
        return f"no such name: {name}{'' if 'did you mean' in name else _in_a_section(name)}"
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error}"
    if isinstance(error, AttributeError) and "has no attribute 'get_config'" in str(error):
        return (
            "the config file has no get_config(arg), which every config has: "
            "add `from pe_jax.configs.base import get_config`, or one of your own"
        )
    if isinstance(error, TOLD):
        return str(error)
    place = _place(error)
    return f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"


def _place(error: BaseException) -> traceback.FrameSummary:
    """Where it was raised."""
    return traceback.extract_tb(error.__traceback__)[-1]
