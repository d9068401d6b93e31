"""TFDS datasets made without TensorFlow: any text as ArrayRecord, and tiny_shakespeare.

A dataset is made in a hidden folder inside its own, and moved to its place with the sums of its
records (tfds_text.SUMS): it is whole or not there, and what a killed process left is deleted by the
next one. Processes that prepare the same dataset take turns.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import pkgutil
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax import atomic, locks, record, text, tfds_text

PART = 1 << 16  # bytes of a record at most: a longer document is several
VERSION = "1.0.0"
_DRAFT = ".preparing"


def prepare(source: str, name: str, folder: Path) -> tuple[Path, text.Corpus]:
    """Writes the corpus `source` as the dataset `name` in the data_dir `folder`: path and corpus.

    Records are {"document": int64, "text": Text}, in order; the parts of a document follow one
    another, cut at the ends of characters. A dataset that is there already stays, if it is of the
    same text. Raises ValueError for a name that TFDS cannot take, or of other text.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise ValueError(f"the name of a dataset is lower_case letters, digits and _, got {name!r}")
    if name in _stock_names():
        raise ValueError(f"{name} is one of TFDS's own datasets: choose another name")
    if source.startswith("tfds:"):
        raise ValueError(f"{source} is a TFDS dataset already: use it as data.source")
    corpus = text.load(source)
    wanted = corpus.describe()["hash"]
    about = {"source": source, "rule": corpus.split}
    _place(folder, name, about, lambda draft: (_builder(corpus, source, name, draft), None))
    path = folder / name / VERSION
    made = tfds_text.load(f"tfds:{name}", f"{name}:{VERSION}", str(folder))
    if made.describe()["hash"] != wanted:
        raise ValueError(f"{path} holds other text: choose another name, or delete that folder")
    return path, corpus


def stock(name: str, folder: Path) -> Path:
    """The folder of one of TFDS's own datasets, prepared now; ValueError where that cannot be.

    Only tiny_shakespeare can, from its input.txt in manual/, in downloads/manual/ or in the
    data_dir itself, held against TFDS's checksum.
    """
    if name != "tiny_shakespeare":
        raise ValueError(_unprepared(name, folder))
    from tensorflow_datasets.core.download.download_manager import (
        DownloadConfig,
        NonMatchingChecksumError,
    )

    builder = _tiny_shakespeare()
    ((url, info),) = builder.url_infos.items()
    places = (folder / "manual", folder / "downloads" / "manual", folder)
    manual = next((place for place in places if (place / info.filename).is_file()), None)
    get = f"curl --create-dirs -o {places[0] / info.filename} {url}"
    if manual is None:
        raise ValueError(
            f"tiny_shakespeare is not prepared in {folder}, and its {info.filename} is not in "
            f"{places[0]}: get it by: {get}"
        )
    config = DownloadConfig(manual_dir=manual, try_download_gcs=False)
    try:
        _place(
            folder,
            name,
            {},
            lambda draft: (builder(data_dir=draft, file_format="array_record"), config),
        )
    except NonMatchingChecksumError as error:
        raise ValueError(f"{error}; get the right file by: {get}") from error
    return folder / name / VERSION


def _place(
    folder: Path, name: str, about: dict[str, Any], make: Callable[[Path], tuple[Any, Any]]
) -> None:
    """Prepares `make`'s builder, unless the dataset is there; `about` is kept with the sums."""
    place = folder / name
    with locks.locked(place, wait=True):
        if (place / VERSION).exists():
            return
        draft = place / _DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        try:
            builder, config = make(draft)
            with _quiet():
                builder.download_and_prepare(download_config=config)
            made = Path(builder.data_dir)
            splits = {s: tfds_text.sums(tfds_text.records(made, s)) for s in builder.info.splits}
            atomic.write(made / tfds_text.SUMS, record.canonical(about | {"splits": splits}))
            os.rename(made, place / VERSION)
        except RuntimeError as error:  # of the writer of ArrayRecord
            raise OSError(f"{place / VERSION} cannot be written: {error}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """TFDS prints what it does."""
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _builder(corpus: text.Corpus, source: str, name: str, draft: Path) -> Any:
    import tensorflow_datasets as tfds

    class Builder(tfds.dataset_builders.AdhocBuilder, skip_registration=True):
        def _split_generators(self, dl_manager):  # AdhocBuilder's asks TensorFlow for a type
            return self._split_datasets

    names = dict(zip(text.SPLITS, ("train", "validation", "test"), strict=True))
    return Builder(
        name=name,
        version=VERSION,
        release_notes={VERSION: "prepared by pe_jax"},
        description=f"The text of {source}, split {corpus.split}.",
        features=tfds.features.FeaturesDict(
            {"document": tfds.features.Scalar(np.int64), "text": tfds.features.Text()}
        ),
        split_datasets={names[s]: _records(corpus.splits[s]) for s in text.SPLITS},
        data_dir=draft,
        file_format="array_record",
        disable_shuffling=True,
    )


def _records(documents: Sequence[np.ndarray]) -> Iterator[tuple[int, dict[str, Any]]]:
    key = 0
    for number, document in enumerate(documents):
        content, start = document.tobytes(), 0
        while start < len(content):
            end = start + PART
            end = text.boundary(content, end) if end < len(content) else len(content)
            yield key, {"document": number, "text": content[start:end]}
            key, start = key + 1, end


def _tiny_shakespeare() -> Any:
    """TFDS's builder of tiny_shakespeare, with the one function of it that calls TensorFlow."""
    from tensorflow_datasets.core import registered
    from tensorflow_datasets.datasets.tiny_shakespeare import tiny_shakespeare_dataset_builder

    theirs = tiny_shakespeare_dataset_builder.Builder
    urls: Any = theirs.url_infos  # with the checksum
    with registered.skip_registration():

        class TinyShakespeare(theirs):
            name = "tiny_shakespeare"
            pkg_dir_path = theirs._get_pkg_dir_path()
            url_infos = urls

            def _split_generators(self, dl_manager):
                (url,) = urls
                content = Path(dl_manager.download(url)).read_text()
                first = int(len(content) * 0.9)
                second = first + int((len(content) - first) * 0.5)
                parts = {
                    "train": content[:first],
                    "validation": content[first:second],
                    "test": content[second:],
                }
                return {
                    split: self._generate_examples(split, part) for split, part in parts.items()
                }

    return TinyShakespeare


def _stock_names() -> set[str]:
    """The names of TFDS's own datasets of text, without importing any."""
    import tensorflow_datasets

    root = Path(next(iter(tensorflow_datasets.__path__)))
    modules = pkgutil.iter_modules([str(root / "text"), str(root / "datasets")])
    return {module.name for module in modules if not module.name.endswith(("_test", "_utils"))}


def _unprepared(name: str, folder: Path) -> str:
    known, base = _stock_names(), name.partition("/")[0]
    if base in known:
        command = (
            f"import tensorflow_datasets as tfds; tfds.builder('{name}', data_dir='{folder}', "
            "file_format='array_record').download_and_prepare()"
        )
        return (
            f"{name} is not prepared in {folder}, and needs TensorFlow and a network for that. "
            f"Copy a folder {name} prepared elsewhere (as array_record) into {folder}; or put its "
            "text into files and run python -m experiments.prepare --source=files:PATH "
            f"--name=NAME --data_dir={folder}; or, with pip install 'pe_jax[tensorflow]' (and "
            f'apache-beam for wiki40b, wikipedia and c4): python -c "{command}"'
        )
    made = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    near = difflib.get_close_matches(base, [*made, *known], n=3)
    hint = f"nearest: {', '.join(near)}" if near else f"in {folder}: {', '.join(made) or 'nothing'}"
    return f"no TFDS dataset {name!r}, neither prepared in {folder} nor TFDS's own; {hint}"
