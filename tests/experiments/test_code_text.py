"""The text of studies of code has no near copies, and keeps packages whole."""

import sys

import numpy as np
import pytest

from experiments.studies import code_text
from pe_jax.data import load


def numbered(*numbers):
    return "".join(f"value_{number} = {number}\n" for number in numbers)


def test_a_file_that_stands_in_an_earlier_one_is_left_out():
    first, other = numbered(*range(40)), numbered(*range(100, 140))
    spaced = first.upper().replace("\n", "\n\n    ")
    part = numbered(*range(100, 118), *range(20, 42))
    documents = [("a", first), ("b", other), ("c", spaced), ("d", part), ("e", "x = 1\n")]
    assert [name for name, _ in code_text.without_copies(documents)] == ["a", "b", "e"]


@pytest.mark.parametrize(("copied", "kept"), [(7, True), (8, False)])
def test_fifteen_percent_of_its_runs_of_three_lines_make_a_copy(copied, kept):
    # of 40 runs, those of copied lines are copied - 2
    documents = [
        ("a", numbered(*range(99))),
        ("b", numbered(*range(copied), *range(200, 242 - copied))),
    ]
    assert [name for name, _ in code_text.without_copies(documents)] == ["a", "b"][: 1 + kept]


def test_small_packages_fill_the_held_out_splits_and_large_ones_are_for_training():
    sizes = {f"package{number}": 10 for number in range(99)} | {"large": 1000}
    splits = code_text.split_of(sizes)
    held = {
        split: sum(sizes[n] for n, s in splits.items() if s == split) for split in ("test", "valid")
    }
    bound = 0.05 * sum(sizes.values())
    assert splits["large"] == "train" and splits.keys() == sizes.keys()
    assert all(bound <= size < bound + 10 for size in held.values())


def test_packages_are_read_back_as_a_text_split_by_package(tmp_path, monkeypatch):
    packages, out = tmp_path / "packages", tmp_path / "text"
    for number in range(60):
        folder = packages / f"package{number}"
        folder.mkdir(parents=True)
        for name in ("one", "two"):
            (folder / f"{name}.py").write_text(numbered(*range(50 * number, 50 * number + 40)))
    (packages / "package0/latin.py").write_bytes(b"\xe9")
    monkeypatch.setattr(sys, "argv", ["code_text", f"--packages={packages}", str(out)])
    code_text.main()
    corpus = load.load(f"files:{out}")
    places = [
        (split, i) for split, documents in corpus.splits.items() for i in range(len(documents))
    ]
    names = [corpus.name(*place) for place in places]
    assert len(names) == 60 and all(name.endswith("one.py") for name in names)
    shares = np.array([corpus.splits[s].sizes.sum() for s in ("test", "valid", "train")])
    assert (shares[:2] / shares.sum() < 0.1).all()
