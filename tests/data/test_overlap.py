"""Held-out text that also stands in the training text is measured and told."""

import os
import random
import shutil

import pytest

from pe_jax.data.corpus import Document, Source, read
from pe_jax.data.load import load
from pe_jax.data.overlap import STRIDE, WINDOW
from pe_jax.record import CorpusRecord, Overlap
from pe_jax.runs.run import Run


def prose(seed: int, size: int = 3000) -> str:
    return "".join(random.Random(seed).choices("etaoinshrdlu ", k=size))


def overlap(documents: list[str], train: list[str]) -> Overlap:
    parts = {"train": train, "valid": ["-"], "test": documents}
    named = {
        s: [Document(f"{s}{i}", t.encode()) for i, t in enumerate(p)] for s, p in parts.items()
    }
    corpus = read(Source("s", named, ("by hand", "by hand")))
    return corpus.overlap(corpus, ("test",))["test"]


def test_texts_of_their_own_share_nothing():
    assert overlap([prose(0), prose(1)], [prose(2), prose(3)]) == Overlap(share=0.0)


LINES = "\n".join(prose(i, 50) for i in range(60)) + "\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "  "),
        lambda text: text.replace("\n", "\n\t"),
        lambda text: text.replace("\n", "\u00a0\n"),
        lambda text: text.rstrip("\n"),
        str.upper,
        lambda text: text.replace("e", "é").upper(),
    ],
    ids=["crlf", "doubled", "indented", "no-break", "end", "upper", "upper beyond ASCII"],
)
def test_text_that_is_the_same_but_for_white_space_and_case_is_a_copy(change):
    train = LINES.replace("e", "é") if "É" in change("e") else LINES
    assert overlap([change(LINES)], [prose(9), train]).copies == 1
    part = overlap([change(LINES) + prose(1, 500)], [prose(9), train])
    assert part.copies == 0 and 0.8 < part.share < 0.9


def test_the_fold_leaves_words_apart_and_the_share_of_plain_text_as_it_is():
    assert overlap([LINES.replace(" ", "").replace("\n", "")], [LINES]).share < 0.2
    assert overlap([" \n"], [LINES]).share == 0
    plain = overlap([prose(0) + prose(1)], [prose(1) + prose(2)])
    assert plain.share == pytest.approx(0.5, abs=0.01)


def test_a_passage_is_found_wherever_it_begins():
    passage = prose(0, 500)
    for before, after in ((0, 33), (1, 7), (15, 0), (16, 33), (100, 7)):
        found = overlap(
            [prose(1), prose(2, before) + passage + prose(3, 2500 - before)],
            [prose(4), prose(5, after) + passage + prose(6)],
        )
        assert (500 - 2 * STRIDE) / 6000 < found.share <= 500 / 6000, (before, after)
        assert (found.document, found.beside, found.copies) == ("test1", "train1", 0)


def test_a_passage_of_a_window_and_a_stride_is_found_always_and_half_a_window_never():
    for after in range(STRIDE):
        for size, least in ((WINDOW + STRIDE - 1, WINDOW), (WINDOW // 2, 0)):
            passage = prose(0, size)
            test, train = prose(1) + passage + prose(2), prose(3, 90 + after) + passage + prose(4)
            found = overlap([test], [train])
            assert bool(found.share) == bool(least) and found.share * len(test) >= least


def test_what_stands_in_the_training_text_twice_counts_once():
    assert overlap([prose(0)], [prose(0) + prose(0)]).share > 0.99
    assert overlap([prose(0), prose(1)], [prose(0) + prose(0)]).share == pytest.approx(
        0.5, abs=0.01
    )


def test_a_copy_counts_whole_however_short_it_is():
    found = overlap(["a" * 990, "ten bytes!"], ["ten bytes!", prose(2)])
    assert found == Overlap(share=0.01, copies=1, document="test1", beside="train0")


def place_link(source, target):
    target.symlink_to(source)


@pytest.mark.parametrize("place", [place_link, os.link, shutil.copyfile])
def test_a_file_of_two_splits_is_told_by_name(tmp_path, place):
    """As a symbolic link, a hard link and a copy; the folders say the splits."""
    for i, split in enumerate(("train", "valid", "test")):
        (tmp_path / split).mkdir()
        (tmp_path / split / "own.txt").write_text(prose(i))
    apart = load(f"files:{tmp_path}")
    assert apart.describe(apart).doubts() == ()
    place(tmp_path / "train/own.txt", tmp_path / "test/again.txt")
    corpus = load(f"files:{tmp_path}")
    assert corpus.describe(corpus).doubts() == (
        "50 % of the test text also stands in the training text (copies: 1, such as "
        "test/again.txt has that of train/own.txt)",
    )


def test_a_split_is_told_from_the_documented_share_on():
    def doubts(share: float, splits=("test", "valid")) -> tuple[str, ...]:
        part = Overlap(share=share, document="a", beside="b")
        return CorpusRecord(source="s", hash="", overlap={"valid": part}).doubts(splits)

    assert doubts(0.0499) == doubts(0.05, ["test"]) == ()
    assert doubts(0.05) == (
        "5 % of the validation text also stands in the training text (most of it: a has that of b)",
    )


def test_the_overlap_of_other_text_is_with_the_text_of_training(tmp_path):
    for folder, seeds in (("ours", (0, 1, 2)), ("theirs", (3, 0, 0))):
        for seed, split in zip(seeds, ("train", "valid", "test"), strict=True):
            (tmp_path / folder / split).mkdir(parents=True)
            (tmp_path / folder / split / "a.txt").write_text(prose(seed))
    ours, theirs = (load(f"files:{tmp_path / name}") for name in ("ours", "theirs"))
    assert theirs.describe(theirs).overlap["test"].share == 0
    assert theirs.describe(ours).overlap["test"].share == 1
    assert theirs.describe().overlap == {}


def test_of_all_of_a_text_what_was_trained_on_is_told(tmp_path):
    for i in range(12):
        (tmp_path / f"{i}.txt").write_text(prose(i))

    def doubts(source: str, split: str) -> tuple[str, ...]:
        scored = {"source": source, "split": split, "lengths": (64,), "targets": 64, "swaps": ()}
        data = {"source": f"files:{tmp_path}"}
        run = Run.of({"pe": "nope", "data": data, "eval": scored})
        return run.load(run.load().trained.about.hash).scored.about.doubts([split])

    own, other = "", f"files:{tmp_path}/*.txt"
    assert doubts(own, "test") == doubts(other, "test") == ()
    assert doubts(own, "all") == ("the training text is among the text that is scored",)
    (told,) = doubts(other, "all")
    assert told.startswith("100 % of the train text also stands in the training text (copies: 10")
