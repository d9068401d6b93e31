"""The corpus that data.source names. The one place that tells the kinds of source apart, and that
prepares a TFDS dataset which is missing, where that is possible without TensorFlow.
"""

from __future__ import annotations

from pathlib import Path

from pe_jax.data import files, prepare, tfds_text
from pe_jax.data.corpus import Corpus
from pe_jax.errors import nearest

FORMS = {
    "stdlib": "the sources of the running Python's standard library",
    "files": "files:PATH, a file, a folder or globs (files:a.txt,books/*.txt), plain, .gz or .xz",
    "tfds": "tfds:NAME[:SPLIT], a TFDS dataset prepared in data_dir, as tfds:tiny_shakespeare",
}


def load(source: str, root: str = "") -> Corpus:
    """Reads the corpus that `source` names: `stdlib`, `files:PATH` or `tfds:NAME[:SPLIT]`.

    `root` is where a relative PATH begins ("": the working directory), and for `tfds` the data_dir
    ("": TFDS's own). `~` and environment variables in PATH and `root` are expanded. files.py
    and tfds_text.py say what is read and how it is split.

    Raises ValueError for an unknown source, for text that is empty, damaged or not UTF-8, for a
    split without documents and for a dataset that is not prepared; FileNotFoundError for a path
    that is not there.
    """
    kind, _, rest = source.partition(":")
    if source == "stdlib":
        return files.stdlib()
    if kind == "files" and rest.strip(" ,"):
        return files.files(rest, root)
    if kind == "tfds" and rest:
        return _dataset(source, root)
    raise ValueError(_unknown(source))


def _dataset(source: str, root: str) -> Corpus:
    dataset, folder = tfds_text.parse(source), tfds_text.data_dir(root)
    path = tfds_text.find(folder, dataset.name, dataset.version)
    return tfds_text.read(source, path or prepare.stock(dataset.name, folder), dataset.split)


def _unknown(source: str) -> str:
    forms = "; ".join(f"{form} ({meaning})" for form, meaning in FORMS.items())
    if source and Path(source).expanduser().exists():
        hint = f"; for a path write files:{source}."
    else:
        hint = nearest(source.partition(":")[0], FORMS)
    return f"unknown source {source!r}{hint} Known: {forms}."
