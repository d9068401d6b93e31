"""Large text is read once into a store and mapped: the same numbers, also after kills."""

import gzip
import json
import random
import shutil
import signal
import struct
import time

import numpy as np
import pyarrow
import pytest
import tokenizers
from pyarrow import parquet

from pe_jax.data import corpus, overlap, tokenizer
from pe_jax.data.batches import Batches, Segments
from pe_jax.data.corpus import SPLITS, Document, Source
from pe_jax.data.load import files, load
from pe_jax.data.tokenizer import tokenize


def texts(count, size=300):
    words = ["wind", "sea", "Île", "étoile", "\n", "light", "位置", "a"]
    return [" ".join(random.Random(i).choices(words, k=size)) for i in range(count)]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder in which every text, however small, is stored."""
    monkeypatch.setattr(corpus, "LARGE", 0)
    return tmp_path / "store"


@pytest.fixture
def text(tmp_path):
    """40 files, of which one is a copy of another."""
    folder = tmp_path / "text"
    folder.mkdir()
    for i, content in enumerate(texts(40)):
        (folder / f"{i:02d}.txt").write_text(content)
    (folder / "copy.txt").write_text((folder / "07.txt").read_text())
    return f"files:{folder}"


def strings(found):
    return {s: [document.tobytes() for document in found.splits[s]] for s in SPLITS}


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("spec", ["bytes", "bpe:280"])
def test_a_stored_text_is_that_in_memory(text, store, monkeypatch, spec):
    stored = load(text, store=str(store))
    monkeypatch.setattr(corpus, "LARGE", 2**30)
    small = load(text)
    assert stored.folder and not small.folder
    made, usual = (tokenize(one, spec, one) for one in (stored, small))
    assert made.about == usual.about and made.tokenizer.json == usual.tokenizer.json
    assert strings(made) == strings(usual)
    for kind, more in ((Batches, ()), (Segments, (64,))):
        ours, theirs = (kind(t.splits["train"], 32, 6, 3, *more) for t in (made, usual))
        for step in (0, 5, 10_001):
            for one, other in zip([*ours[step]], [*theirs[step]], strict=True):
                np.testing.assert_array_equal(one, other)
    names = [
        [c.name(s, i) for s in SPLITS for i in range(len(c.splits[s]))] for c in (small, stored)
    ]
    assert names[0] == names[1] and "copy.txt" in names[0]


def test_few_documents_and_folders_are_split_as_in_memory(tmp_path, store, monkeypatch):
    for i, name in enumerate(("train/a.txt", "train/b.txt", "test/c.txt")):
        (tmp_path / "text" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "text" / name).write_text(texts(3)[i])
    for where in ("text", "text/train"):
        stored = load(f"files:{tmp_path / where}", store=str(store))
        with monkeypatch.context() as patch:
            patch.setattr(corpus, "LARGE", 2**30)
            small = load(f"files:{tmp_path / where}")
        assert strings(stored) == strings(small) and stored.hash == small.hash


def test_a_stored_text_is_not_read_again_until_it_changes(text, store, monkeypatch):
    first = load(text, store=str(store))
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "_written", None)
        assert load(text, store=str(store)).hash == first.hash
    (store.parent / "text/00.txt").write_text("another text")
    changed = load(text, store=str(store))
    assert changed.hash != first.hash and changed.folder != first.folder


class Killed(BaseException):
    """A kill, as far as nothing is done after it."""


def killed(items, after):
    for i, item in enumerate(items):
        if i == after:
            raise Killed
        yield item


def test_a_store_whose_making_was_killed_is_made_to_the_same_bytes(
    text, store, tmp_path, monkeypatch
):
    whole = load(text, store=str(tmp_path / "undisturbed"))
    tokenize(whole, "bpe:280", whole)
    for after in (0, 3, 39):
        source = files(text.removeprefix("files:"))
        with pytest.raises(Killed):
            parts = {"": killed(source.parts[""], after)}
            corpus.stored(source._replace(parts=parts), str(store))
    made = load(text, store=str(store))
    stream = tokenizer.Tokenizer.stream
    for after, lost in ((1, 3), (4, 0), (20, 9)):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(tokenizer.Tokenizer, "stream", lambda *a, n=after: killed(stream(*a), n))
            tokenize(made, "bpe:280", made)
        for name in ("tokens", "sizes"):  # what had not been written
            (path,) = made.folder.glob(f"tokens-*/{name}")
            path.write_bytes(path.read_bytes()[: path.stat().st_size - lost])
    tokenize(made, "bpe:280", made)
    assert contents(made.folder) == contents(whole.folder)
    assert len(contents(made.folder)) == 13


@pytest.mark.slow
def test_five_kills_at_random_moments_leave_the_same_bytes(lab, tmp_path):
    """42 MB in 18 files, and their tokens; the moments are spread over an undisturbed making."""
    rng, text = random.Random(0), tmp_path / "text"
    words = ["".join(rng.choices("aeilnostué位\n", k=rng.randint(2, 9))) for _ in range(3000)]
    text.mkdir()
    for i in range(18):
        (text / f"{i:02d}.txt").write_text(" ".join(rng.choices(words, k=300_000)))
    begun = time.monotonic()

    def prepare(name):
        options = f"--source=files:{text}", "--tokenizer=bpe:300"
        return lab.start("prepare", *options, f"--store={tmp_path / name}")

    assert prepare("undisturbed").wait().code == 0
    seconds, killed, kept = time.monotonic() - begun, 0, 0
    while killed < 5:
        command = prepare("killed")
        command.process.join(rng.uniform(0.2, 0.8) * seconds)
        killed += command.stop(signal.SIGKILL).code == -signal.SIGKILL
        kept += any(tmp_path.glob("killed/*/text.json"))
        if command.code == 0:
            shutil.rmtree(tmp_path / "killed")
    assert kept, "each kill came before the text was read"
    assert prepare("killed").wait().code == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "undisturbed")


def pack_zst(path, content):
    with pyarrow.output_stream(str(path), compression="zstd") as file:
        file.write(content)


def write_rows(folder, rows):
    """The rows as .jsonl, packed and not, and as .parquet, a third each."""
    lines = [json.dumps({"id": i, "text": row}) + "\n" for i, row in enumerate(rows)]
    third = len(rows) // 3
    (folder / "a.jsonl").write_text("".join(lines[:third]) + "\n")
    pack_zst(folder / "b.jsonl.zst", "".join(lines[third : 2 * third]).encode())
    parquet.write_table(pyarrow.table({"text": rows[2 * third :]}), folder / "c.parquet")


def test_a_row_of_jsonl_or_parquet_is_a_document(tmp_path, store):
    rows = texts(60, 20)
    write_rows(tmp_path, rows)
    read = load(f"files:{tmp_path}")
    assert sorted(sum(strings(read).values(), [])) == sorted(row.encode() for row in rows)
    assert len(read.splits["test"]) == len(read.splits["valid"]) == 3
    names = {read.name(s, i) for s in SPLITS for i in range(len(read.splits[s]))}
    assert {"a.jsonl:1", "b.jsonl:20", "c.parquet:20"} <= names and len(names) == 60
    with gzip.open(tmp_path / "a.jsonl.gz", "wb") as file:
        file.write((tmp_path / "a.jsonl").read_bytes())
    (tmp_path / "a.jsonl").unlink()
    assert load(f"files:{tmp_path}").hash == read.hash


@pytest.mark.parametrize(
    "dtype, header, between",
    [
        ("<u2", (), "<|endoftext|>"),
        ("<u2", (20240520, 1), "<|endoftext|>"),
        ("<u4", (20240801, 7), "<|begin_of_text|>"),
    ],
)
def test_token_shards_are_the_text_of_their_tokens(tmp_path, dtype, header, between, store):
    rows = texts(30)
    own = tokenizers.Tokenizer.from_str(tokenizer.of_bytes())
    own.add_special_tokens([between])
    own.save(str(tmp_path / "tokenizer.json"))
    ids = [i for row in rows for i in (256, *row.encode())]
    content = struct.pack("<256i", *header, *[0] * (256 - len(header))) if header else b""

    def shard(name, ids):
        (tmp_path / name).write_bytes(content + np.array(ids, dtype).tobytes())

    shard("train.bin", ids)
    read = load(f"files:{tmp_path}")
    assert sorted(sum(strings(read).values(), [])) == sorted(row.encode() for row in rows)
    shard("train.bin", ids + [*"Î".encode()][:1])  # a character that the next shard ends
    shard("val.bin", [*"Îa".encode()][1:])
    read = load(f"files:{tmp_path}/*.bin")
    edges = [rows[-1].encode(), b"a"]
    wanted = [*(row.encode() for row in rows[:-1]), *edges]
    assert sorted(sum(strings(read).values(), [])) == sorted(wanted)
    wrong = {"has the token 300, and the tokenizer.json .* 257 tokens": [*ids, 300]}
    wrong |= {"train.bin is not UTF-8 at byte 1 .*give its own tokenizer.json": [97, 195, 97]}
    for said, ids in wrong.items():
        shard("train.bin", ids)
        with pytest.raises(ValueError, match=said):
            load(f"files:{tmp_path}/*.bin")
    (tmp_path / "train.bin").write_bytes(content + b"a")
    with pytest.raises(ValueError, match="train.bin is empty or cut off"):
        load(f"files:{tmp_path}/*.bin")


MISTAKES = {
    "no text.jsonl": (
        b'{"txt": "a"}\n',
        'a string "text", line 1: .*missing required field `text`',
    ),
    "no string.jsonl": (b'{"text": "a"}\n{"text": 1}', "line 2: Expected `str`, got `int`"),
    "no json.jsonl": (b"plain\n", "line 1: JSON is malformed"),
    "latin.jsonl": (b'{"text": "a"}\n{"text": "caf\xe9 au lait"}', "line 2: .*can't decode"),
    "cut.jsonl.zst": (b"\x28\xb5\x2f\xfd\x04", "is truncated or damaged"),
    "no.parquet": (b"plain", "is damaged"),
    "own.bin": (bytes(100), "^no tokenizer .*tokenizer.json"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_damaged_rows_are_refused_with_their_place(tmp_path, name):
    content, said = MISTAKES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        load(f"files:{tmp_path / name}")


def test_a_parquet_without_text_is_refused(tmp_path):
    parquet.write_table(pyarrow.table({"id": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a column of strings named text, got \['id'\]"):
        load(f"files:{tmp_path}/a.parquet")


OWN = """
import pathlib

def texts():
    with pathlib.Path(__file__).with_name("read").open("a") as file:
        file.write("once\\n")
    for i in range(40):
        yield f"document {i} of mine " * 200

def wrong():
    yield "a"
    yield 1

def latin():
    yield b"caf\\xe9"
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


def test_a_users_function_is_read_once_and_again_after_a_change(own, tmp_path):
    first = load(f"documents:{own}:texts", store=str(tmp_path / "store"))
    again = load(f"documents:{own}:texts", store=str(tmp_path / "store"))
    assert first.hash == again.hash and sum(map(len, first.splits.values())) == 40
    assert (tmp_path / "read").read_text() == "once\n"
    own.write_text(OWN.replace("of mine", "of yours"))
    assert load(f"documents:{own}:texts", store=str(tmp_path / "store")).hash != first.hash
    for name, said in (
        ("wrong", "own.py:wrong: AttributeError: 'int' object"),
        ("latin", "own.py:latin: UnicodeDecodeError"),
        ("text", "no callable 'text'"),
    ):
        with pytest.raises(ValueError, match=said):
            load(f"documents:{own}:{name}", store=str(tmp_path / "store"))
    with pytest.raises(NotADirectoryError, match="own.py/"):
        load(f"documents:{own}:texts", store=str(own))


def test_two_commands_share_one_store_and_a_full_disk_is_one_line(lab, own, tmp_path):
    options = f"--source=documents:{own}:texts", f"--store={tmp_path / 'store'}"
    full = lab.start("prepare", *options, largest=30_000).wait()
    assert full.code == 2 and full.err.splitlines()[-1].startswith("pe-jax prepare: "), full.err
    assert "ile too large; raise ulimit -f" in full.err and "Traceback" not in full.err
    assert not [*tmp_path.glob("store/*/text")]
    (tmp_path / "read").unlink()
    both = [lab.start("prepare", *options) for _ in range(2)]
    assert [one.wait().code for one in both] == [0, 0], both[1].err
    assert (tmp_path / "read").read_text() == "once\n"
    assert "train 36 documents" in both[0].out


def test_the_overlap_of_a_sample_is_within_its_error(monkeypatch):
    """Of 400 documents 60 are in the training text; a fifth is compared."""
    train, held = texts(300, 100), [*texts(60, 100), *texts(700, 100)[360:]]
    parts = {"train": train, "valid": ["-"], "test": held}
    named = {s: [Document(f"{i}", t.encode()) for i, t in enumerate(p)] for s, p in parts.items()}
    read = corpus.read(Source("s", named, ("by hand", "by hand")))
    exact = read.overlap(read, ("test",))["test"]
    assert exact.error == 0 and exact.copies == 60 and 0.14 < exact.share < 0.16
    monkeypatch.setattr(overlap, "COMPARED", sum(map(len, held)) // 5)
    drawn = read.overlap(read, ("test",))["test"]
    assert 0.03 < drawn.error < 0.1 and abs(drawn.share - exact.share) < drawn.error
    assert abs(drawn.copies - 60) < 0.1 * 400
