"""The table of NOTES.md that holds two rankings against each other."""

import json

from experiments.docs.moves import table


def folder(path, values, rates=()):
    """A results folder: {label: (at 64, at 1024)}, with the rates that were tried."""
    path.mkdir()
    lines = []
    for label, scores in values.items():
        rows = [
            {"seed": seed, "swap": "", "metric": "same_targets", "length": length, "value": value}
            for seed in (0, 1)
            for length, value in zip((64, 1024), scores, strict=True)
        ]
        record = {"id": label, "label": label, "rows": rows, "seeds": [0, 1], "version": 3}
        record |= {"train": {"length": 64, "steps": 350}, "rates": list(rates)}
        record |= {"corpus": {"source": "stdlib", "hash": "0"}, "config": {"train": {"rate": 3e-3}}}
        lines.append(json.dumps(record))
    (path / "runs.jsonl").write_text("\n".join(lines))
    return path


def test_ranks_are_those_at_the_longest_length_and_the_rate_is_the_chosen_one(tmp_path):
    early = folder(tmp_path / "a", {"x": (3.0, 3.1), "y": (3.2, 3.3), "z": (3.4, 3.5)})
    tried = [{"rate": 9e-3, "valid": {"0": 2.0}}, {"rate": 27e-3, "valid": {"0": None}}]
    late = folder(
        tmp_path / "b",
        {"x": (2.5, 4.0), "y": (2.4, 2.6), "z": (2.6, 2.7), "new": (1.0, 1.0)},
        tried,
    )
    lines = table(early, late).splitlines()
    assert lines[2] == "| y | 3.20, 3.30 | 2 | 0.009 | 2.40, 2.60 | 1 |"
    assert lines[4] == "| x | 3.00, 3.10 | 1 | 0.009 | 2.50, 4.00 | 3 |" and len(lines) == 7
    assert lines[6].startswith("3 of 3 encodings changed place")
    assert "by 2 places" in lines[6] and "-0.33 at the longest length, 0.33 at the" in lines[6]
