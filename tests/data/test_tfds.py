"""TFDS datasets without TensorFlow: made from text, read as text, and refused when damaged."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from commands import Lab, result, run_of, the_run, write_text

from pe_jax.data import prepare, tfds_text
from pe_jax.data.corpus import SPLITS, Corpus
from pe_jax.data.load import load
from pe_jax.storage import locks

NAMES = {"train": "train", "valid": "validation", "test": "test"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data_dir with `ours`, and the source it was made of: documents of several records."""
    folder = tmp_path_factory.mktemp("made")
    source = folder / "text"
    source.mkdir()
    rng = random.Random(0)
    for i in range(12):
        (source / f"{i:02d}.txt").write_text("".join(rng.choices("abcdefghij é€😀\n", k=60_000)))
    prepare.prepare(load(f"files:{source}"), "ours", folder)
    return folder, f"files:{source}"


def documents(corpus: Corpus) -> dict[str, list[bytes]]:
    return {split: [d.tobytes() for d in corpus.splits[split]] for split in SPLITS}


def foreign(folder: Path, features: dict, form: str = "array_record", **splits: list) -> Path:
    """A dataset `theirs` that this project has not made; examples as tuples in features' order."""

    class Theirs(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        name = "theirs"
        VERSION = tfds.core.Version("2.1.0")

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                disable_shuffling=True,
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


LAYOUTS = {
    "by folder": {
        "train/a.txt": "a" * 9,
        "train/b.txt": "b",
        "valid/c.txt": "c",
        "test/d.txt": "d",
    },
    "by file": {f"{i}.md": f"{i} é" * 30 for i in range(11)},
    "by position": {"b.txt": "😀é" * 400, "a.txt": "a" * 90},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("part", (7, 1 << 16))
def test_a_prepared_text_is_the_text(tmp_path, monkeypatch, layout, part):
    for name, content in LAYOUTS[layout].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(prepare, "PART", part)
    source = f"files:{tmp_path}"
    corpus = load(source)
    path = prepare.prepare(corpus, "ours", tmp_path / "data")
    again = load("tfds:ours", f"{tmp_path}/data")
    assert documents(again) == documents(corpus) == documents(load(source))
    assert again.describe().hash == load(source).describe().hash
    assert layout in corpus.split and again.split.startswith("by the dataset: train, validation")
    assert corpus.split in again.split
    assert path == tmp_path / "data/ours/1.0.0"


def test_any_reader_of_tfds_reads_what_is_prepared(made):
    folder, source = made
    corpus = load(source)
    for split, name in NAMES.items():
        records = list(tfds.data_source("ours", split=name, data_dir=str(folder)))
        assert len(records) >= 2 * len(corpus.splits[split])
        assert all(0 < len(r["text"]) <= prepare.PART and r["text"].decode() for r in records)
        for i, document in enumerate(corpus.splits[split]):
            parts = [r["text"] for r in records if r["document"] == i]
            assert b"".join(parts) == document.tobytes()
    builder = tfds.builder_from_directory(str(folder / "ours/1.0.0"))
    assert source in builder.info.description and corpus.split in builder.info.description


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
    "all": ["would train on validation and test"],
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


@pytest.mark.parametrize(
    "split, size, kept",
    [("train", 1 << 16, False), ("train", 200_000, True), ("test", 1 << 16, True)],
)
def test_a_truncated_file_is_refused_with_and_without_its_sums(copy, split, size, kept):
    (shard,) = copy.glob(f"ours-{NAMES[split]}.array_record*")
    assert shard.stat().st_size > size
    os.truncate(shard, size)
    if not kept:
        (copy / tfds_text.SUMS).unlink()
    with pytest.raises(ValueError, match="is damaged.*prepare or copy the dataset again"):
        load("tfds:ours", str(copy.parent.parent))


def test_changed_bytes_are_refused(copy):
    (shard,) = copy.glob("ours-train.array_record*")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:100_000] + bytes([whole[100_000] ^ 1]) + whole[100_001:])
    with pytest.raises(ValueError, match="is damaged"):
        load("tfds:ours", str(copy.parent.parent))


@pytest.mark.parametrize("split, spec", [("train", "ours"), ("test", "ours:train[:10%]")])
def test_records_that_are_not_those_prepared_are_refused(copy, split, spec):
    """Of the same number and size as before, in files that are whole."""
    other = copy.parent.parent / "other"
    other.mkdir()
    for i in range(12):
        (other / f"{i}.txt").write_text("".join(random.choices("abcdefghij é€😀\n", k=60_000)))
    path = prepare.prepare(load(f"files:{other}"), "ours", other)
    (shard,) = path.glob(f"ours-{split}.array_record*")
    shutil.copy(shard, copy)
    with pytest.raises(ValueError, match=f"the records of {split} are not those prepared"):
        load(f"tfds:{spec}", str(copy.parent.parent))


@pytest.mark.parametrize(
    "name, harm",
    [
        ("ours-test.array_record*", Path.unlink),
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


STOCK = ("pg19", "wiki40b", "wikipedia/20230601.en", "lm1b:train[:1%]", "c4")


@pytest.mark.parametrize("name", STOCK)
def test_what_needs_tensorflow_or_a_network_says_so_at_once(tmp_path, monkeypatch, name):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: pytest.fail("the network was asked"))
    begun = time.process_time()
    with pytest.raises(ValueError, match="needs TensorFlow and a network") as error:
        load(f"tfds:{name}", str(tmp_path))
    assert time.process_time() - begun < 1
    remedies = ("prepared elsewhere", "data.source=files:PATH", "prepare these", "extra tensorflow")
    assert all(remedy in str(error.value) for remedy in remedies)
    assert not list(tmp_path.iterdir())


def test_an_unknown_dataset_has_nearest_names(made):
    with pytest.raises(ValueError, match="no TFDS dataset 'tiny_shakespear'.*tiny_shakespeare"):
        load("tfds:tiny_shakespear", str(made[0]))
    with pytest.raises(ValueError, match="did you mean 'ours'"):
        load("tfds:our", str(made[0]))
    with pytest.raises(ValueError, match=r"must read tfds:NAME\[/CONFIG\]"):
        load("tfds:a b", str(made[0]))


def test_the_data_dir_is_tfds_own_unless_one_is_given(made, monkeypatch):
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(made[0]))
    monkeypatch.setenv("HOME", str(made[0].parent))
    monkeypatch.setenv("OURS", made[0].name)
    roots = ("", f"~/{made[0].name}", "~/$OURS", "${HOME}/${OURS}")
    hashes = {load("tfds:ours", root).describe().hash for root in roots}
    assert hashes == {load(made[1]).describe().hash}
    monkeypatch.delenv("OURS")
    with pytest.raises(ValueError, match="variable OURS of data.data_dir is not set"):
        load("tfds:ours", "~/$OURS")


@pytest.mark.parametrize("place", ("manual", "downloads/manual", "."))
def test_tiny_shakespeare_is_prepared_from_its_file(corpora, tmp_path, place):
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    shutil.copy(corpora / "tiny_shakespeare/input.txt", tmp_path / place)
    corpus = load("tfds:tiny_shakespeare", str(tmp_path))
    whole = (tmp_path / place / "input.txt").read_bytes()
    assert b"".join(sum(documents(corpus).values(), [])) == whole
    assert corpus.describe().bytes == {"train": 1003854, "valid": 55770, "test": 55770}
    assert corpus.split == "by the dataset: train, validation, test"
    (tmp_path / place / "input.txt").unlink()
    again = load("tfds:tiny_shakespeare", str(tmp_path))
    assert again.describe() == corpus.describe()
    (record_,) = tfds.data_source("tiny_shakespeare", split="test", data_dir=str(tmp_path))
    assert record_["text"] == whole[-55770:]


def test_tiny_shakespeare_is_held_against_its_checksum(tmp_path):
    with pytest.raises(ValueError, match=r"is not prepared in .* curl .*manual/input.txt https://"):
        load("tfds:tiny_shakespeare", str(tmp_path))
    with pytest.raises(ValueError, match="0.9.0 is not prepared .*: use tfds:tiny_shakespeare:1.0"):
        load("tfds:tiny_shakespeare:0.9.0", str(tmp_path))
    (tmp_path / "manual").mkdir()
    (tmp_path / "manual/input.txt").write_text("First Citizen:\n")
    with pytest.raises(ValueError, match="(?s)wrong checksum.*86c4e6aa.*curl"):
        load("tfds:tiny_shakespeare", str(tmp_path))
    left = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {"manual/input.txt", "tiny_shakespeare/.lock"}


def _killed_at_the_end(source, folder):
    os.rename = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
    prepare.prepare(load(source), "ours", folder)


def test_what_a_killed_preparation_leaves_is_in_nobodys_way(made, tmp_path):
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_killed_at_the_end, args=(made[1], tmp_path))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert {p.name for p in (tmp_path / "ours").iterdir()} == {".lock", ".preparing"}
    with pytest.raises(ValueError, match="no TFDS dataset 'ours'"):
        load("tfds:ours", str(tmp_path))
    corpus = load(made[1])
    prepare.prepare(corpus, "ours", tmp_path)
    assert {p.name for p in (tmp_path / "ours").iterdir()} == {".lock", "1.0.0"}
    assert documents(load("tfds:ours", str(tmp_path))) == documents(corpus)


def start_prepare(lab, source, name, folder):
    return lab.start("prepare", f"--source={source}", f"--name={name}", f"--data_dir={folder}")


def test_two_processes_that_prepare_at_once_take_turns(lab, tmp_path):
    first, second = (start_prepare(lab, lab.text, "ours", tmp_path) for _ in range(2))
    assert [first.wait().code, second.wait().code] == [0, 0], first.err + second.err
    assert first.out == second.out and "--config.data.source=tfds:ours" in first.out
    assert first.err == second.err == ""
    assert {p.name for p in (tmp_path / "ours").iterdir()} == {".lock", "1.0.0"}
    assert load("tfds:ours", str(tmp_path)).describe().hash == load(lab.text).describe().hash


def test_a_preparation_waits_for_the_one_that_is_at_work(lab, tmp_path):
    with locks.locked(tmp_path / "ours"):
        waiting = start_prepare(lab, lab.text, "ours", tmp_path)
        waiting.process.join(2)
        assert waiting.code is None
    assert waiting.wait().code == 0


def test_a_full_disk_is_told_and_leaves_nothing(lab, tmp_path):
    flags = (f"--source={lab.text}", "--name=ours", f"--data_dir={tmp_path}")
    full = lab.start("prepare", *flags, largest=30_000).wait()
    assert full.code == 2 and full.err.count("\n") == 1, full.err
    assert "cannot be written" in full.err and "File too large" in full.err
    assert list((tmp_path / "ours").iterdir()) == [tmp_path / "ours" / locks.FILE]


def test_a_run_loads_a_prepared_dataset(made):
    values = {"data.source": "tfds:ours", "data.data_dir": str(made[0])}
    corpus = run_of(**values).load().trained
    assert corpus.about.source == "tfds:ours" and corpus.about.hash == load(made[1]).describe().hash


@pytest.mark.slow
def test_a_run_reads_a_prepared_dataset(lab, tmp_path):
    assert start_prepare(lab, lab.text, "ours", tmp_path / "data").wait().code == 0
    values = {"data.source": "tfds:ours", "data.data_dir": tmp_path / "data"}
    run = lab.run(tmp_path / "runs", **values).wait()
    assert run.code == 0, run.err
    found = result(the_run(tmp_path / "runs"))
    assert found["corpus"]["source"] == "tfds:ours" and found["rows"]
    assert found["corpus"]["hash"] == load(lab.text).describe().hash


def test_a_run_on_a_dataset_that_is_not_there_is_told(lab, tmp_path):
    values = {"data.source": "tfds:tiny_shakespeare", "data.data_dir": tmp_path / "data"}
    run = lab.run(tmp_path / "runs", **values).wait()
    assert run.code == 2 and "input.txt" in run.err and "curl" in run.err
    assert run.err.count("\n") == 1 and not list(tmp_path.iterdir())


MISTAKES = {
    "no name": ({"name": ""}, ["--name=NAME are required"]),
    "capitals": ({"name": "Ours"}, ["lower_case letters", "'Ours'"]),
    "a name of TFDS's": ({"name": "lm1b"}, ["one of TFDS's own", "another name"]),
    "no text": ({"source": "files:{lab}/txet"}, ["no txet", "did you mean 'text'"]),
    "a dataset": ({"source": "tfds:pg19"}, ["is a TFDS dataset already"]),
    "other text": ({"name": "taken"}, ["holds other text", "another name"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_preparation_is_told(lab, tmp_path, mistake):
    values, words = MISTAKES[mistake]
    if mistake == "other text":
        corpus = load(f"files:{write_text(tmp_path / 'x', seed=1)}")
        prepare.prepare(corpus, "taken", tmp_path)
    before = sorted(tmp_path.rglob("*"))
    values = {"source": lab.text, "name": "ours"} | values
    done = start_prepare(
        lab, values["source"].format(lab=lab.folder), values["name"], tmp_path
    ).wait()
    assert done.code == 2 and done.err.startswith("pe-jax prepare: ")
    assert done.err.count("\n") == 1 and all(word in done.err for word in words), done.err
    assert sorted(tmp_path.rglob("*")) == before
