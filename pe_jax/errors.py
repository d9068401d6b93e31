"""Exceptions that end a command with one line, and parts of their messages."""

from __future__ import annotations

import contextlib
import difflib
import errno
import importlib
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_SPACE = "make room there, and give the same command again"
_FOLDER = "a file is where a folder must be: move it away, or name another folder"
_RIGHTS = "get permission for it, or name another place"
_REMEDIES = {errno.ENOSPC: _SPACE, errno.EDQUOT: _SPACE, errno.EFBIG: "raise ulimit -f"}
_REMEDIES |= {errno.ENOTDIR: _FOLDER, errno.EEXIST: _FOLDER}
_REMEDIES |= {errno.EACCES: _RIGHTS, errno.EPERM: _RIGHTS, errno.EROFS: _RIGHTS}
_REMEDIES[errno.EISDIR] = "a folder is where a file must be: move it away"


class Refused(RuntimeError):
    """A run cannot begin or go on. The message gives the rule, the value and the remedy."""

    exit_code = 2


class Held(Refused):
    """Another process is at work on the run."""

    exit_code = 4


class Interrupted(RuntimeError):
    """The run was asked to stop, and has saved its state. The message is the signal's name."""


def in_words(error: OSError) -> str:
    """An error of the file system in one line: path, reason and remedy."""
    if not error.strerror:
        return str(error)
    path = error.filename2 or error.filename
    if path and error.errno == errno.ENOTDIR:
        above = [Path(path), *Path(path).parents]
        path = next((parent for parent in above if parent.is_file()), path)
    place = f"{str(path)!r}: " if path else ""
    remedy = f"; {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else ""
    return f"{place}{error.strerror[0].lower()}{error.strerror[1:]}{remedy}"


def to_install(extra: str) -> str:
    """The end of a message: the command that installs an extra of the package."""
    return f"give scripts/setup --extra={extra} in the clone, or pip install -e '.[{extra}]'"


def libraries(what: str, *names: str) -> list[Any]:
    """The modules of these names, of the extra `pretrained`. ValueError where one is missing, with
    the command that installs all of them.
    """
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError:
        raise ValueError(
            f"{what} needs {' and '.join(names)}: {to_install('pretrained')}"
        ) from None


def first_line(error: BaseException) -> str:
    """The first line of a message, at most 200 characters; "" for an empty one."""
    return (str(error).strip().splitlines() or [""])[0][:200]


def last_line(file: str | Path, error: BaseException) -> int | None:
    """The last line of `file` in the traceback; None if the file is not in it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return lines[-1] if lines else None


@contextlib.contextmanager
def concerning(path: Path) -> Iterator[None]:
    """Re-raises an OSError with this path, in place of none or that of a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a sentence on an unknown name: "; did you mean 'rope'?", with up to `most` of the
    known names that resemble it, or "." without any.
    """
    near = [repr(found) for found in difflib.get_close_matches(name, list(known), most)]
    return f"; did you mean {' or '.join(near)}?" if near else "."
