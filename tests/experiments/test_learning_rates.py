"""The learning-rate check of NOTES.md: which rate is chosen by what, and whose ranks move."""

import json

from experiments.docs.learning_rates import table

VALUES = {  # (at 64, at 1024) at rates of 1e-3, 3e-3 and 9e-3
    "a": ((2.6, 2.7), (2.5, 2.6), (2.4, 2.9)),
    "b": ((2.9, 3.0), (2.6, 2.7), (2.7, 2.6)),
    "c": ((2.8, 2.8), (2.7, 2.8), (2.9, 2.9)),
}


def record(label, rate, values):
    rows = [
        {"seed": seed, "swap": "", "metric": "same_targets", "length": length, "value": value}
        for seed in (0, 1)
        for length, value in zip((64, 1024), values, strict=True)
    ]
    return {
        "id": f"{label}-{rate}",
        "label": label,
        "rows": rows,
        "seeds": [0, 1],
        "train": {"length": 64, "steps": 350},
        "corpus": {"source": "stdlib", "hash": "0" * 64},
        "config": {"train": {"rate": rate}},
    }


def test_the_rate_is_chosen_at_the_training_length_and_the_rank_is_at_the_longest(tmp_path):
    rates = (1e-3, 3e-3, 9e-3)
    records = [
        record(label, rate, pair)
        for label, values in VALUES.items()
        for rate, pair in zip(rates, values, strict=True)
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, records)))
    text = table(tmp_path)
    assert "| encoding | rate 0.001 | rate 0.003 | rate 0.009 | chosen | rank at 0.003 |" in text
    assert "| a | 2.60, 2.70 | 2.50, 2.60 | 2.40, 2.90 | 0.009 | 1 | 3 |" in text
    assert "| b | 2.90, 3.00 | 2.60, 2.70 | 2.70, 2.60 | 0.003 | 2 | 1 |" in text
    assert "tau of the two orders: -0.33; no encoding moves by more than 2 ranks" in text
