"""metrics.jsonl as it is read while a run writes it."""

from pe_jax.storage import jsonl

LINES = [{"evaluated": i, "of": 9} for i in range(9)]


def test_the_last_line_is_the_newest_whole_one(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert jsonl.last_line(path) is None
    for lines in (LINES[:3], LINES * 400):  # more than is read of the end
        jsonl.replace(path, lines)
        assert jsonl.last_line(path) == lines[-1]
    text = jsonl.encode(LINES[3]).encode()
    with open(path, "ab", buffering=0) as file:
        for part in (text[:10], text[10:].replace(b"3", b"4")):  # cut off, then damaged
            file.write(part)
            assert jsonl.last_line(path) == LINES[8]
        file.write(text)
    assert jsonl.last_line(path) == LINES[3]
