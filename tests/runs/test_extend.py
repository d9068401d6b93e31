"""A pretrained model at longer lengths: what a score is, what is computed once, going on."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pe_jax.errors import Refused
from pe_jax.pretrained.load import load
from pe_jax.report import tables
from pe_jax.runs.extend import Extension, extend
from pe_jax.runs.view import SILENT, Silent
from pe_jax.spec.swap import swap

GOLDEN = Path(__file__).parents[1] / "golden" / "pretrained"
LENGTHS, LAST = (16, 32, 64), 8


@pytest.fixture(scope="module")
def model():
    return load(f"hf:{GOLDEN / 'llama_tied'}")


@pytest.fixture
def book(tmp_path):
    words = np.random.default_rng(0).choice(["the ", "path ", "of ", "a ", "moth\n"], 600)
    path = tmp_path / "book.txt"
    path.write_text("".join(words))
    return path


@pytest.fixture
def asked(model, book):
    return Extension.of(model, f"files:{book}", LENGTHS, ("pi", "window"), 3, LAST)


def test_a_score_is_the_bits_per_byte_of_the_last_tokens_before_a_place(model, asked, tmp_path):
    result = extend(asked, tmp_path / "runs", "command", SILENT)
    assert result.replicate == "place" and result.seeds == (0, 1, 2)
    rows = {(row.swap, row.length, row.seed): row.value for row in result.rows}
    assert len(rows) == 3 * 3 * 3
    text = np.frombuffer((tmp_path / "book.txt").read_bytes(), np.uint8)
    window = model.tokenizer.encode([text])[0][:64].astype(np.int32)  # before the first place
    encodings = tuple(e.at(64) for e in swap(model.encodings, "pi"))
    lm = nnx.merge(model.graphdef, model.params)
    logits = np.asarray(lm(jnp.asarray(window[None]), encodings=encodings)[0])[0, -LAST - 1 : -1]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -log_p[np.arange(LAST), window[-LAST:]].sum()
    size = model.tokenizer.sizes[window[-LAST:]].sum()
    assert rows["pi", 64, 0] == pytest.approx(nats / size / np.log(2), rel=1e-5)


def test_a_scaling_within_the_training_length_is_not_computed_again(asked, tmp_path):
    result = extend(asked, tmp_path / "runs", "command", SILENT)
    value = {(row.swap, row.length, row.seed): row.value for row in result.rows}
    for place in range(3):
        assert value["pi", 16, place] == value["", 16, place]
        assert value["pi", 64, place] != value["", 64, place]
        assert value["window", 32, place] == value["", 32, place]
    path = tmp_path / "runs" / result.id / "scores.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[-1]["evaluated"] == lines[-1]["of"] == 3 * (16 + 32 + 3 * 64)
    seconds = {(line["swap"], line["length"], line["place"]): line["seconds"] for line in lines}
    assert seconds["pi", 16, 2] == seconds["", 16, 2] and seconds["pi", 64, 2] > 0
    assert seconds["pi", 64, 0] is None  # it was compiled in them


class Stops(Silent):
    """Ends the process's work after so many lines."""

    def __init__(self, after):
        self.after, self.lines = after, []

    def watch(self, line):
        self.lines.append((line["place"], line["swap"], line["length"]))
        if len(self.lines) == self.after:
            raise KeyboardInterrupt


def test_what_was_cut_off_goes_on_with_what_it_lacks(asked, book, tmp_path):
    whole = extend(asked, tmp_path / "whole", "command", SILENT)
    first, second = Stops(10), Stops(0)
    with pytest.raises(KeyboardInterrupt):
        extend(asked, tmp_path / "runs", "command", first)
    result = extend(asked, tmp_path / "runs", "command", second)
    assert len(first.lines) == 10 and len(second.lines) == 17
    assert not set(first.lines) & set(second.lines)
    assert result.rows == whole.rows
    third = Stops(0)
    assert extend(asked, tmp_path / "runs", "command", third).rows == whole.rows
    assert not third.lines
    book.write_text(book.read_text() + "moth\n")
    with pytest.raises(Refused, match="scores of other text .*has changed since"):
        extend(asked, tmp_path / "runs", "command", SILENT)


def test_the_table_says_what_its_intervals_are_over(asked, tmp_path):
    result = extend(asked, tmp_path / "runs", "command", SILENT)
    table = tables.extrapolation([result], "same_targets")
    notes = " ".join(table.notes)
    assert "Trained by others, on up to 32 tokens" in notes
    assert "3 places, ±" in notes and "paired over places" in notes and "seed" not in notes
    assert [row.label for row in table.rows] == [
        "llama_tied",
        "llama_tied, pi",
        "llama_tied, window 32",
    ]


def test_what_cannot_be_scored_is_refused(model, book, tmp_path):
    source = f"files:{book}"
    with pytest.raises(ValueError, match="'pi' had no effect: at every evaluated length"):
        Extension.of(model, source, (16,), ("pi",), 3, LAST)
    with pytest.raises(ValueError, match="needs parameters"):
        Extension.of(model, source, LENGTHS, ("learned",), 3, LAST)
    with pytest.raises(Refused, match="no document .*has the 65536 tokens"):
        extend(Extension.of(model, source, (65536,), ("pi",), 3, LAST), tmp_path, "command", SILENT)
    assert not [*tmp_path.glob("*/config.json")]
