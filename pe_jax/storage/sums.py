"""The SHA-256 of every file of a folder, in SHA256SUMS, a text that `sha256sum --check` reads."""

from __future__ import annotations

from pathlib import Path

from pe_jax.storage import atomic
from pe_jax.storage.hashes import sha256_of_file

NAME = "SHA256SUMS"


def write(folder: Path) -> None:
    """Writes the sums of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != NAME)
    lines = (f"{sha256_of_file(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    atomic.write(folder / NAME, "".join(lines))


def check(folder: Path, part: str) -> None:
    """ValueError, which names the file, if one below `<folder>/<part>` is missing or not as it was
    when the sums were written. Nothing is checked where there are none, as in what a process has
    left that was killed before it wrote them.
    """
    if not (folder / NAME).exists():
        return
    for line in (folder / NAME).read_text("utf-8").splitlines():
        known, _, name = line.partition("  ")
        path = folder / name
        if name.startswith(f"{part}/") and (not path.is_file() or sha256_of_file(path) != known):
            raise ValueError(f"{name} is not as it was written")
