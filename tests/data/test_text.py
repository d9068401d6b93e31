import bz2
import gzip
import itertools
import lzma
import os
import platform
from pathlib import Path

import pytest

from pe_jax.data import load as text_files
from pe_jax.data.corpus import SPLITS, Corpus, Document, Source, read
from pe_jax.data.load import load
from pe_jax.storage import records


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def numbered(count: int) -> dict[str, str]:
    return {f"{i:02d}.txt": f"document {i:02d}\n" for i in range(count)}


def strings(corpus: Corpus) -> dict[str, list[str]]:
    return {split: [d.tobytes().decode() for d in corpus.splits[split]] for split in SPLITS}


def everything(corpus: Corpus) -> list[str]:
    return [document for documents in strings(corpus).values() for document in documents]


def digest(source: str) -> str:
    return load(source).describe().hash


def test_the_standard_library_is_the_same_each_time_and_its_splits_are_disjoint():
    corpus, again = load("stdlib"), load("stdlib")
    about = corpus.describe()
    assert about == again.describe()
    assert about.python == corpus.python == platform.python_version()
    assert about.source == "stdlib" and about.split == text_files.BY_FILE
    total = sum(about.documents.values())
    for split in ("valid", "test"):
        assert 0.05 <= about.documents[split] / total < 0.06
        assert not set(strings(corpus)[split]) & set(strings(corpus)["train"])
    assert not set(strings(corpus)["valid"]) & set(strings(corpus)["test"])


def test_the_standard_library_has_its_modules_and_no_tests():
    corpus = everything(load("stdlib"))
    assert Path(os.__file__).read_text(encoding="utf-8") in corpus
    assert not any("import unittest\nimport test.support" in document for document in corpus)


def test_stdlib_leaves_out_what_is_not_its_text(tmp_path, monkeypatch):
    kept = {f"module{i}.py": f"x = {i}\n" for i in range(10)} | {"package/a.py": "y = 1\n"}
    dropped = (
        "test/a.py package/tests/b.py idlelib/idle_test/c.py site-packages/d.py __pycache__/e.py "
        "lib2to3/tests/f.py _sysconfigdata_linux.py config-3/g.py .hidden/h.py note.txt"
    )
    write(tmp_path, kept | dict.fromkeys(dropped.split(), "left out\n"))
    write(tmp_path, {"latin.py": b"# \xe9\n", "empty.py": b"", "package/copy.py": "x = 3\n"})
    monkeypatch.setattr(text_files.sysconfig, "get_path", lambda name: str(tmp_path))
    assert sorted(everything(load("stdlib"))) == sorted(kept.values())


def test_a_python_without_its_sources_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(ValueError, match="only 0 source files.*files:PATH"):
        load("stdlib")


@pytest.mark.parametrize("valid", ["valid", "validation"])
def test_folders_named_like_splits_are_the_splits(tmp_path, valid):
    files = {"train/b.txt": "b", "train/deep/a.md": "a", f"{valid}/c.py": "c", "test/d.text": "d"}
    write(tmp_path, files | {"README.md": "left out", "train/.hidden.txt": "left out"})
    write(tmp_path, {"train/image.png": b"\xff", "train/.git/x.txt": "no", "train/empty.txt": ""})
    corpus = load(f"files:{tmp_path}")
    assert strings(corpus) == {"train": ["b", "a"], "valid": ["c"], "test": ["d"]}
    assert corpus.split == f"by folder: train, {valid}, test; files outside them are left out"
    assert corpus.python is None


def test_without_a_folder_of_validation_text_it_is_part_of_the_training_folder(tmp_path):
    """No text of the test folder is trained on."""
    write(tmp_path, {"train/a.txt": "a" * 18 + "vt", "test/b.txt": "b" * 20})
    corpus = load(f"files:{tmp_path}")
    assert corpus.split == text_files.BY_TWO_FOLDERS
    assert strings(corpus) == {"train": ["a" * 18, "t"], "valid": ["v"], "test": ["b" * 20]}
    write(tmp_path, {f"train/{name}": text for name, text in numbered(20).items()})
    corpus = load(f"files:{tmp_path}")
    assert corpus.describe().documents == {"train": 19, "valid": 2, "test": 1}
    assert strings(corpus)["test"] == ["b" * 20]


def test_a_folder_called_train_alone_is_an_ordinary_folder(tmp_path):
    write(tmp_path, {"train/a.txt": "a" * 20, "more/b.txt": "b" * 20})
    corpus = load(f"files:{tmp_path}")
    assert corpus.split == text_files.BY_POSITION
    assert strings(corpus)["train"] == ["b" * 18, "a" * 18]


def test_a_folder_that_is_a_link_is_read_once(tmp_path):
    books, more = tmp_path / "books", tmp_path / "more"
    for path in (books / "a.txt", more / "b.txt", more / "deep/c.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text " * 50)
    for link, target in (("z", more), ("y", more / "deep"), ("self", books)):
        (books / link).symlink_to(target)
    (more / "back").symlink_to(books)
    corpus = load(f"files:{books}")
    names = [corpus.name("train", i) for i in range(len(corpus.splits["train"]))]
    assert names == ["a.txt", "z/b.txt", "z/deep/c.txt"]


@pytest.mark.parametrize("count, held", [(10, 1), (21, 2), (100, 5)])
def test_ten_files_are_split_by_file(tmp_path, count, held):
    files = numbered(count)
    corpus = load(f"files:{write(tmp_path, files)}")
    documents = corpus.describe().documents
    assert documents == {"train": count - 2 * held, "valid": held, "test": held}
    assert corpus.split == text_files.BY_FILE
    assert sorted(everything(corpus)) == sorted(files.values())
    assert strings(corpus)["train"] == sorted(strings(corpus)["train"])


def test_the_split_by_file_is_fixed_by_the_names_alone(tmp_path):
    first = load(f"files:{write(tmp_path / 'here', numbered(12))}")
    moved = load(f"files:{write(tmp_path / 'there', numbered(12))}")
    assert first.describe().hash == moved.describe().hash
    # `printf NAME | sha256sum` begins 115f for 06.txt and 13eb for 08.txt, the smallest of the 12.
    held = {split: strings(first)[split] for split in ("test", "valid")}
    assert held == {"test": ["document 06\n"], "valid": ["document 08\n"]}


def test_few_files_give_their_last_tenth(tmp_path):
    files = {"a.txt": "a" * 900 + "b" * 50 + "c" * 50, "d.txt": "d" * 2000}
    corpus = load(f"files:{write(tmp_path, files)}")
    assert strings(corpus) == {
        "train": ["a" * 900, "d" * 1800],
        "valid": ["b" * 50, "d" * 100],
        "test": ["c" * 50, "d" * 100],
    }
    assert corpus.split == text_files.BY_POSITION


def test_a_cut_never_splits_a_character(tmp_path):
    for character, size in itertools.product("é€😀", range(60, 72)):
        content = "x" * (size % 4) + character * size
        write(tmp_path, {"a.txt": content})
        parts = strings(load(f"files:{tmp_path}/a.txt"))
        assert "".join(parts[split][0] for split in SPLITS) == content, (character, size)
        share = len(parts["train"][0]) / len(content)
        assert share == pytest.approx(0.9, abs=2 / size), (character, size)


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_equal_plain_ones(tmp_path, suffix, pack):
    for count in (3, 12):  # split by position, and by file
        plain = write(tmp_path / f"plain{count}", {n: t * 9 for n, t in numbered(count).items()})
        packed = {p.name + suffix: pack(p.read_bytes()) for p in plain.iterdir()}
        folder = write(tmp_path / f"packed{count}", packed)
        assert digest(f"files:{plain}") == digest(f"files:{folder}"), count


def test_a_path_a_glob_and_a_list_of_globs_name_the_same_files(tmp_path, monkeypatch):
    write(tmp_path, {f"books/{n}": t * 9 for n, t in numbered(4).items()} | {"books/x.md": "x"})
    whole = digest(f"files:{tmp_path}/books/*.txt")
    assert whole == digest(f"files:{tmp_path}/**/0?.txt")
    assert whole == digest(f"files:{tmp_path}/books/0[01].txt, {tmp_path}/books/*.txt")
    assert whole != digest(f"files:{tmp_path}/books")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert whole == digest("files:~/books/*.txt")
    assert whole == load("files:~/books/*.txt", "elsewhere").describe().hash
    monkeypatch.setenv("BOOKS", f"{tmp_path}/books")
    assert whole == digest("files:$BOOKS/*.txt")
    monkeypatch.chdir(tmp_path)
    assert whole == digest("files:books/*.txt")


def test_a_variable_that_is_not_set_is_told_with_its_place(tmp_path, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    for source, root, place in (
        ("files:$NOWHERE/a.txt", str(tmp_path), "files:$NOWHERE/a.txt"),
        ("files:a.txt, ${NOWHERE}", str(tmp_path), "files:a.txt, ${NOWHERE}"),
        ("files:a.txt", "${NOWHERE}", "data.data_dir"),
    ):
        with pytest.raises(ValueError) as error:
            load(source, root)
        assert str(error.value) == f"the environment variable NOWHERE of {place} is not set"


def test_a_name_that_looks_like_globs_or_a_list_is_a_name(tmp_path):
    write(tmp_path / "a,b [1]", {"a, b.txt": "a" * 20})
    assert strings(load(f"files:{tmp_path}/a,b [1]"))["train"] == ["a" * 18]
    assert strings(load("files:a, b.txt", f"{tmp_path}/a,b [1]"))["train"] == ["a" * 18]


def test_a_file_that_is_named_may_have_any_suffix(tmp_path):
    write(tmp_path, {"corpus.tex": "t" * 20})
    assert strings(load(f"files:{tmp_path}/corpus.tex"))["valid"] == ["t"]


def test_the_hash_sees_bytes_and_where_documents_end():
    def hashed(*train: bytes) -> str:
        parts = {split: [Document("", b"x")] for split in ("valid", "test")}
        parts["train"] = [Document("", text) for text in train]
        return read(Source("s", parts, ("by hand", "by hand"))).hash

    cases = [(b"ab", b"c"), (b"a", b"bc"), (b"abc",), (b"ab", b"d"), (b"a", b"\nb"), (b"a\n", b"b")]
    assert len({hashed(*case) for case in cases}) == len(cases)
    assert hashed(*cases[0]) == hashed(*cases[0])


def test_nobody_changes_a_text_by_accident(tmp_path):
    for files in ({"a.txt": "é" * 40}, numbered(12)):  # cut, and whole
        for documents in load(f"files:{write(tmp_path, files)}").splits.values():
            with pytest.raises(ValueError, match="read-only"):
                documents[0][0] = 0


def test_describe_counts_documents_and_bytes(tmp_path):
    write(tmp_path, {"a.txt": "é" * 100, "b.txt": "b" * 40})
    about = load(f"files:{tmp_path}").describe()
    assert about.documents == {"train": 2, "valid": 2, "test": 2}
    assert about.bytes == {"train": 180 + 36, "valid": 10 + 2, "test": 10 + 2}
    assert (
        records.plain(about).keys()
        == vars(about).keys()
        == {*("source", "hash", "split", "documents", "bytes", "python", "overlap")}
    )


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_damaged_archives_are_named(tmp_path, suffix, pack):
    whole = pack(os.urandom(500).hex().encode())
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    cases = {"cut": whole[:-20], "broken": bytes(broken), "other": bz2.compress(b"text")}
    for name, content in cases.items():
        path = write(tmp_path, {name + suffix: content}) / (name + suffix)
        with pytest.raises(ValueError, match=rf"{name}\{suffix} is truncated or damaged"):
            load(f"files:{path}")


def test_an_unknown_source_lists_the_forms():
    for source in ("stdlb", "stdlib:3.11", "file:books", "files:", "files: ,", ""):
        with pytest.raises(ValueError, match="unknown source") as error:
            load(source)
        assert "Known: stdlib (" in str(error.value) and "files:PATH" in str(error.value)
        near = "stdlib" if "std" in source else "files"
        assert not source or f"did you mean {near!r}?" in str(error.value)


TEXT = "text " * 50
MISTAKES = {
    "not UTF-8": ({"bad.txt": b"caf\xe9"}, "", r"bad\.txt is not UTF-8 at byte 3 \(0xe9\).*iconv"),
    "missing": ({"novels/a.txt": "a"}, "/novel", "no file .*novel; did you mean 'novels'"),
    "missing folder": ({"novels/a.txt": "a"}, "/novles/deep/a.txt", "no file .*deep/a.txt"),
    "one of two": ({"novels/a.txt": "a"}, "/novels/a.txt,zzz", r"no file .*zzz\.$"),
    "no text": ({"folder.txt/image.png": b"\xff"}, "", r"no file ending in \.txt, .* in "),
    "no match": ({"image.png": b"\xff"}, "/*.txt", r"no file matches .*\*\.txt"),
    "short": ({"a.txt": "😀"}, "/a.txt", "no text for train and valid .*longer documents"),
    "no test": (
        {"train/a.txt": TEXT, "validation/a.txt": TEXT},
        "",
        "train and validation, .* test",
    ),
    "no train": (
        {"test/a.txt": TEXT, "valid/a.txt": TEXT},
        "",
        "valid and test, .*none named train",
    ),
    "test is empty": (
        {"train/a.txt": "a", "valid/a.txt": "a", "test/a.doc": "a"},
        "",
        "no file .*test",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_raise(tmp_path, mistake):
    files, path, said = MISTAKES[mistake]
    write(tmp_path, files)
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        load(f"files:{tmp_path}{path}")


def test_a_path_without_its_prefix_and_a_broken_link_raise(tmp_path):
    with pytest.raises(ValueError, match="for a path write files:"):
        load(str(tmp_path))
    (tmp_path / "b.txt").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(FileNotFoundError, match="b.txt"):
        load(f"files:{tmp_path}")


def test_a_name_that_is_not_utf_8_is_recorded(tmp_path):
    write(tmp_path, dict.fromkeys(("train/a.txt", "valid/b.txt", "test/c.txt"), "same " * 50))
    os.rename(tmp_path / "train/a.txt", os.fsencode(tmp_path) + b"/train/caf\xe9.txt")
    corpus = load(f"files:{tmp_path}")
    about = records.plain(corpus.describe(corpus))
    assert about["overlap"]["test"]["beside"] == "train/caf\ufffd.txt"
