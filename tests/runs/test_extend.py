"""A pretrained model at longer lengths: what a score is, what is computed once, going on."""

import dataclasses
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from helpers import DIMS

from pe_jax.compose.parse import make
from pe_jax.compose.swap import swap
from pe_jax.errors import Refused
from pe_jax.evaluation import passkeys
from pe_jax.evaluation.by_place import by_place
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import plan
from pe_jax.evaluation.passkeys import Passkeys
from pe_jax.pretrained.load import load
from pe_jax.report import depth, sheets, summary, tables
from pe_jax.runs.extend import extend
from pe_jax.runs.extension import Extension
from pe_jax.runs.view import SILENT, Silent
from pe_jax.storage import hashes
from pe_jax.tasks.passkey import FILLER
from pe_jax.training.session import Session

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
    encodings = tuple(e.at(64) for e in swap(model.members, "pi"))
    lm = nnx.merge(model.graphdef, model.params)
    logits = np.asarray(lm(jnp.asarray(window[None]), encodings=encodings)[0])[0, -LAST - 1 : -1]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -log_p[np.arange(LAST), window[-LAST:]].sum()
    size = model.tokenizer.sizes[window[-LAST:]].sum()
    assert rows["pi", 64, 0] == pytest.approx(nats / size / np.log(2), rel=1e-5)


def test_a_scaling_within_the_training_length_scores_what_the_model_scores(asked, tmp_path):
    result = extend(asked, tmp_path / "runs", "command", SILENT)
    value = {(row.swap, row.length, row.seed): row.value for row in result.rows}
    for place in range(3):
        assert value["pi", 16, place] == pytest.approx(value["", 16, place], rel=1e-6)
        assert value["pi", 64, place] != value["", 64, place]
        assert value["window", 32, place] == value["", 32, place]
    path = tmp_path / "runs" / result.id / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[-1]["evaluated"] == lines[-1]["of"] == 3 * (2 * 16 + 2 * 32 + 3 * 64)
    seconds = {(line["swap"], line["length"], line["place"]): line["seconds"] for line in lines}
    assert seconds["window", 16, 2] == seconds["", 16, 2] and seconds["pi", 64, 2] > 0
    assert seconds["pi", 64, 0] is None  # it was compiled in them


SWAPS = (
    "window(window=2040)",
    "window(window=2048)",
    "lm_infinite(sinks=10)",
    "lm_infinite(sinks=12)",
)


def test_a_pass_is_shared_only_where_it_is_the_same_by_construction():
    members = make("rope", DIMS._replace(train_len=2048))
    config = EvalConfig(lengths=(2048, 16384), swaps=SWAPS, last=256).resolved(2048)
    computed = []

    def scored(part, place):
        computed.append(part)
        return float(len(computed))

    lines = [*by_place(plan(members, config), 1, scored, {}, Session())]
    values = {(line["swap"], line["length"]): line["value"] for line in lines}
    assert len({values[swap, 16384] for swap in ("", *SWAPS)}) == 5
    assert len({values[swap, 2048] for swap in ("", *SWAPS)}) == 4
    assert values["window(window=2048)", 2048] == values["", 2048]  # it hides no key


MINE = """
import dataclasses
from pe_jax.encodings.rotary import Rotary
from pe_jax.geometry import inverse_timescales

@dataclasses.dataclass(frozen=True)
class Mine(Rotary):
    def _frequencies(self):
        return inverse_timescales(self.dims.head, self.base) * FACTOR
"""


def test_a_swap_in_a_file_is_scored_anew_once_the_file_has_changed(model, book, tmp_path):
    file = tmp_path / "mine.py"

    def scores_of(factor):
        file.write_text(MINE.replace("FACTOR", factor))
        asked = Extension.of(model, f"files:{book}", (64,), (f"{file}:Mine",), 2, LAST)
        result = extend(asked, tmp_path / "runs", "command", SILENT)
        assert result.sources[str(file)] == hashes.sha256_of_file(file)
        return {(row.swap, row.length, row.seed): row.value for row in result.rows}

    first, second = scores_of("1.0"), scores_of("0.01")
    assert first["", 64, 0] == second["", 64, 0]
    assert first[f"{file}:Mine", 64, 0] != second[f"{file}:Mine", 64, 0]


class Stops(Silent):
    """Ends the process's work after so many lines."""

    def __init__(self, after):
        self.after, self.lines = after, []

    def watch(self, line):
        self.lines.append((line["place"], line["swap"], line["length"]))
        if len(self.lines) == self.after:
            raise KeyboardInterrupt


def scores(result):
    return [dataclasses.replace(row, seconds=None) for row in result.rows]


def test_what_was_cut_off_goes_on_with_what_it_lacks(asked, book, tmp_path):
    whole = extend(asked, tmp_path / "whole", "command", SILENT)
    first, second = Stops(10), Stops(0)
    with pytest.raises(KeyboardInterrupt):
        extend(asked, tmp_path / "runs", "command", first)
    result = extend(asked, tmp_path / "runs", "command", second)
    assert len(first.lines) == 10 and len(second.lines) == 17
    assert not set(first.lines) & set(second.lines)
    assert scores(result) == scores(whole)
    third = Stops(0)
    assert extend(asked, tmp_path / "runs", "command", third).rows == result.rows
    assert not third.lines
    book.write_text(book.read_text() + "moth\n")
    with pytest.raises(Refused, match="scores of other text .*has changed since"):
        extend(asked, tmp_path / "runs", "command", SILENT)


def test_a_passkey_is_hidden_at_every_depth_and_all_of_it_is_seen(model):
    for length in (300, 511):
        keys = Passkeys.of(model.tokenizer, length, 5)
        assert keys.tokens.shape == (5, length + 1)
        numbers = set()
        for tokens, at, answer in zip(keys.tokens, keys.depths, keys.answers, strict=True):
            text = model.tokenizer.decode(tokens).decode()
            number = model.tokenizer.decode(tokens[-answer:]).decode().strip()
            numbers.add(number)
            assert len(number) == 5 and text.endswith(f"The pass key is {number}")
            before, after = text.split(
                f"\nThe pass key is {number}. Remember it. {number} is the pass key.\n"
            )
            filler = before.partition("information there.\n")[2], after.partition("\nWhat is")[0]
            assert all(FILLER.decode().startswith(part[:80]) for part in filler)
            share = len(filler[0]) / len("".join(filler))
            assert share == pytest.approx(at, abs=0.02)
        assert len(numbers) == 5
    with pytest.raises(ValueError, match="alone have 2[0-9]+ tokens, .* always scored"):
        Passkeys.of(model.tokenizer, 100, 5)


def test_a_passkey_counts_where_greedy_decoding_gives_all_of_it(model):
    keys = Passkeys.of(model.tokenizer, 300, 3)
    tokens = keys.tokens.copy()

    @jax.jit
    def predicted(params, tokens):
        lm = nnx.merge(model.graphdef, params)
        return lm(tokens, encodings=model.members)[0].argmax(-1)

    assert {*keys.answers} == {5}
    for at in range(-5, 0):
        tokens[:, at] = predicted(model.params, tokens)[:, at - 1]
    tokens[1, -1] += 1  # the last digit is another one
    answers = np.array([5, 4, 5])  # of the second the last four tokens count
    written = {300: dataclasses.replace(keys, tokens=tokens, answers=answers)}
    score = passkeys.scorer(model.graphdef, model.params, written, Session())
    (part,) = plan(model.members, EvalConfig((300,), swaps=(), last=1).resolved(300))
    assert [score(part, place) for place in range(3)] == [100, 0, 100]


def test_passkeys_have_a_table_and_a_heat_map_of_every_swap(model, tmp_path):
    served = dataclasses.replace(model, length=300)
    asked = Extension.of(served, "passkey", (320, 600), ("pi", "window"), 3, LAST)
    result = extend(asked, tmp_path / "runs", "command", SILENT)
    assert result.replicate == "depth"
    curves = {(c.swap, c.length, c.position): c.value for c in result.curves}
    assert len(curves) == len(result.rows) == 3 * 3 * 3
    assert curves["pi", 600, (0.5,)] == (0.0,)
    table = tables.extrapolation([result], "exact_match")
    cells = [cell for row in table.rows for cell in (*row.cells, row.summary, row.gain)]
    assert all(math.isnan(cell.half) for cell in cells)
    said = summary.summary(table)
    assert "±" not in said and "Within 1 %" not in said
    assert sheets.extrapolation([table])[0].columns[-1] == "seconds a window"
    notes = " ".join(table.notes)
    assert "drawn, the same with every swap." in notes
    assert "scored on passkey" in notes and "more than half of the depths" in notes
    assert "one passkey at each of 3 depths, so there are no intervals" in notes
    figure = depth.heat([result], 5.5)
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles[:3] == ["llama_tied", "pi", "window 300"]


def test_the_table_says_what_its_intervals_are_over(asked, tmp_path):
    result = extend(asked, tmp_path / "runs", "command", SILENT)
    table = tables.extrapolation([result], "same_targets")
    notes = " ".join(table.notes)
    assert "Trained by others, on up to 32 tokens" in notes
    assert "3 places, ±" in notes and "paired over places" in notes and "seed" not in notes
    first, *others = table.rows
    assert first.label == "llama_tied"
    assert {row.label for row in others} == {"llama_tied, pi", "llama_tied, window 32"}
    assert others[0].cells[-1].mean < others[1].cells[-1].mean  # swaps are ranked, in one block
    assert [name for name, _ in table.blocks] == ["as trained", "swapped in"]
    own = [row.seconds for row in result.rows if (row.swap, row.length) == ("pi", 64)]
    assert own[0] is None and own[1] > 0 and own[2] > 0
    cost = {row.label: row.seconds for row in table.rows}["llama_tied, pi"]
    assert cost == pytest.approx((own[1] + own[2]) / 2)
    assert sheets.extrapolation([table])[0].columns[-1] == "seconds a window"


def test_what_cannot_be_scored_is_refused(model, book, tmp_path):
    source = f"files:{book}"
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MINE.replace("FACTOR", "[1.0] * 7"))
    with pytest.raises(ValueError, match="wrong.py:Mine: qk raised"):
        Extension.of(model, source, LENGTHS, (f"{wrong}:Mine",), 3, LAST)
    with pytest.raises(ValueError, match="needs parameters"):
        Extension.of(model, source, LENGTHS, ("learned",), 3, LAST)
    with pytest.raises(Refused, match="no document .*has the 65536 tokens"):
        extend(Extension.of(model, source, (65536,), ("pi",), 3, LAST), tmp_path, "command", SILENT)
    assert not [*tmp_path.glob("*/config.json")]
