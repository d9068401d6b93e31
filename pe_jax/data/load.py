"""The corpus that data.source names: files, the standard library, or TFDS (tfds_text.py)."""

from __future__ import annotations

import contextlib
import glob
import gzip
import itertools
import lzma
import os
import platform
import re
import sysconfig
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pe_jax.data import tfds_text
from pe_jax.data.corpus import FEWEST_FILES, SPLITS, Corpus, Document, corpus_of, split_of
from pe_jax.errors import nearest
from pe_jax.storage.paths import existing, expanded

FORMS = {
    "stdlib": "the sources of the running Python's standard library",
    "files": "files:PATH, a file, a folder or globs (files:a.txt,books/*.txt), plain, .gz or .xz",
    "tfds": "tfds:NAME[:SPLIT], a TFDS dataset prepared in data_dir, as tfds:tiny_shakespeare",
}


def load(source: str, root: str = "") -> Corpus:
    """Reads the corpus that `source` names: `stdlib`, `files:PATH` or `tfds:NAME[:SPLIT]`.

    `root` is where a relative PATH begins ("": the working directory), and for `tfds` the data_dir
    ("": TFDS's own). `~` and environment variables in PATH and `root` are expanded. `stdlib`,
    `files` and tfds_text.py say what is read and how it is split.

    Raises ValueError for an unknown source, for text that is damaged or not UTF-8, for a split
    without text and for a dataset that is not prepared; FileNotFoundError for a path that is not
    there.
    """
    kind, _, rest = source.partition(":")
    if source == "stdlib":
        return stdlib()
    if kind == "files" and rest.strip(" ,"):
        return files(rest, root)
    if kind == "tfds" and rest:
        return tfds_text.load(source, root)
    forms = "; ".join(f"{form} ({meaning})" for form, meaning in FORMS.items())
    if source and Path(source).expanduser().exists():
        hint = f"; for a path write files:{source}."
    else:
        hint = nearest(kind, FORMS)
    raise ValueError(f"unknown source {source!r}{hint} Known: {forms}.")


# Text from files
#
# The standard library needs no download; it differs between versions of Python, so the version is
# part of the record. Packing a file changes no corpus: names are sorted and hashed without .gz or
# .xz.


BY_FOLDER = "by folder: train, {}, test; files outside them are left out"
BY_TWO_FOLDERS = "by folder: train, test; a twentieth of train is valid; others are left out"
BY_FILE = (
    "by file: ranked by the sha256 of the relative name, the first 5 % are test, the next 5 % "
    "valid, the rest train"
)
BY_POSITION = "by position: the last tenth of each file is halved into valid and test"

# Names of files that are read in a folder, and those of packed ones.
TEXT_NAME = re.compile(r"\.(txt|text|md|py)(\.gz|\.xz)?$", re.IGNORECASE)
PACKED_NAME = re.compile(r"\.(gz|xz)$", re.IGNORECASE)
NOT_STDLIB = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
# What describes one build of Python, and one generated text larger than a whole test split.
NOT_SOURCE = re.compile(r"_sysconfigdata|config-|pydoc_data/")


def stdlib() -> Corpus:
    """The .py files of the standard library outside test folders, split by file; those that are not
    UTF-8, empty, or copies of another are left out. ValueError for a Python that is installed
    without them.
    """
    root = Path(sysconfig.get_path("stdlib"))
    names = sorted(path.relative_to(root).as_posix() for path in _walk(root, NOT_STDLIB))
    texts: dict[bytes, str] = {}
    for name in names:
        if name.endswith(".py") and not NOT_SOURCE.match(name):
            with contextlib.suppress(UnicodeDecodeError):
                texts.setdefault(_utf8((root / name).read_bytes()), name)
    texts.pop(b"", None)
    if len(texts) < FEWEST_FILES:
        raise ValueError(
            f"this Python has only {len(texts)} source files of its standard library under {root}; "
            "use another text with files:PATH"
        )
    splits = _by_name([Document(name, text) for text, name in texts.items()])
    return corpus_of("stdlib", splits, BY_FILE, platform.python_version())


def files(where: str, root: str = "") -> Corpus:
    """The text of `where`, which is a file, a folder, or files and globs with commas between.

    `~` and environment variables are expanded; a relative path begins at `root`, or at the working
    directory if that is empty. In a folder every file whose name ends in .txt, .text, .md or .py,
    with or without .gz or .xz, is read, at any depth, hidden ones excepted; a file or a glob may
    have any name.

    A folder with the folders train, valid (or validation) and test is split by these; without valid
    a twentieth of train is validation text. Otherwise ten or more files are split by file, and each
    of fewer by position (corpus.py). Empty files are left out.

    Raises ValueError for files that are damaged or not UTF-8, for a split without text, and for
    valid with train or test alone; OSError for a path that is not there, and for what is in a
    folder and cannot be read.
    """
    given, where = where, _located(where, root)
    source = f"files:{given}"
    folder = Path(where)
    valid = "valid" if (folder / "valid").is_dir() else "validation"
    folders = dict(zip(SPLITS, (folder / "train", folder / valid, folder / "test"), strict=True))
    present = {split: path for split, path in folders.items() if path.is_dir()}
    if len(present) == 2 and "valid" in present:
        named = " and ".join(path.name for path in present.values())
        (lacking,) = {*SPLITS} - {*present}
        raise ValueError(
            f"{folder} has the folders {named}, and none named {lacking}: add one, or name "
            f"the files, which are then split anew, as files:{given}/**/*.txt"
        )
    if len(present) >= 2:
        splits = {s: _read(_files_of(f"{path}"), f"{path.name}/") for s, path in present.items()}
        if "valid" in present:
            return corpus_of(source, splits, BY_FOLDER.format(valid))
        parts = _by_name(splits["train"])
        splits |= {"train": parts["train"] + parts["test"], "valid": parts["valid"]}
        return corpus_of(source, splits, BY_TWO_FOLDERS)
    patterns = [where] if folder.exists() else filter(None, map(str.strip, where.split(",")))
    texts = _read(itertools.chain.from_iterable(map(_files_of, patterns)))
    rule = BY_FILE if len(texts) >= FEWEST_FILES else BY_POSITION
    return corpus_of(source, _by_name(texts), rule)


def _by_name(documents: list[Document]) -> dict[str, list[Document]]:
    return split_of(documents, (os.fsencode(document.name) for document in documents))


# `where`, or each part of it between commas, with `root` before it and variables expanded. A file
# whose name has commas is one part.
def _located(where: str, root: str) -> str:
    root, named = expanded(root, "data.data_dir"), f"files:{where}"
    if os.path.exists(whole := os.path.join(root, expanded(where, named))) or "," not in where:
        return whole
    parts = [expanded(part, named) for part in map(str.strip, where.split(",")) if part]
    return ",".join(os.path.join(root, part) for part in parts)


# Files under `root`, but nothing hidden and no folder named in `skip`. A link to a folder is
# followed, unless that lies in one that is read anyway. OSError for a folder that cannot be read.
def _walk(root: Path, skip: Iterable[str] = ()) -> Iterator[Path]:
    read = [root.resolve()]

    def refuse(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(root, onerror=refuse, followlinks=True):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in skip)
        for link in [name for name in folders if Path(folder, name).is_symlink()]:
            target = Path(folder, link).resolve()
            if any(target.is_relative_to(path) for path in read):
                folders.remove(link)
            read.append(target)
        yield from (Path(folder, name) for name in names if not name.startswith("."))


# The files that a file, folder or glob stands for, with their names: relative to the folder, or to
# the part of a glob before its first wildcard.
def _files_of(pattern: str) -> list[tuple[str, Path]]:
    path = Path(pattern)
    if path.is_dir():
        root, paths = path, [p for p in _walk(path) if TEXT_NAME.search(p.name)]
    elif path.exists() or glob.escape(pattern) == pattern:
        root, paths = path.parent, [existing(path, "file")]
    else:
        root = Path(*itertools.takewhile(lambda part: glob.escape(part) == part, path.parts))
        paths = [p for p in map(Path, glob.glob(str(path), recursive=True)) if p.is_file()]
    if not paths:
        kinds = "ending in .txt, .text, .md or .py (or these with .gz or .xz) in"
        raise FileNotFoundError(f"no file {kinds if path.is_dir() else 'matches'} {path}")
    return sorted((PACKED_NAME.sub("", p.relative_to(root).as_posix()), p) for p in paths)


# The texts of files, each file once, sorted by their names, which get the prefix.
def _read(files: Iterable[tuple[str, Path]], prefix: str = "") -> list[Document]:
    unique = {path.resolve(): (prefix + name, path) for name, path in files}
    documents = [Document(name, _unpacked(path)) for name, path in unique.values()]
    return sorted((each for each in documents if each.text), key=lambda document: document.name)


# The bytes of a file, unpacked; ValueError for one that is damaged or not UTF-8.
def _unpacked(path: Path) -> bytes:
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


# The same bytes; UnicodeDecodeError if they are not UTF-8.
def _utf8(text: bytes) -> bytes:
    text.decode("utf-8")
    return text
