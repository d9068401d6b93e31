"""Corpora of text as bytes: where documents come from and how they are split.

A source is a string. `stdlib` is the text of the running Python's standard library: it needs no
download, and differs between Python versions, so the version is part of the record. `files:PATH`
is a file, a folder or globs. `tfds:NAME` is a TFDS dataset (tfds_text.py). Documents are the UTF-8
bytes of whole files (or of parts of them), so a vocabulary of 256 serves every source. A file's
name stands without its `.gz` or `.xz` wherever names are sorted or hashed: packing a corpus changes
nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import glob
import gzip
import hashlib
import itertools
import lzma
import math
import os
import platform
import re
import sysconfig
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pe_jax.paths import expanded

SPLITS = ("train", "valid", "test")
FORMS = {
    "stdlib": "the sources of the running Python's standard library",
    "files": "files:PATH, a file, a folder or globs (files:a.txt,books/*.txt), plain, .gz or .xz",
    "tfds": "tfds:NAME[:SPLIT], a TFDS dataset prepared in data_dir, as tfds:tiny_shakespeare",
}
BY_FOLDER = "by folder: train, {}, test; files outside them are left out"
BY_FILE = (
    "by file: ranked by the sha256 of the relative name, the first 5 % are test, the next 5 % "
    "valid, the rest train"
)
BY_POSITION = "by position: the last tenth of each file is halved into valid and test"
FEWEST_FILES = 10  # fewer are split by position

_TEXT = re.compile(r"\.(txt|text|md|py)(\.gz|\.xz)?$", re.IGNORECASE)
_PACKED = re.compile(r"\.(gz|xz)$", re.IGNORECASE)
_NOT_STDLIB = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
# What describes one build of Python, and one generated text larger than a whole test split.
_NOT_SOURCE = re.compile(r"_sysconfigdata|config-|pydoc_data/")


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """Documents of each split ("train", "valid", "test"): read-only uint8 [n], UTF-8 bytes.

    `source` is as it was given, `split` a sentence that says how the text was split, `python` the
    version whose standard library it is, None for other sources.
    """

    splits: Mapping[str, tuple[np.ndarray, ...]]
    source: str
    split: str
    python: str | None = None

    def describe(self) -> dict:
        """What tells this text from any other, JSON-able: source, hash, split, sizes, python.

        The hash is the sha256 of each split's name and number of documents, each followed by the
        length and the bytes of every document, in order.
        """
        digest = hashlib.sha256()
        for name in SPLITS:
            digest.update(f"{name} {len(self.splits[name])}\n".encode())
            for document in self.splits[name]:
                digest.update(f"{document.size}\n".encode())
                digest.update(document.tobytes())
        return {
            "source": self.source,
            "hash": digest.hexdigest(),
            "split": self.split,
            "documents": {name: len(self.splits[name]) for name in SPLITS},
            "bytes": {name: sum(d.size for d in self.splits[name]) for name in SPLITS},
            "python": self.python,
        }


def load(source: str, root: str = "") -> Corpus:
    """Read the corpus that `source` names: `stdlib`, `files:PATH` or `tfds:NAME[:SPLIT]`.

    `~` and environment variables in PATH and `root` are expanded; where PATH is relative it begins
    at `root`, or at the working directory if that is empty. The Corpus keeps `source` as it was
    given.

    `stdlib` is every .py file outside test folders that is UTF-8, not empty and no copy of
    another, split by file.
    `files:PATH` is split by folder where PATH has the folders train, valid (or validation) and
    test; else by whole file where there are at least ten; else each file's last tenth is halved
    into valid and test, never inside a UTF-8 character. In a folder every file whose name ends in
    .txt, .text, .md or .py, with or without .gz or .xz, is read, at any depth, hidden ones
    excepted; a file or a glob may have any name.
    `tfds:NAME[:SPLIT]` is read from the TFDS data_dir `root` (tfds_text.load).

    Raises ValueError for an unknown source, for files that are empty, damaged or not UTF-8, and
    for a split without documents; FileNotFoundError for a path that is not there.
    """
    kind, _, rest = source.partition(":")
    if source == "stdlib":
        return _stdlib()
    if kind == "files" and rest.strip(" ,"):
        return _files(source, _located(rest, root))
    if kind == "tfds" and rest:
        from pe_jax import tfds_text  # it builds on this module

        return tfds_text.load(source, rest, root)
    raise ValueError(_unknown(source))


def _located(where: str, root: str) -> str:
    """PATH, or the comma-separated globs in it, from `root` on, `~` and variables expanded."""
    parts = [where] if "," not in where else [part.strip() for part in where.split(",")]
    root = expanded(root, "data.data_dir")
    parts = [expanded(part, f"files:{where}") for part in parts if part]
    return ",".join(os.path.join(root, part) for part in parts)


def _stdlib() -> Corpus:
    root = Path(sysconfig.get_path("stdlib"))
    names = sorted(path.relative_to(root).as_posix() for path in _walk(root, _NOT_STDLIB))
    texts: dict[bytes, str] = {}
    for name in names:
        if name.endswith(".py") and not _NOT_SOURCE.match(name):
            with contextlib.suppress(UnicodeDecodeError):
                texts.setdefault(_utf8((root / name).read_bytes()), name)
    texts.pop(b"", None)
    if len(texts) < FEWEST_FILES:
        raise ValueError(
            f"this Python has only {len(texts)} source files of its standard library under {root}; "
            "use another text with files:PATH"
        )
    named = [(name, text) for text, name in texts.items()]
    return corpus_of("stdlib", by_file(named), BY_FILE, platform.python_version())


def _files(source: str, where: str) -> Corpus:
    folder = Path(where)
    valid = "valid" if (folder / "valid").is_dir() else "validation"
    folders = dict(zip(SPLITS, (folder / "train", folder / valid, folder / "test"), strict=True))
    if all(path.is_dir() for path in folders.values()):
        splits = {s: [text for _, text in _read(_expand(f"{folders[s]}"))] for s in SPLITS}
        return corpus_of(source, splits, BY_FOLDER.format(valid))
    patterns = [where] if folder.exists() else filter(None, map(str.strip, where.split(",")))
    texts = _read(itertools.chain.from_iterable(map(_expand, patterns)))
    if len(texts) >= FEWEST_FILES:
        return corpus_of(source, by_file(texts), BY_FILE)
    return corpus_of(source, by_position([text for _, text in texts]), BY_POSITION)


def corpus_of(
    source: str, splits: Mapping[str, Sequence[bytes]], rule: str, python: str | None = None
) -> Corpus:
    """The corpus of these texts, empty ones left out; ValueError for a split without any."""
    arrays = {s: tuple(np.frombuffer(text, np.uint8) for text in splits[s] if text) for s in SPLITS}
    if empty := [split for split in SPLITS if not arrays[split]]:
        raise ValueError(
            f"{source} leaves no text for {' and '.join(empty)} (split {rule}): give longer files, "
            f"at least {FEWEST_FILES} files, or a folder with the folders {', '.join(SPLITS)}"
        )
    return Corpus(arrays, source, rule, python)


def by_file(texts: Sequence[tuple[str | bytes, bytes]]) -> dict[str, list[bytes]]:
    """Files ranked by the sha256 of their names: ceil(5 %) test, as many valid. Order is kept."""
    hashes = [hashlib.sha256(os.fsencode(name)).digest() for name, _ in texts]
    ranked = sorted(range(len(texts)), key=hashes.__getitem__)
    held = math.ceil(len(texts) / 20)
    members = {"train": ranked[2 * held :], "valid": ranked[held : 2 * held], "test": ranked[:held]}
    return {split: [texts[i][1] for i in sorted(indices)] for split, indices in members.items()}


def by_position(texts: Sequence[bytes]) -> dict[str, list[bytes]]:
    """The last tenth of each text halved into valid and test, at the ends of characters."""
    splits: dict[str, list[bytes]] = {split: [] for split in SPLITS}
    for text in texts:
        first, second = (boundary(text, len(text) * part // 20) for part in (18, 19))
        splits["train"].append(text[:first])
        splits["valid"].append(text[first:second])
        splits["test"].append(text[second:])
    return splits


def boundary(text: bytes, cut: int) -> int:
    """The last place at or before `cut` where a UTF-8 character begins."""
    while text[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


def _walk(root: Path, skip: Iterable[str] = ()) -> Iterator[Path]:
    """Regular files under `root`, but nothing hidden and no folder named in `skip`."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in skip]
        paths = (Path(folder, name) for name in names if not name.startswith("."))
        yield from (path for path in paths if path.is_file())


def _expand(pattern: str) -> list[tuple[str, Path]]:
    """The files of a file, folder or glob, named relative to the folder (a glob's fixed part)."""
    path = Path(pattern)
    if path.is_dir():
        root, found = path, [p for p in _walk(path) if _TEXT.search(p.name)]
    elif path.exists():
        root, found = path.parent, [path]
    elif glob.escape(pattern) != pattern:
        root = Path(*itertools.takewhile(lambda part: glob.escape(part) == part, path.parts))
        found = [p for p in map(Path, glob.glob(str(path), recursive=True)) if p.is_file()]
    else:
        raise FileNotFoundError(_missing(path))
    if not found:
        kinds = "ending in .txt, .text, .md or .py (or these with .gz or .xz) in"
        raise FileNotFoundError(f"no file {kinds if path.is_dir() else 'matches'} {path}")
    return sorted((_PACKED.sub("", p.relative_to(root).as_posix()), p) for p in found)


def _read(files: Iterable[tuple[str, Path]]) -> list[tuple[str, bytes]]:
    """Names and checked texts, each file once, sorted by name."""
    unique = {path.resolve(): (name, path) for name, path in files}
    texts = [(name, _text(path)) for name, path in unique.values()]
    pairs = zip(unique.values(), texts, strict=True)
    if empty := [str(path) for (_, path), (_, text) in pairs if not text]:
        raise ValueError(f"empty: {', '.join(empty)}; remove or fill what is empty")
    return sorted(texts, key=lambda item: item[0])


def _text(path: Path) -> bytes:
    openers: dict[str, Callable] = {".gz": gzip.open, ".xz": lzma.open}
    try:
        with openers.get(path.suffix.lower(), open)(path, "rb") as file:
            return _utf8(file.read())
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); pack it again") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 at byte {error.start} (0x{error.object[error.start]:02x}); "
            f"convert it, for Latin-1 by: iconv -f ISO-8859-1 -t UTF-8 {path}"
        ) from error


def _utf8(text: bytes) -> bytes:
    text.decode("utf-8")
    return text


def _unknown(source: str) -> str:
    forms = "; ".join(f"{form} ({meaning})" for form, meaning in FORMS.items())
    if source and Path(source).expanduser().exists():
        return f"unknown source {source!r}: for a path write files:{source}; known: {forms}"
    near = difflib.get_close_matches(source.partition(":")[0], FORMS, n=1)
    return f"unknown source {source!r}{f', nearest: {near[0]}' if near else ''}; known: {forms}"


def _missing(path: Path) -> str:
    path = path.absolute()
    while not path.parent.exists():
        path = path.parent
    near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=3)
    return f"no {path.name} in {path.parent}" + (f"; nearest: {', '.join(near)}" if near else "")
