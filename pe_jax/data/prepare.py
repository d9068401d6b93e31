"""Makes TFDS datasets, as ArrayRecord and without TensorFlow: of any corpus, and tiny_shakespeare.

A dataset is made in a hidden folder beside its place, then moved there together with the checksums
of its records (tfds_text.SUMS). So it is whole or not there, and what a killed process left behind
is deleted by the next one. Processes that prepare the same dataset wait for each other.
"""

from __future__ import annotations

import contextlib
import io
import os
import pkgutil
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax.data import tfds_text
from pe_jax.data.corpus import SPLITS, Corpus, boundary
from pe_jax.errors import nearest
from pe_jax.storage import atomic, locks
from pe_jax.storage.hashes import canonical

PART = 1 << 16
"""The most bytes in a record: a longer document is several records."""
VERSION = "1.0.0"
_DRAFT = ".preparing"


def prepare(corpus: Corpus, name: str, folder: Path) -> Path:
    """Writes a corpus as the dataset `name` in the data_dir `folder`; returns the dataset's path.

    Records are {"document": int64, "text": Text}, in order; the parts of a document follow one
    another, cut between characters. A dataset that is there already stays if it holds the same
    text. Raises ValueError if it holds other text, for a name that TFDS does not allow, and for
    the name of one of its own datasets.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise ValueError(f"the name of a dataset is lower_case letters, digits and _, got {name!r}")
    if name in _stock_names():
        raise ValueError(f"{name} is one of TFDS's own datasets: choose another name")
    path = folder / name / VERSION
    about = {"source": corpus.source, "rule": corpus.split}
    _make(path, about, lambda draft: _builder(corpus, name, draft))
    made = tfds_text.read(f"tfds:{name}", path, "train")
    if made.hash != corpus.hash:
        raise ValueError(f"{path} holds other text: choose another name, or delete that folder")
    return path


def stock(dataset: tfds_text.Dataset, folder: Path) -> Path:
    """Prepares one of TFDS's own datasets in the data_dir `folder`; returns the dataset's path.

    Only tiny_shakespeare of one version can be prepared without TensorFlow and a network: from its
    input.txt in manual/, in downloads/manual/ or in the data_dir itself, which must have TFDS's
    checksum. Raises ValueError, with what to do, for every other name and version, and for a file
    that is missing or differs.
    """
    name = dataset.name
    if name != "tiny_shakespeare":
        raise ValueError(_unprepared(name, folder))
    if dataset.version not in (None, VERSION):
        raise ValueError(
            f"{name}:{dataset.version} is not prepared in {folder}, and without TensorFlow it can "
            f"be prepared in version {VERSION} alone: use tfds:{name}:{VERSION}"
        )
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
            f"{places[0]}: get it with: {get}"
        )
    config = DownloadConfig(manual_dir=manual, try_download_gcs=False)
    path = folder / name / VERSION
    try:
        _make(path, {}, lambda draft: builder(data_dir=draft, file_format="array_record"), config)
    except NonMatchingChecksumError as error:
        raise ValueError(f"{error}; get the right file with: {get}") from error
    return path


def _make(
    path: Path, about: dict[str, Any], builder_in: Callable[[Path], Any], config: Any = None
) -> None:
    """Makes the dataset of `path`, DATA_DIR/NAME/VERSION, unless it is there.

    `builder_in(draft)` is TFDS's builder of it in the data_dir `draft`; `config` is TFDS's
    DownloadConfig. `about` is kept with the checksums of the records.
    """
    with locks.locked(path.parent, wait=True):
        if path.exists():
            return
        draft = path.parent / _DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        try:
            builder = builder_in(draft)
            with _quiet():
                builder.download_and_prepare(download_config=config)
            made = Path(builder.data_dir)
            splits = {s: tfds_text.sums(tfds_text.records(made, s)) for s in builder.info.splits}
            atomic.write(made / tfds_text.SUMS, canonical(about | {"splits": splits}))
            os.rename(made, path)
        except RuntimeError as error:  # what ArrayRecord's writer raises, as for a full disk
            raise OSError(
                f"{path} cannot be written ({error}): make room there, or name another data_dir"
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides what TFDS prints while it works; its progress bars stay off."""
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _builder(corpus: Corpus, name: str, draft: Path) -> Any:
    """TFDS's builder that writes a corpus into the data_dir `draft`."""
    import tensorflow_datasets as tfds

    class Builder(tfds.dataset_builders.AdhocBuilder, skip_registration=True):
        def _split_generators(self, dl_manager):  # AdhocBuilder's asks TensorFlow for a type
            return self._split_datasets

    names = dict(zip(SPLITS, ("train", "validation", "test"), strict=True))
    return Builder(
        name=name,
        version=VERSION,
        release_notes={VERSION: "prepared by pe_jax"},
        description=f"The text of {corpus.source}, split {corpus.split}.",
        features=tfds.features.FeaturesDict(
            {"document": tfds.features.Scalar(np.int64), "text": tfds.features.Text()}
        ),
        split_datasets={names[s]: _records(corpus.splits[s]) for s in SPLITS},
        data_dir=draft,
        file_format="array_record",
        disable_shuffling=True,
    )


def _records(documents: Sequence[np.ndarray]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(key, record) of documents in order, each cut into records of at most PART bytes."""
    key = 0
    for number, document in enumerate(documents):
        content, start = document.tobytes(), 0
        while start < len(content):
            end = start + PART
            end = boundary(content, end) if end < len(content) else len(content)
            yield key, {"document": number, "text": content[start:end]}
            key, start = key + 1, end


def _tiny_shakespeare() -> Any:
    """The class of TFDS's builder of tiny_shakespeare, without the calls of TensorFlow in its
    `_split_generators`; the splits are the same.
    """
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
    """The names of TFDS's own datasets of text, found without importing them."""
    import tensorflow_datasets

    root = Path(next(iter(tensorflow_datasets.__path__)))
    modules = pkgutil.iter_modules([str(root / "text"), str(root / "datasets")])
    return {module.name for module in modules if not module.name.endswith(("_test", "_utils"))}


def _unprepared(name: str, folder: Path) -> str:
    """The message for a dataset that is not prepared and cannot be prepared here."""
    known, base = _stock_names(), name.partition("/")[0]
    if base not in known:
        made = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
        return (
            f"no TFDS dataset {name!r}, neither prepared in {folder} nor TFDS's own"
            f"{nearest(base, [*made, *known], 3)} {folder} has {', '.join(made) or 'none'}."
        )
    command = (
        f"import tensorflow_datasets as tfds; tfds.builder('{name}', data_dir='{folder}', "
        "file_format='array_record').download_and_prepare()"
    )
    return (
        f"{name} is not prepared in {folder}, and needs TensorFlow and a network for that. "
        f"Copy a folder {name} prepared elsewhere (as array_record) into {folder}; or put its "
        "text into files and read them by data.source=files:PATH, or prepare these as a dataset of "
        "another name; or, with the extra tensorflow of pe_jax (and apache-beam for wiki40b, "
        f'wikipedia and c4): python -c "{command}"'
    )
