"""Files that are whole or absent, however the process that writes them ends."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pe_jax.errors import concerning


def write(path: Path, text: str) -> Path:
    """Writes a text as UTF-8, its line ends unchanged, as a whole; returns its path."""
    return replace(path, lambda file: file.write(text.encode()))


def replace(path: Path, fill: Callable[[BinaryIO], Any]) -> Path:
    """Writes what `fill` puts into a binary file: to a temporary name in the same folder, flushed
    to disk, then renamed. Missing folders are made. Where it fails, the earlier file is left.
    """
    with concerning(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    return path


@contextlib.contextmanager
def together(folder: Path) -> Iterator[Path]:
    """Gives an empty folder, whose files are moved to `folder` at the end, where each replaces the
    one of its name. Where something fails before the end, `folder` stays as it was; a kill while
    they are moved, which takes milliseconds, leaves some files of before and some new ones, each
    of them whole.
    """
    new = not folder.exists()
    try:
        with concerning(folder):
            folder.mkdir(parents=True, exist_ok=True)
            held = tempfile.TemporaryDirectory(prefix=".writing.", dir=folder)
        with held as draft:
            with concerning(folder):
                yield Path(draft)
            moves = [(path, folder / path.name) for path in sorted(Path(draft).iterdir())]
            if wrong := next((target for _, target in moves if target.is_dir()), None):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(wrong))
            for path, target in moves:
                os.replace(path, target)
    except BaseException:
        if new:
            with contextlib.suppress(OSError):  # it was never made, or somebody else has used it
                folder.rmdir()
        raise


def entries(folder: Path) -> list[Path]:
    """What is in a folder, in order; nothing if it is not there. OSError if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
