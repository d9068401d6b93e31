"""The error that a user can mend, what the system refused in words, and the known name that a
misspelt one resembles.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

_ROOM = "make room there, and give the same command again"
_RIGHT = "get the right to it, or name another place"
_FOLDER = "a file is where a folder must be: move it away, or name another folder"
REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), and give the same command again",
    errno.EACCES: _RIGHT,
    errno.EPERM: _RIGHT,
    errno.EROFS: "name a place that can be written",
    errno.ENOTDIR: _FOLDER,
    errno.EEXIST: _FOLDER,
    errno.EISDIR: "a folder is where a file must be: move it away, or name another place",
}
"""What a user can do about errors of the file system."""


class Refused(RuntimeError):
    """A run cannot begin or go on. The message gives the rule, the value and the remedy."""

    exit_code = 2


class Held(Refused):
    """Another process is at work on the run."""

    exit_code = 4


def in_words(error: OSError) -> str:
    """What the system refused, in one line: the path, the reason and the remedy."""
    if not error.strerror:
        return str(error)
    path = error.filename2 or error.filename
    if path and error.errno == errno.ENOTDIR:
        above = [Path(path), *Path(path).parents]
        path = next((parent for parent in above if parent.is_file()), path)
    place = f"{str(path)!r}: " if path else ""
    remedy = f"; {REMEDIES[error.errno]}" if error.errno in REMEDIES else ""
    return f"{place}{error.strerror[0].lower()}{error.strerror[1:]}{remedy}"


def to_install(extra: str) -> str:
    """How an extra of the package is installed, for the end of a message."""
    own = f"for an environment of your own pip install -e '.[{extra}]'"
    return f"give scripts/setup --extra={extra} in the clone, or {own}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; "" where it says nothing."""
    return (str(error).strip().splitlines() or [""])[0][:200]


def last_line(file: str | Path, error: BaseException) -> int | None:
    """The line of a file where the error was raised, or that made the call which raised it; None
    where no line of the file is concerned.
    """
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return lines[-1] if lines else None


@contextlib.contextmanager
def concerning(path: Path) -> Iterator[None]:
    """An OSError inside is raised as one of this path: writing to an open file names none, and a
    temporary file's name says nothing to people.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a sentence that says `name` is not known, with up to `most` of the `known` names
    that resemble it: "; did you mean 'rope'?", or "." where none does.
    """
    near = [repr(found) for found in difflib.get_close_matches(name, list(known), most)]
    return f"; did you mean {' or '.join(near)}?" if near else "."
