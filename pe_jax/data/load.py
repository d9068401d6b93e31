"""The corpus that data.source names: files, the standard library, TFDS (tfds_text.py) or documents
that a user's function yields.
"""

from __future__ import annotations

import codecs
import contextlib
import glob
import gzip
import io
import itertools
import lzma
import operator
import os
import platform
import re
import sysconfig
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pe_jax import contract
from pe_jax.data import tfds_text, tokenizer
from pe_jax.data.corpus import FEWEST_FILES, LARGE, SPLITS, Corpus, Document, Source, stored
from pe_jax.errors import nearest
from pe_jax.storage.hashes import stamp
from pe_jax.storage.paths import existing, expanded

FORMS = {
    "stdlib": "the sources of the running Python's standard library",
    "files": "files:PATH, a file, a folder or globs (files:a.txt,books/*.jsonl), plain or packed",
    "tfds": "tfds:NAME[:SPLIT], a TFDS dataset prepared in data_dir, as tfds:tiny_shakespeare",
    "documents": "documents:FILE.py:NAME, a function of yours that yields texts",
}


def load(source: str, root: str = "", store: str = "") -> Corpus:
    """Reads the corpus that `source` names, in one of FORMS; one of corpus.LARGE bytes or more into
    a folder below `store` ("": that of `paths.cache`), once.

    `root` is where a relative PATH begins ("": the working directory), and for `tfds` the data_dir
    ("": TFDS's own). `~` and environment variables in PATH, `root` and `store` are expanded.
    `stdlib`, `files` and tfds_text.py say what is read and how it is split.

    Raises ValueError for an unknown source, for text that is damaged or not UTF-8, for a split
    without text and for a dataset that is not prepared; FileNotFoundError for a path that is not
    there.
    """
    kind, _, rest = source.partition(":")
    if source == "stdlib":
        return stored(stdlib(), store)
    if kind == "files" and rest.strip(" ,"):
        return stored(files(rest, root), store)
    if kind == "tfds" and rest:
        return stored(tfds_text.find(source, root), store)
    if kind == "documents" and rest:
        return stored(users_documents(rest), store)
    forms = "; ".join(f"{form} ({meaning})" for form, meaning in FORMS.items())
    if source and Path(source).expanduser().exists():
        hint = f"; for a path write files:{source}."
    else:
        hint = nearest(kind, FORMS)
    raise ValueError(f"unknown source {source!r}{hint} Known: {forms}.")


def users_documents(name: str) -> Source:
    """The texts, str or bytes in UTF-8, that a function without arguments yields; `name` is
    path/to/file.py:NAME. They are kept in the store whatever their size, and read anew where the
    file or a module that it imports changes. ValueError for what it raises.
    """
    kind: Any = Callable
    function = contract.own(name, kind, instance=True)

    def documents() -> Iterator[Document]:
        with contract.calling(name, name):
            for i, text in enumerate(function()):
                text = text if isinstance(text, bytes) else text.encode()
                yield Document(f"document {i}", _utf8(text))

    rules, files = (tfds_text.BY_DOCUMENT, tfds_text.BY_POSITION), contract.sources(name)
    return Source(f"documents:{name}", {"": documents()}, rules, files, LARGE, by_text=True)


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
TEXT_NAME = re.compile(r"\.((txt|text|md|py|jsonl)(\.gz|\.xz|\.zst)?|parquet)$", re.IGNORECASE)
BETWEEN = b"<|endoftext|>", b"<|begin_of_text|>"  # documents of a shard, by GPT-2 and by Llama 3
PACKED_NAME = re.compile(r"\.(gz|xz|zst)$", re.IGNORECASE)
NOT_STDLIB = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
# What describes one build of Python, and one generated text larger than a whole test split.
NOT_SOURCE = re.compile(r"_sysconfigdata|config-|pydoc_data/")


def stdlib() -> Source:
    """The .py files of the standard library outside test folders, split by file, without
    copies, empty files and any that are not UTF-8. ValueError for a Python that is installed
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
    documents = [Document(name, text) for text, name in texts.items()]
    version = platform.python_version()
    return Source("stdlib", {"": documents}, (BY_FILE, BY_FILE), python=version)


def files(where: str, root: str = "") -> Source:
    """The text of `where`, which is a file, a folder, or files and globs with commas between.

    `~` and environment variables are expanded; a relative path begins at `root`, or at the working
    directory if that is empty. In a folder every file whose name ends in .txt, .text, .md, .py or
    .jsonl, with or without .gz, .xz or .zst, or in .parquet is read, at any depth, hidden ones
    excepted; a file or a glob may have any name. A row of .jsonl or .parquet is a document, its
    field "text". A file that ends in .bin has tokens of nanoGPT or llm.c, by the tokenizer.json
    of its folder; in a folder without one it is left out.

    A folder with the folders train, valid (or validation) and test is split by these; without valid
    a twentieth of train is validation text. Otherwise ten or more documents are split by name, and
    each of fewer by position (corpus.py). Empty documents are left out.

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
        listed = {s: _listed(_files_of(f"{path}"), f"{path.name}/") for s, path in present.items()}
        if "valid" in present:
            rule = BY_FOLDER.format(valid)
            return _source(source, listed, (rule, rule))
        listed[""] = listed.pop("train")
        return _source(source, listed, (BY_TWO_FOLDERS, BY_TWO_FOLDERS))
    patterns = [where] if folder.exists() else filter(None, map(str.strip, where.split(",")))
    listed = {"": _listed(itertools.chain.from_iterable(map(_files_of, patterns)))}
    return _source(source, listed, (BY_FILE, BY_POSITION))


Listed = list[tuple[str, Path]]  # files by their names


def _source(source: str, listed: Mapping[str, Listed], rules: tuple[str, str]) -> Source:
    every = [(name, path) for files in listed.values() for name, path in files]
    sizes = (path.stat().st_size * (4 if PACKED_NAME.search(path.name) else 1) for _, path in every)
    return Source(
        source,
        {split: _documents(files) for split, files in listed.items()},
        rules,
        identity=[(name, str(path), *stamp(path)) for name, path in every],
        bytes=sum(sizes),
    )


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
        root, paths = path, [p for p in _walk(path) if TEXT_NAME.search(p.name) or _is_shard(p)]
    elif path.exists() or glob.escape(pattern) == pattern:
        root, paths = path.parent, [existing(path, "file")]
    else:
        root = Path(*itertools.takewhile(lambda part: glob.escape(part) == part, path.parts))
        paths = [p for p in map(Path, glob.glob(str(path), recursive=True)) if p.is_file()]
    if not paths:
        kinds = "ending in .txt, .text, .md, .py, .jsonl (or these packed), .parquet or .bin in"
        raise FileNotFoundError(f"no file {kinds if path.is_dir() else 'matches'} {path}")
    return sorted((PACKED_NAME.sub("", p.relative_to(root).as_posix()), p) for p in paths)


# Each file once, sorted by their names, which get the prefix.
def _listed(files: Iterable[tuple[str, Path]], prefix: str = "") -> Listed:
    unique = {path.resolve(): (prefix + name, path) for name, path in files}
    return sorted(unique.values(), key=operator.itemgetter(0))


# The documents of files: a row of .jsonl or .parquet each, many of a .bin, else the whole file.
# ValueError for files that are damaged or not UTF-8.
def _documents(files: Listed) -> Iterator[Document]:
    for name, path in files:
        try:
            if rows := ROWS.get(PACKED_NAME.sub("", path.name).rpartition(".")[2].lower()):
                for number, text in rows(path):
                    yield Document(f"{name}:{number}", text)
            else:
                with _opened(path) as file:
                    yield Document(name, _utf8(file.read()))
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if getattr(error, "errno", None) or isinstance(error, FileNotFoundError):
                raise
            raise ValueError(f"{path} is truncated or damaged ({error}); pack it again") from error
        except UnicodeDecodeError as error:
            remedy = f"convert it, for Latin-1 by: iconv -f ISO-8859-1 -t UTF-8 {path}"
            remedy = "give its own tokenizer.json" if _is_shard(path) else remedy
            at = f"at byte {error.start} (0x{error.object[error.start]:02x})"
            raise ValueError(f"{path} is not UTF-8 {at}; {remedy}") from error


# The content of a file, unpacked.
def _opened(path: Path) -> io.BufferedIOBase:
    kind = path.suffix.lower()
    if kind == ".zst":
        import pyarrow

        stream: Any = pyarrow.input_stream(str(path), compression="zstd")
        return io.BufferedReader(stream)
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    return openers.get(kind, open)(path, "rb")


# The same bytes; UnicodeDecodeError if they are not UTF-8.
def _utf8(text: bytes) -> bytes:
    text.decode("utf-8")
    return text


class _Row(msgspec.Struct):
    text: str


# The lines of JSON that are not blank, by their numbers.
def _of_jsonl(path: Path) -> Iterator[tuple[int, bytes]]:
    decoder = msgspec.json.Decoder(_Row)
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    text = decoder.decode(line).text.encode()
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise ValueError(
                        f'{path} must have objects with a string "text", line {number}: {error}'
                    ) from error
                yield number, text


def _of_parquet(path: Path) -> Iterator[tuple[int, bytes]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            types = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
            if types.get("text") not in (pyarrow.string(), pyarrow.large_string()):
                raise ValueError(f"{path} must have a column of strings named text, got {[*types]}")
            batches = file.iter_batches(256, columns=["text"])
            texts = (text or "" for batch in batches for text in batch.column(0).to_pylist())
            yield from enumerate((text.encode() for text in texts), 1)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is damaged: {error}") from error


# Tokens of nanoGPT (uint16) or llm.c (a header, then uint16 or uint32), as the text that they stand
# for by the tokenizer.json beside them. A character that is cut by the end of a shard is left out.
def _of_shard(path: Path) -> Iterator[tuple[int, bytes]]:
    made_by = tokenizer.named(f"file:{path.parent / 'tokenizer.json'}")
    with path.open("rb") as file:
        magic = int.from_bytes(file.read(4), "little")
    dtype = {20240520: np.uint16, 20240801: np.uint32}.get(magic)
    try:
        tokens = np.memmap(path, dtype or np.uint16, "r", 1024 if dtype else 0)
    except ValueError as error:  # without the path
        raise ValueError(f"{path} is empty or cut off: {error}") from error
    if (largest := int(tokens.max(initial=0))) >= len(made_by.pieces):
        raise ValueError(
            f"{path} has the token {largest}, and the tokenizer.json beside it "
            f"{len(made_by.pieces)} tokens: give the one that it was made by"
        )
    between = [i for i, piece in enumerate(made_by.pieces) if piece in BETWEEN]
    ends = []
    for start in range(0, len(tokens), LARGE):
        here = np.isin(tokens[start : start + LARGE], between)
        ends += (np.flatnonzero(here) + start).tolist()
    for number, (before, end) in enumerate(itertools.pairwise([-1, *ends, len(tokens)]), 1):
        text = made_by.decode(tokens[before + 1 : end])
        text = text if before >= 0 else text.lstrip(bytes(range(0x80, 0xC0)))
        if end == len(tokens):
            text = codecs.getincrementaldecoder("utf-8")().decode(text).encode()
        yield number, _utf8(text)


def _is_shard(path: Path) -> bool:
    return path.suffix == ".bin" and (path.parent / "tokenizer.json").is_file()


ROWS = {"jsonl": _of_jsonl, "parquet": _of_parquet, "bin": _of_shard}
