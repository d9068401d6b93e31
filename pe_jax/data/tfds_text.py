"""Text from TFDS datasets, read without TensorFlow.

`tfds:NAME[/CONFIG][:VERSION][:SPLIT]` is a dataset in a data_dir of TFDS, prepared in a format of
random access (ArrayRecord or Parquet), by prepare.py or by TFDS itself. Its splits are train,
validation (or valid) and test.

SPLIT says what is trained on, in TFDS's own language: `train[:50%]` is the first half of the
training records. Validation and test stay whole, and SPLIT may not take from them. Where a dataset
lacks one of the two, the documents of SPLIT are split as files are, by document if there are at
least ten, else by position, and the rest of the dataset is left out.

A document is the text of a record. Consecutive records with the same integer feature `document` are
the parts of one document, as far as they lie in the same part of SPLIT.

A damaged file is refused, and so is a truncated ArrayRecord, which reads as None. Where prepare.py
has left the checksums of the records beside the data, all records are compared with them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pe_jax.data.corpus import FEWEST_FILES, Corpus, Document, by_file, by_position, corpus_of
from pe_jax.storage import atomic
from pe_jax.storage.paths import expanded

SUMS = "pe_jax.json"
"""The file beside the prepared data with the checksums of its records (`sums`), by split."""
BY_DATASET = "by the dataset: {}, {}, test"
BY_DOCUMENT = (
    "by document: ranked by the sha256 of the text, the first 5 % are test, the next 5 % valid, "
    "the rest train"
)
BY_POSITION = "by position: the last tenth of each document is halved into valid and test"

_SOURCE = re.compile(
    r"tfds:(?P<name>\w+(/[\w.\-]+)?)(:(?P<version>\d+\.\d+\.\d+))?(:(?P<split>.+))?"
)


class Dataset(NamedTuple):
    """The dataset that a source names."""

    name: str
    """With its config, as in wikipedia/20230601.en."""
    version: str | None
    """None: the latest that is prepared."""
    split: str
    """What is trained on, in TFDS's own language."""


def parse(source: str) -> Dataset:
    """The parts of tfds:NAME[/CONFIG][:VERSION][:SPLIT]; ValueError for anything else."""
    match = _SOURCE.fullmatch(source)
    if not match:
        raise ValueError(
            f"{source} must read tfds:NAME[/CONFIG][:VERSION][:SPLIT], for example "
            "tfds:tiny_shakespeare or tfds:pg19:train[:10%]"
        )
    return Dataset(match["name"], match["version"], match["split"] or "train")


def data_dir(root: str) -> Path:
    """`root` as a path, `~` and variables expanded; TFDS's own data_dir if it is empty."""
    if root:
        return Path(expanded(root, "data.data_dir"))
    from tensorflow_datasets.core import constants

    return Path(constants.DATA_DIR).expanduser()


def find(folder: Path, name: str, version: str | None = None) -> Path | None:
    """The folder of a prepared dataset, by default of its latest version; None if there is none.

    Raises ValueError if it has several configs and `name` says none, or if it lacks the version.
    """
    from tensorflow_datasets.core.utils.version import list_all_versions

    place = folder / name
    versions = [str(known) for known in list_all_versions(place)]
    if not versions and place.is_dir():
        configs = sorted(path.name for path in place.iterdir() if list_all_versions(path))
        if len(configs) > 1:
            names = ", ".join(f"tfds:{name}/{config}" for config in configs)
            raise ValueError(f"{place} holds several configs: name one of {names}")
        if configs:
            return find(folder, f"{name}/{configs[0]}", version)
    if not versions:
        return None
    if version and version not in versions:
        raise ValueError(f"{place} has no version {version}; it has {', '.join(versions)}")
    return place / (version or versions[-1])


def read(source: str, path: Path, train: str) -> Corpus:
    """The corpus of the dataset prepared in `path`, trained on the part `train` of it.

    Raises ValueError for a part that cannot be trained on, and for a dataset that is damaged, has
    no text feature, or is in a format that only TensorFlow reads.
    """
    builder = _opened(path)
    names = list(builder.info.splits)
    parts = _parts(source, builder, train)
    valid = "valid" if "valid" in names else "validation"
    held = [valid, "test"] if {valid, "test"} <= set(names) else []
    if touched := [name for name in held if name in dict(parts)]:
        raise ValueError(
            f"{source} would train on {' and '.join(touched)}, which is held out: SPLIT may take "
            f"{' and '.join(name for name in names if name not in held) or 'nothing else'}"
        )
    about = atomic.read(path / SUMS) or {}
    for split, expected in about.get("splits", {}).items():
        if sums(_records(builder, split)) != expected:
            raise ValueError(_damaged(path, f"the records of {split} are not those prepared"))
    texts = [text for name, taken in parts for text in _documents(builder, name, taken)]
    if held:
        rule = BY_DATASET.format(train, valid)
        made = f" ({about['rule']})" if "rule" in about else ""
        splits = {"train": texts, "valid": _documents(builder, valid)}
        splits["test"] = _documents(builder, "test")
        return corpus_of(source, splits, rule + made)
    left = " and ".join(name for name in names if name not in dict(parts))
    return _split(source, texts, f"; {left} left out" if left else "")


def records(path: Path, split: str) -> list[tuple[int, bytes]]:
    """(document, text) of each record of `split`, of the dataset prepared in `path`, in order."""
    return _records(_opened(path), split)


def sums(rows: Sequence[tuple[int, bytes]]) -> dict[str, Any]:
    """{"count", "sha256"} of records: of the document, the length and the bytes of each."""
    digest = hashlib.sha256()
    for document, content in rows:
        digest.update(f"{document} {len(content)}\n".encode())
        digest.update(content)
    return {"count": len(rows), "sha256": digest.hexdigest()}


def _split(source: str, texts: Sequence[Document], rest: str) -> Corpus:
    """Documents without held-out splits, split as files are; `rest` says what is left out."""
    if len(texts) >= FEWEST_FILES:
        splits = by_file(texts, lambda document: document.text)
        return corpus_of(source, splits, BY_DOCUMENT + rest)
    return corpus_of(source, by_position(texts), BY_POSITION + rest)


def _opened(path: Path) -> Any:
    """TFDS's builder of a prepared dataset that can be read without TensorFlow."""
    import tensorflow_datasets as tfds

    try:
        json.loads((path / "features.json").read_bytes(), object_hook=_own_feature)
        builder = tfds.builder_from_directory(path)
    except Exception as error:  # errors of protobuf, of JSON, and of files that are not there
        raise ValueError(_damaged(path, error)) from error
    formats = builder.info.available_file_formats()
    if not formats & tfds.core.FileFormat.with_random_access():
        raise ValueError(
            f"{path} is prepared as {', '.join(form.value for form in formats)}, which only "
            "TensorFlow reads: prepare it with file_format='array_record'"
        )
    return builder


def _own_feature(node: dict[str, Any]) -> None:
    """ValueError for an object of features.json whose class is not TFDS's: TFDS would import it."""
    for name in (node.get(key) for key in ("pythonClassName", "python_class_name", "type")):
        if isinstance(name, str) and not name.startswith("tensorflow_datasets.core.features."):
            raise ValueError(f"features.json names {name}, which is no feature of TFDS")


def _parts(source: str, builder: Any, split: str) -> list[tuple[str, slice]]:
    """[(name, which of its records)] of the splits that SPLIT takes records from."""
    import tensorflow_datasets as tfds

    sizes = {name: info.num_examples for name, info in builder.info.splits.items()}
    names = ", ".join(f"{name} ({size:,})" for name, size in sizes.items())
    try:
        taken = tfds.core.ReadInstruction.from_spec(split).to_absolute(builder.info.splits)
    except Exception as error:  # TFDS has no class of its own for what it cannot parse
        raise ValueError(
            f"{source}: {split!r} is no part of the splits {names} ({error}); SPLIT is such as "
            "train[:50%] or train[1000:]"
        ) from error
    parts = [(part.splitname, slice(part.from_, part.to)) for part in taken]
    if not any(range(sizes[name])[part] for name, part in parts):
        raise ValueError(f"{source}: {split!r} takes none of the records of {names}; take more")
    return parts


def _records(builder: Any, split: str, taken: slice = slice(None)) -> list[tuple[int, bytes]]:
    """(document, text) of the records `taken` from a split. They are read one by one, since TFDS's
    reader of Parquet cannot read a part of a split.
    """
    path, field = Path(builder.data_dir), _field(builder)
    numbered = _is_integer(dict(builder.info.features.items()).get("document"))
    rows = []
    try:
        reader = builder.as_data_source(split=split)
        examples = [(i, reader[i]) for i in range(len(reader))[taken]]
    except Exception as error:  # whatever the readers of the formats raise
        raise ValueError(_damaged(path, error)) from error
    for i, example in examples:
        if example[field] is None:
            raise ValueError(_damaged(path, f"record {i} of {split} reads as None"))
        rows.append((int(example["document"]) if numbered else i, example[field]))
    return rows


def _field(builder: Any) -> str:
    """The name of the feature that is the text: `text`, or the only one of the type Text."""
    import tensorflow_datasets as tfds

    features = builder.info.features
    names = [name for name, f in features.items() if isinstance(f, tfds.features.Text)]
    if "text" in names or len(names) == 1:
        return "text" if "text" in names else names[0]
    kinds = ", ".join(
        f"{name} ({type(feature).__name__})" for name, feature in sorted(features.items())
    )
    raise ValueError(
        f"{builder.data_dir} must have one Text feature, or one that is named text; it has {kinds}"
    )


def _is_integer(feature: Any) -> bool:
    return (
        feature is not None and feature.shape == () and np.issubdtype(feature.np_dtype, np.integer)
    )


def _documents(builder: Any, split: str, taken: slice = slice(None)) -> list[Document]:
    """The documents in the records `taken` from a split, empty ones left out."""
    documents = []
    rows = _records(builder, split, taken)
    for number, group in itertools.groupby(rows, key=operator.itemgetter(0)):
        name, content = f"document {number} of {split}", b"".join(part for _, part in group)
        try:
            content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} in {builder.data_dir} is not UTF-8: {error}") from error
        if content:
            documents.append(Document(name, content))
    return documents


def _damaged(path: Path, what: object) -> str:
    return f"{path} is damaged ({what}): delete this folder, then prepare or copy the dataset again"
