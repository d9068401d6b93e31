"""TFDS datasets without TensorFlow: read as text, and refused when damaged."""

import json
import os
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from commands import run_of

from pe_jax.data import tfds_text
from pe_jax.data.corpus import SPLITS, Corpus
from pe_jax.data.load import load

NAMES = {"train": "train", "valid": "validation", "test": "test"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data_dir with `ours`, and the source that it was made of."""
    folder = tmp_path_factory.mktemp("made")
    source = folder / "text"
    source.mkdir()
    rng = random.Random(0)
    for i in range(12):
        (source / f"{i:02d}.txt").write_text("".join(rng.choices("abcdefghij é€😀\n", k=60_000)))
    texts = documents(load(f"files:{source}"))
    rows = {NAMES[split]: [(text,) for text in texts[split]] for split in SPLITS}
    foreign(folder, {"text": tfds.features.Text()}, called="ours", version="1.0.0", **rows)
    return folder, f"files:{source}"


def documents(corpus: Corpus) -> dict[str, list[bytes]]:
    return {split: [d.tobytes() for d in corpus.splits[split]] for split in SPLITS}


def foreign(
    folder: Path,
    features: dict,
    form: str = "array_record",
    called: str = "theirs",
    version: str = "2.1.0",
    **splits: list,
) -> Path:
    """A dataset that TFDS has prepared; examples as tuples in features' order."""

    class Theirs(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        name = called
        VERSION = tfds.core.Version(version)

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
            )

        def _split_generators(self, dl_manager):
            return {split: self._generate_examples(rows) for split, rows in splits.items()}

        def _generate_examples(self, rows):
            for i, row in enumerate(rows):
                yield i, dict(zip(features, row, strict=True))

    tfds.disable_progress_bar()
    builder = Theirs(data_dir=folder, file_format=form)
    builder.download_and_prepare()
    return Path(builder.data_dir)


def numbered(count: int, size: int = 60) -> list[tuple[str]]:
    return [(f"text {i:02d} " * size,) for i in range(count)]


def test_the_text_of_a_dataset_is_that_of_its_records(made):
    folder, source = made
    corpus = load(source)
    assert load("tfds:ours", str(folder)).describe().hash == corpus.describe().hash


def test_records_of_one_document_are_joined(tmp_path):
    """As in datasets that earlier releases have written."""
    features = {"document": tfds.features.Scalar(np.int64), "text": tfds.features.Text()}
    rows = [(i // 3, f"{i} ") for i in range(30)]
    foreign(tmp_path, features, train=rows, validation=rows[:3], test=rows[3:6])
    found = documents(load("tfds:theirs", str(tmp_path)))
    assert found["train"] == [f"{3 * i} {3 * i + 1} {3 * i + 2} ".encode() for i in range(10)]
    assert (found["valid"], found["test"]) == ([b"0 1 2 "], [b"3 4 5 "])


@pytest.mark.parametrize("part", ("train[:50%]", "train[3:5]+train[8:]", "train[-2:]"))
def test_a_part_of_training_is_the_part_that_tfds_takes(made, part):
    folder, source = made
    whole, corpus = load(source), load(f"tfds:ours:{part}", str(folder))
    taken = [r["text"] for r in tfds.data_source("ours", split=part, data_dir=str(folder))]
    assert b"".join(documents(corpus)["train"]) == b"".join(taken)
    for split in ("valid", "test"):
        assert documents(corpus)[split] == documents(whole)[split]
    assert corpus.split.startswith(f"by the dataset: {part}, validation, test")
    assert corpus.describe().hash != whole.describe().hash


REFUSED = {
    "train+test": ["would train on test, which is held out", "SPLIT may take train"],
    "trian": ["'trian'", "Unknown split", "train ("],
    "train[50%": ["'train[50%' is no part", "train[:50%]"],
    "train[:0]": ["takes none of the records"],
}


@pytest.mark.parametrize("part", REFUSED)
def test_a_part_that_cannot_be_trained_on_is_refused(made, part):
    with pytest.raises(ValueError) as error:
        load(f"tfds:ours:{part}", str(made[0]))
    assert all(word in str(error.value) for word in REFUSED[part])


@pytest.mark.parametrize("form", ("array_record", "parquet"))
def test_a_dataset_without_held_out_splits_is_split_as_files_are(tmp_path, form):
    features = {"id": tfds.features.Scalar(np.int64), "content": tfds.features.Text()}
    rows = [(i, content) for i, (content,) in enumerate(numbered(40))]
    foreign(tmp_path, features, form, train=rows[:30], test=rows[30:])
    corpus = load("tfds:theirs", str(tmp_path))
    assert corpus.describe().documents == {"train": 26, "valid": 2, "test": 2}
    assert sorted(sum(documents(corpus).values(), [])) == [t.encode() for _, t in rows[:30]]
    assert corpus.split == f"{tfds_text.BY_DOCUMENT}; test left out"
    both = load("tfds:theirs:2.1.0:train+test", str(tmp_path))
    assert sum(both.describe().documents.values()) == 40
    assert both.split == tfds_text.BY_DOCUMENT
    few = load("tfds:theirs:train[:3]", str(tmp_path))
    assert few.describe().documents == {"train": 3, "valid": 3, "test": 3}
    assert few.split == f"{tfds_text.BY_POSITION}; test left out"
    content = zip(*documents(few).values(), strict=True)
    assert [b"".join(parts).decode() for parts in content] == [t for _, t in rows[:3]]


def test_features_that_are_no_text_are_told(tmp_path):
    features = {"question": tfds.features.Text(), "answer": tfds.features.Text()}
    path = foreign(tmp_path, features, train=[("a", "b")])
    with pytest.raises(ValueError, match=r"named text; it has answer \(Text\), question \(Text\)"):
        load("tfds:theirs", str(tmp_path))
    info = json.loads((path / "dataset_info.json").read_text())
    (path / "dataset_info.json").write_text(json.dumps(info | {"fileFormat": "tfrecord"}))
    with pytest.raises(ValueError, match="prepared as tfrecord.*file_format='array_record'"):
        load("tfds:theirs", str(tmp_path))


def test_configs_and_versions_are_chosen_by_name(tmp_path):
    path = foreign(tmp_path, {"text": tfds.features.Text()}, train=numbered(12))
    for copy in ("theirs/2.0.0", "other/small/2.1.0", "one/only/2.1.0"):
        shutil.copytree(path, tmp_path / copy)
    shutil.copytree(tmp_path / "other/small", tmp_path / "other/large")
    root, whole = str(tmp_path), load("tfds:theirs", str(tmp_path)).describe().hash
    for spec in ("theirs:2.0.0", "other/small", "one", "one/only:2.1.0:train"):
        assert load(f"tfds:{spec}", root).describe().hash == whole
    with pytest.raises(ValueError, match="name one of tfds:other/large, tfds:other/small"):
        load("tfds:other", root)
    with pytest.raises(ValueError, match="has no version 3.0.0; it has 2.0.0, 2.1.0"):
        load("tfds:theirs:3.0.0", root)


@pytest.fixture
def copy(made, tmp_path):
    """A copy of `ours` to damage."""
    shutil.copytree(made[0] / "ours", tmp_path / "ours")
    return tmp_path / "ours/1.0.0"


def flip(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:100_000] + bytes([whole[100_000] ^ 1]) + whole[100_001:])


@pytest.mark.parametrize(
    "name, harm",
    [
        ("ours-test.array_record*", Path.unlink),
        ("ours-train.array_record*", lambda path: os.truncate(path, 200_000)),
        ("ours-train.array_record*", flip),
        ("features.json", lambda path: os.truncate(path, 9)),
        ("dataset_info.json", Path.unlink),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_refused(copy, name, harm):
    harm(next(copy.glob(name)))
    with pytest.raises(ValueError, match="is damaged"):
        load("tfds:ours", str(copy.parent.parent))


def test_a_feature_that_is_not_of_tfds_is_refused_before_its_module_is_imported(copy):
    path = copy / "features.json"
    text = "tensorflow_datasets.core.features.text_feature.Text"
    path.write_text(path.read_text().replace(text, "this.Text"))
    with pytest.raises(ValueError, match=r"features.json names this.Text, which is no feature of"):
        load("tfds:ours", str(copy.parent.parent))
    assert "this" not in sys.modules


def test_an_unknown_dataset_has_nearest_names(made):
    with pytest.raises(ValueError, match="no TFDS dataset 'our' .*did you mean 'ours'.*files:PATH"):
        load("tfds:our", str(made[0]))
    with pytest.raises(ValueError, match=r"must read tfds:NAME\[/CONFIG\]"):
        load("tfds:a b", str(made[0]))


def test_the_data_dir_is_tfds_own_unless_one_is_given(made, monkeypatch):
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(made[0]))
    monkeypatch.setenv("HOME", str(made[0].parent))
    for root in ("", f"~/{made[0].name}"):
        assert load("tfds:ours", root).hash == load(made[1]).hash


def test_a_run_loads_a_prepared_dataset(made):
    values = {"data.source": "tfds:ours", "data.data_dir": str(made[0])}
    corpus = run_of(**values).load().trained
    assert corpus.about.source == "tfds:ours" and corpus.about.hash == load(made[1]).describe().hash
