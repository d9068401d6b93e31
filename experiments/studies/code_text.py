"""The text of studies of code: Python files without near copies, packed, in a folder of their own.

    python -m experiments.studies.code_text runs/code_text
    python -m experiments.studies.code_text --packages=FOLDER runs/packages_text

The files are those of the standard library (source `stdlib`), or the .py files of the packages in
FOLDER, as a `site-packages` has them. They are read in the order of their names. A file is left out
if at least 15 % of its runs of three lines, without case, blank lines and outer white space,
stand in files that were kept before.

Without --packages the text is in one folder, which the source `files:` splits by file. Packages are
split as wholes, into the folders train, valid and test: ranked by the SHA-256 of their names, the
first with 5 % of the bytes together are test, the next with 5 % valid. A package of more than 5 %
is training text.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from pe_jax.data import load

LINES, SHARE = 3, 0.15
HELD = 0.05


def without_copies(documents: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The documents (name, text) of which less than 15 % stands in earlier ones."""
    seen: set[int] = set()
    for name, text in documents:
        lines = [line.strip() for line in text.casefold().splitlines() if line.strip()]
        runs = [hash(tuple(lines[i : i + LINES])) for i in range(max(1, len(lines) - LINES + 1))]
        if sum(run in seen for run in runs) < SHARE * len(runs):
            seen.update(runs)
            yield name, text


def split_of(sizes: dict[str, int]) -> dict[str, str]:
    """The split of each package, by its name, from their sizes in bytes."""
    bound = HELD * sum(sizes.values())
    held = iter(("test", "valid"))
    split, filled, splits = next(held), 0, {}
    for name in sorted(sizes, key=lambda name: hashlib.sha256(name.encode()).digest()):
        splits[name] = split if sizes[name] <= bound else "train"
        filled += sizes[name] if splits[name] == split else 0
        if filled >= bound and split != "train":
            split, filled = next(held, "train"), 0
    return splits


def write(documents: Iterable[tuple[str, str]], folder: Path) -> None:
    """Writes each document as <folder>/<name>.gz, the same bytes for the same text."""
    for name, text in documents:
        path = folder / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _stdlib() -> list[tuple[str, str]]:
    parts = load.stdlib().parts.values()
    return sorted((name, text.decode()) for part in parts for name, text in part if text)


def _packages(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*/**/*.py")):
        with contextlib.suppress(UnicodeDecodeError):
            if text := path.read_bytes().decode():
                yield path.relative_to(folder).as_posix(), text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", type=Path)
    asked = parser.parse_args()
    if asked.packages is None:
        kept = list(without_copies(_stdlib()))
    else:
        kept = list(without_copies(_packages(asked.packages)))
        sizes = {
            package: sum(len(text.encode()) for _, text in files)
            for package, files in itertools.groupby(kept, lambda file: file[0].partition("/")[0])
        }
        splits = split_of(sizes)
        kept = [(f"{splits[name.partition('/')[0]]}/{name}", text) for name, text in kept]
    write(kept, asked.out)
    print(f"{len(kept)} files in {asked.out}")


if __name__ == "__main__":
    main()
