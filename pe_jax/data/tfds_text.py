"""Text from TFDS datasets, read without TensorFlow.

`tfds:NAME[/CONFIG][:VERSION][:SPLIT]` is a dataset that lies prepared in a data_dir of TFDS, as
ArrayRecord or Parquet. Its splits are train, validation (or valid) and test.

SPLIT is the training text, in TFDS's own language: `train[:50%]` is the first half of the training
records. Validation and test stay whole, and SPLIT may not take from them. Where a dataset lacks one
of the two, the documents of SPLIT are split as files are, by document if there are at least ten,
else by position, and the rest of the dataset is left out.

A document is the text of a record. Consecutive records with the same integer feature `document` are
the parts of one document, as far as they lie in the same part of SPLIT.
"""

from __future__ import annotations

import itertools
import json
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax.data.corpus import Document, Source
from pe_jax.errors import nearest
from pe_jax.storage.hashes import stamp
from pe_jax.storage.paths import expanded

BY_DATASET = "by the dataset: {}, {}, test"
BY_DOCUMENT = (
    "by document: ranked by the sha256 of the text, the first 5 % are test, the next 5 % valid, "
    "the rest train"
)
BY_POSITION = "by position: the last tenth of each document is halved into valid and test"

_SOURCE = re.compile(
    r"tfds:(?P<name>\w+(/[\w.\-]+)?)(:(?P<version>\d+\.\d+\.\d+))?(:(?P<split>.+))?"
)


def find(source: str, root: str = "") -> Source:
    """The text of `source` from the data_dir `root`, in which `~` and environment variables are
    expanded; "" is TFDS's own.

    Raises ValueError for a dataset that is not prepared there, is damaged, has no text feature or
    is in a format that only TensorFlow reads, and for a SPLIT that cannot be trained on.
    """
    match = _SOURCE.fullmatch(source)
    if not match:
        raise ValueError(
            f"{source} must read tfds:NAME[/CONFIG][:VERSION][:SPLIT], for example "
            "tfds:tiny_shakespeare or tfds:pg19:train[:10%]"
        )
    train = match["split"] or "train"
    builder = _opened(_find(data_dir(root), match["name"], match["version"]))
    parts = _parts(source, builder, train)
    names, trained = list(builder.info.splits), [name for name, _ in parts]
    valid = "valid" if "valid" in names else "validation"
    held = [valid, "test"] if {valid, "test"} <= set(names) else []
    if touched := [name for name in held if name in trained]:
        raise ValueError(
            f"{source} would train on {' and '.join(touched)}, which is held out: SPLIT may take "
            f"{' and '.join(name for name in names if name not in held) or 'nothing else'}"
        )
    files = sorted(path for path in Path(builder.data_dir).iterdir() if path.is_file())
    fields = {
        "identity": [(path.name, *stamp(path)) for path in files],
        "bytes": 2 * sum(path.stat().st_size for path in files),  # compressed
        "by_text": True,
    }
    train_text = itertools.chain.from_iterable(
        _documents(builder, name, taken) for name, taken in parts
    )
    if held:
        splits = {"train": train_text, "valid": _documents(builder, valid)}
        splits["test"] = _documents(builder, "test")
        rule = BY_DATASET.format(train, valid)
        return Source(source, splits, (rule, rule), **fields)
    left = " and ".join(name for name in names if name not in trained)
    rest = f"; {left} left out" if left else ""
    return Source(source, {"": train_text}, (BY_DOCUMENT + rest, BY_POSITION + rest), **fields)


def data_dir(root: str) -> Path:
    """`root` as a path, `~` and variables expanded; TFDS's own data_dir if it is empty."""
    if root:
        return Path(expanded(root, "data.data_dir"))
    from tensorflow_datasets.core import constants

    return Path(constants.DATA_DIR).expanduser()


# The folder of a prepared dataset, by default of its latest version and its only config.
def _find(folder: Path, name: str, version: str | None) -> Path:
    from tensorflow_datasets.core.utils.version import list_all_versions

    place = folder / name
    versions = [str(version) for version in list_all_versions(place)]
    if not versions:
        configs = sorted(path.name for path in place.glob("*") if list_all_versions(path))
        if len(configs) == 1:
            return _find(folder, f"{name}/{configs[0]}", version)
        if configs:
            names = ", ".join(f"tfds:{name}/{config}" for config in configs)
            raise ValueError(f"{place} holds several configs: name one of {names}")
        there = [path.name for path in folder.glob("*") if path.is_dir()]
        raise ValueError(
            f"no TFDS dataset {name!r} lies prepared in {folder}{nearest(name, there)} Copy one "
            "there that TFDS has prepared with file_format='array_record', or put its text into "
            "files and read them by data.source=files:PATH"
        )
    if version and version not in versions:
        raise ValueError(f"{place} has no version {version}; it has {', '.join(versions)}")
    return place / (version or versions[-1])


# TFDS's builder of a prepared dataset that can be read without TensorFlow.
def _opened(path: Path) -> Any:
    import tensorflow_datasets as tfds

    try:
        json.loads((path / "features.json").read_bytes(), object_hook=_own_feature)
        builder = tfds.builder_from_directory(path)
    except Exception as error:  # of protobuf, of JSON, and of files that are not there
        raise ValueError(_damaged(path, error)) from error
    formats = builder.info.available_file_formats()
    if not formats & tfds.core.FileFormat.with_random_access():
        raise ValueError(
            f"{path} is prepared as {', '.join(form.value for form in formats)}, which only "
            "TensorFlow reads: prepare it with file_format='array_record'"
        )
    return builder


# ValueError for a class of features.json that is not TFDS's: TFDS would import its module.
def _own_feature(node: dict[str, Any]) -> None:
    for name in (node.get(key) for key in ("pythonClassName", "python_class_name", "type")):
        if isinstance(name, str) and not name.startswith("tensorflow_datasets.core.features."):
            raise ValueError(f"features.json names {name}, which is no feature of TFDS")


# [(name of a split, its records that SPLIT takes)].
def _parts(source: str, builder: Any, split: str) -> list[tuple[str, slice]]:
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


# The name of the text feature: `text`, or the only one of the type Text.
def _field(builder: Any) -> str:
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


# The documents in the records `taken` from a split. Records are read one by one, since TFDS's
# reader of Parquet cannot read a part of a split.
def _documents(builder: Any, split: str, taken: slice = slice(None)) -> Iterator[Document]:
    path, field = Path(builder.data_dir), _field(builder)
    number = dict(builder.info.features.items()).get("document")
    numbered = (
        number is not None and number.shape == () and np.issubdtype(number.np_dtype, np.integer)
    )
    rows = _records(builder, split, taken, field, "document" if numbered else "")
    for i, group in itertools.groupby(rows, key=operator.itemgetter(0)):
        name, content = f"document {i} of {split}", b"".join(part for _, part in group)
        try:
            content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} in {path} is not UTF-8: {error}") from error
        yield Document(name, content)


# The number of each record, which the feature `number` has if it is given, and its text.
def _records(
    builder: Any, split: str, taken: slice, field: str, number: str
) -> Iterator[tuple[int, bytes]]:
    try:
        reader = builder.as_data_source(split=split)
        for i in range(len(reader))[taken]:
            example = reader[i]
            if example[field] is None:  # so does a truncated ArrayRecord read
                raise ValueError(f"record {i} of {split} reads as None")
            yield int(example[number]) if number else i, example[field]
    except Exception as error:  # whatever the readers of the formats raise
        raise ValueError(_damaged(Path(builder.data_dir), error)) from error


def _damaged(path: Path, what: object) -> str:
    return f"{path} is damaged ({what}): delete this folder, then prepare or copy the dataset again"
