"""metrics.jsonl as it is read while a run writes it."""

import pytest

from pe_jax.storage import jsonl

LINES = [{"evaluated": i, "of": 9} for i in range(9)]


@pytest.fixture
def path(tmp_path):
    jsonl.replace(tmp_path / "metrics.jsonl", LINES[:3])
    return tmp_path / "metrics.jsonl"


def test_a_tail_decodes_each_line_once(path, monkeypatch):
    decoded, decode = [], jsonl.decode
    monkeypatch.setattr(jsonl, "decode", lambda text: decoded.append(text) or decode(text))
    tail = jsonl.Tail(path)
    assert tail.read() == (LINES[:3], True)
    assert tail.read() == ([], False)
    jsonl.History(path).add(**LINES[3])
    assert tail.read() == ([LINES[3]], False)
    assert len(decoded) == 4


def test_a_tail_waits_for_the_end_of_a_line_and_leaves_out_a_damaged_one(path):
    tail, text = jsonl.Tail(path), jsonl.encode(LINES[3]).encode()
    tail.read()
    with open(path, "ab", buffering=0) as file:
        file.write(text[:10])
        assert tail.read() == ([], False)
        file.write(text[10:] + text.replace(b"3", b"4"))
    assert tail.read() == ([LINES[3]], False)


def test_a_tail_reads_a_file_that_was_replaced_or_cut_anew(path):
    tail = jsonl.Tail(path)
    tail.read()
    jsonl.replace(path, LINES[4:9])
    assert tail.read() == (LINES[4:9], True)
    with open(path, "r+b") as file:
        file.truncate(len(jsonl.encode(LINES[4])))
    assert tail.read() == (LINES[4:5], True)
    path.unlink()
    assert tail.read() == ([], False)
