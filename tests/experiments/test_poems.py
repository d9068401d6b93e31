"""Poems of one author are one document, whichever file they stand in."""

import json

import pytest

from experiments.studies import poems


def test_poems_are_joined_by_author(tmp_path, monkeypatch):
    monkeypatch.setattr(poems, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match="no poems"):
        poems.poems()
    for dynasty, authors in (("tang", ["李白", "杜甫"]), ("song", ["蘇軾", "李白"])):
        rows = [
            {"author": a, "title": f"{dynasty}{a}", "paragraphs": ["一。", "二。"]} for a in authors
        ]
        (tmp_path / f"poet.{dynasty}.0.json").write_text(json.dumps(rows), "utf-8")
    assert list(poems.poems()) == [
        "song蘇軾\n一。\n二。",
        "song李白\n一。\n二。\n\ntang李白\n一。\n二。",
        "tang杜甫\n一。\n二。",
    ]
