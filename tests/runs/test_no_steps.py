"""A run of no steps, the scores of a pretrained model: what a score is, what is computed once."""

import dataclasses
import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from commands import on_line
from evaluated import evaluated
from flax import nnx
from helpers import DIMS

from pe_jax.configs import base
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import plan
from pe_jax.evaluation.scoring import Models
from pe_jax.evaluation.windows import windows
from pe_jax.metric import Request
from pe_jax.metrics.prompts import passkey
from pe_jax.pretrained.load import load
from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.runs.run import Run
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap
from pe_jax.storage import hashes
from pe_jax.tasks.passkey import FILLER

GOLDEN = Path(__file__).parents[1] / "golden" / "pretrained"
SOURCE = f"hf:{GOLDEN / 'llama_tied'}"
LENGTHS, LAST = (16, 32, 64), 8


@pytest.fixture(scope="module")
def model():
    return load(SOURCE)


@pytest.fixture
def book(tmp_path):
    words = np.random.default_rng(0).choice(["the ", "path ", "of ", "a ", "moth\n"], 600)
    path = tmp_path / "book.txt"
    path.write_text("".join(words))
    return path


def run_of(book, lengths=LENGTHS, swaps=("pi", "window"), places=3, source=SOURCE, **fields):
    asked = {"lengths": lengths, "metrics": ("same_targets",), "swaps": swaps}
    asked |= {"targets": places * LAST, "last": LAST}
    return Run.pretrained(source, f"files:{book}", asked | fields)


@pytest.fixture
def asked(book):
    return run_of(book)


def test_a_score_is_the_bits_per_byte_of_the_last_tokens_before_a_place(model, asked, tmp_path):
    result = execute(asked, tmp_path / "runs", verbose=False)
    assert {row.replica.kind for row in result.rows} == {"place"} and result.seeds == (0,)
    assert not any(row.documents for row in result.rows)
    assert result.train.steps == 0 and not result.digests and result.label == "llama_tied"
    rows = {(str(row.way), row.length, row.replica.number): row.value for row in result.rows}
    assert len(rows) == 3 * 3 * 3
    text = np.frombuffer((tmp_path / "book.txt").read_bytes(), np.uint8)
    window = model.tokenizer.encode([text])[0][:64].astype(np.int32)  # before the first place
    encodings = tuple(e.at(64) for e in swap(model.members, "pi"))

    @jax.jit
    def predicted(params, tokens):
        return nnx.merge(model.graphdef, params)(tokens, encodings=encodings)[0]

    logits = np.asarray(predicted(model.params, window[None]))[0, -LAST - 1 : -1]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -log_p[np.arange(LAST), window[-LAST:]].sum()
    size = model.tokenizer.sizes[window[-LAST:]].sum()
    assert rows["pi", 64, 0] == pytest.approx(nats / size / np.log(2), rel=1e-5)


def test_a_config_that_leaves_length_and_seeds_at_their_defaults_gets_the_models():
    def run_of_config(**values):
        config = base.get_config("pe=rope")
        config.train.init_from, config.train.steps = SOURCE, 0
        config.eval.lengths, config.eval.last = (16, 64), 8
        config.update_from_flattened_dict(values)
        return Run.of(config.to_dict())

    run = run_of_config()
    assert (run.train.length, run.run.seeds, run.eval.reference) == (32, (0,), 32)
    assert run_of_config(**{"train.length": 20}).train.length == 20
    assert run_of_config(**{"run.seeds": (1, 2)}).run.seeds == (1, 2)
    asked = {"lengths": (64,), "metrics": ("same_targets",)}
    counted = Run.pretrained(SOURCE, "files:book.txt", asked | {"reference": 16})
    assert (counted.train.length, counted.eval.reference) == (32, 16)
    as_if = Run.pretrained(SOURCE, "files:book.txt", asked, 64)
    assert as_if.train.length == as_if.eval.reference == 64


def test_as_if_trained_at_fewer_tokens_a_model_as_it_is_stays_what_it_is():
    """Of dynamic NTK, which begins beyond the training length, too."""
    source = f"hf:{GOLDEN / 'llama_dynamic'}"
    asked = {"lengths": (16, 32), "metrics": ("same_targets",), "last": 8}
    runs = [Run.pretrained(source, "files:book.txt", asked, trained) for trained in (None, 16)]
    found = [[e.at(32)._frequencies() for e in run.encodings] for run in runs]
    np.testing.assert_array_equal(*found)
    own = runs[0].encodings
    assert swap(own, "dynamic_ntk(base=7.0)")[0].factor == own[0].factor == 2.0
    assert swap(swap(own, "dynamic_ntk(factor=3.0)"), "dynamic_ntk")[0].factor == 3.0


def test_a_scaling_within_the_training_length_scores_what_the_model_scores(asked, tmp_path):
    result = execute(asked, tmp_path / "runs", verbose=False)
    value = {(str(row.way), row.length, row.replica.number): row.value for row in result.rows}
    for place in range(3):
        assert value["pi", 16, place] == value["", 16, place]
        assert value["pi", 64, place] != value["", 64, place]
        assert value["window", 32, place] == value["", 32, place]
    path = tmp_path / "runs" / result.id / "metrics.jsonl"
    line = json.loads(path.read_text().splitlines()[-1])
    assert line["evaluated"] == line["of"] == 3 * sum(n * (n + 48) for n in (16, 32, 64, 64, 64))
    seconds = {(str(row.way), row.length, row.replica.number): row.seconds for row in result.rows}
    assert seconds["pi", 16, 2] == seconds["", 16, 2] and seconds["pi", 64, 2] > 0
    assert seconds["pi", 64, 0] is None  # it was compiled in them


SWAPS = "window(window=2040)", "window(window=2048)"
SWAPS += "lm_infinite(sinks=10)", "lm_infinite(sinks=12)"


def test_a_pass_is_shared_only_where_it_is_the_same_by_construction():
    members = make("rope", DIMS._replace(train_len=2048))
    config = EvalConfig(lengths=(2048, 16384), swaps=SWAPS, last=256).resolved(2048)
    computed = {(str(p.way), p.length): p.computed() for p in plan(members, config)}
    ways = [str(way) for way in config.ways]
    assert len({computed[way, 16384] for way in ways}) == 5
    assert {way for way in ways if computed[way, 2048] != computed["", 2048]} == {SWAPS[0]}


def test_scalings_share_the_pass_of_rope_where_they_are_rope():
    """Within the training length all that act by their frequencies, if their temperature is 1, and
    those that change far distances, where no pair is far.
    """
    members = make("rope(base=5e5)", DIMS._replace(train_len=64))
    same = "pi", "ntk", "dynamic_ntk", "yarn", "llama3", "mrrope", "rerope(window=63)"
    same += "lm_infinite", "streaming", "self_extend", "leaky_rerope", "chunk"
    others = "clipped_rope", "yarn(factor=3.0)", "yarn(attention_factor=1.1)", "ntk[::2]", "string"
    others += "rerope", "rerope(window=62)", "streaming(window=59)", "self_extend(group=2)"
    config = EvalConfig(lengths=(64, 128), swaps=(*same, *others), last=16).resolved(64)
    computed = {(str(p.way), p.length): p.computed() for p in plan(members, config)}
    assert {way for way, n in computed if computed[way, n] == computed["", 64]} == {"", *same}
    assert len({computed[way, 128] for way in ("", *same, *others)}) == 1 + len(same) + len(others)


def test_a_pass_is_not_shared_where_positions_are_not_those_of_the_sequence():
    """Random positions lie farther apart than there are tokens, and a memory moves them."""
    members = make("randomized(max=1024)+rope", DIMS._replace(train_len=64))
    config = EvalConfig(lengths=(64,), swaps=("rerope(window=63)",), last=16).resolved(64)
    as_trained, swapped = (p.computed() for p in plan(members, config))
    assert as_trained != swapped
    chunk = make("chunk", DIMS._replace(train_len=64))
    config = EvalConfig(lengths=(64,), memory=(64,), last=16).resolved(64)
    with_memory = next(p for p in plan(chunk, config, segment=64) if p.way.memory)
    assert with_memory.computed().encodings == with_memory.encodings


MINE = """
import dataclasses
from pe_jax.encodings.rotary import Rotary
from pe_jax.geometry import inverse_timescales

@dataclasses.dataclass(frozen=True)
class Mine(Rotary):
    def _frequencies(self):
        return inverse_timescales(self.dims.head, self.base) * FACTOR
"""


@pytest.mark.slow
def test_a_swap_in_a_file_is_scored_anew_once_the_file_has_changed(book, tmp_path):
    file = tmp_path / "mine.py"

    def scores_of(factor):
        file.write_text(MINE.replace("FACTOR", factor))
        asked = run_of(book, (64,), (f"{file}:Mine",), 2)
        result = execute(asked, tmp_path / "runs", verbose=False)
        assert result.sources[str(file)] == hashes.sha256_of_file(file)
        return {(str(row.way), row.length, row.replica.number): row.value for row in result.rows}

    first, second = scores_of("1.0"), scores_of("0.01")
    assert first["", 64, 0] == second["", 64, 0]
    assert first[f"{file}:Mine", 64, 0] != second[f"{file}:Mine", 64, 0]


def scores(result):
    return [dataclasses.replace(row, seconds=None) for row in result.rows]


def passes(run, workdir, stop=None):
    """(the result, how many passes it took), or KeyboardInterrupt after `stop` passes."""
    lines = []

    def act(line):
        lines.append(line)
        if len(lines) == stop:
            raise KeyboardInterrupt

    with on_line(act):
        return execute(run, workdir, verbose=False), len(lines)


def test_another_model_at_the_path_of_one_that_was_scored_is_refused(book, tmp_path):
    folder = Path(shutil.copytree(GOLDEN / "llama_tied", tmp_path / "model"))
    fields = {"lengths": (32,), "metrics": ("same_targets",), "last": 8, "targets": 8}
    run = Run.pretrained(f"hf:{folder}", f"files:{book}", fields)
    execute(run, tmp_path / "runs", verbose=False)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with pytest.raises(Refused, match="has changed since"):
        evaluate_again(tmp_path / "runs" / run.id, {"lengths": (16, 32)})


def test_a_run_that_was_cut_off_goes_on_with_the_missing_scores(asked, book, tmp_path):
    whole, count = passes(asked, tmp_path / "whole")
    assert count == 3 * (1 + 1 + 3)  # of the places, at each length: within 32 all ways share one
    with pytest.raises(KeyboardInterrupt):
        passes(asked, tmp_path / "runs", stop=10)
    (path,) = (tmp_path / "runs").glob("*/scores.jsonl")
    with path.open("a") as file:  # a line that a kill has cut off
        file.write('{"protocol": "all-64-')
    result, more = passes(asked, tmp_path / "runs")
    assert more == count - 10 and scores(result) == scores(whole)
    again, none = passes(asked, tmp_path / "runs")
    assert again.rows == result.rows and not none
    grown, more = passes(swapped := run_of(book, swaps=("pi", "window", "ntk")), tmp_path / "runs")
    assert more == 3 and set(result.rows) < set(grown.rows)  # of 64 tokens alone
    anew, _ = passes(swapped, tmp_path / "anew")
    assert scores(grown) == scores(anew)
    book.write_text(book.read_text() + "moth\n")
    with pytest.raises(Refused, match="other text .*has changed since"):
        execute(asked, tmp_path / "runs", verbose=False)


def test_a_passkey_is_hidden_at_every_depth_and_all_of_it_is_seen(model):
    for length in (300, 511):
        digits = set()
        for number in range(10):
            tokens, answer, depths = passkey(Request(model.tokenizer, length, number))
            text, (at,) = model.tokenizer.decode(tokens).decode(), {*depths}
            key = model.tokenizer.decode(tokens[answer]).decode().strip()
            digits.add(key)
            assert len(tokens) == length + 1 and at == number % 8 / 7
            assert len(key) == 5 and text.endswith(f"The pass key is {key}")
            told = f"\nThe pass key is {key}. Remember it. {key} is the pass key.\n"
            before, after = text.split(told)
            filler = before.partition("information there.\n")[2], after.partition("\nWhat is")[0]
            assert all(FILLER.decode().startswith(part[:80]) for part in filler)
            share = len(filler[0]) / len("".join(filler))
            assert share == pytest.approx(at, abs=0.02)
        assert len(digits) == 10
    with pytest.raises(ValueError, match="passkey alone have 2[0-9]+ tokens, got the length 100"):
        passkey(Request(model.tokenizer, 100, 5))


def test_a_passkey_counts_where_greedy_decoding_gives_all_of_it(model, monkeypatch):
    config = EvalConfig((300,), ("passkey",), swaps=(), last=1, samples=3, by="place").resolved(300)
    cut = windows([], "passkey", 300, config, model.tokenizer)
    tokens = cut.tokens.copy()

    @jax.jit
    def predicted(params, tokens):
        lm = nnx.merge(model.graphdef, params)
        return lm(tokens, encodings=model.members)[0].argmax(-1)

    assert {*cut.scored.sum(axis=1)} == {5}
    for at in range(-5, 0):
        tokens[:, at] = predicted(model.params, tokens)[:, at - 1]
    tokens[1, -1] += 1  # the last digit is another one
    cut.scored[1, cut.scored[1].argmax()] = False  # four tokens count
    written = dataclasses.replace(cut, tokens=tokens)
    monkeypatch.setattr("pe_jax.evaluation.evaluate.windows", lambda *_: written)
    models = Models(model.graphdef, {0: model.params}, model.members)
    rows = evaluated(models, [], config, model.tokenizer).rows
    right = [("sample 0", 100), ("sample 1", 0), ("sample 2", 100)]
    assert [(str(row.replica), row.value) for row in rows] == right
    by_seed = dataclasses.replace(config, by="seed")
    (whole,) = evaluated(models, [], by_seed, model.tokenizer).rows
    assert whole.value == pytest.approx(200 / 3)


def test_a_finished_run_is_scored_by_prompts_and_places_too(tmp_path, book):
    """The same metrics serve models that were trained here, and a run of no steps may start from
    one: its scores are those of that run.
    """
    config = {"pe": "rope", "lm": {"layers": 1, "model": 16, "heads": 2, "mlp": 16}}
    config |= {"train": {"steps": 4, "length": 256, "batch": 2}, "run": {"seeds": (3,)}}
    config |= {"data": {"source": f"files:{book}"}}
    evaluation = {"lengths": (256,), "metrics": ("same_targets", "passkey"), "swaps": ()}
    evaluation |= {"targets": 16, "last": 8, "samples": 2, "split": "all"}
    trained = execute(Run.of(config | {"eval": evaluation}), tmp_path, verbose=False)
    child = config | {"train": {"init_from": str(tmp_path / trained.id), "steps": 0, "length": 256}}
    by_place = Run.of(child | {"eval": evaluation | {"by": "place"}})
    scored = execute(by_place, tmp_path, verbose=False)
    text, keys = ([r.value for r in scored.rows if r.metric == m] for m in evaluation["metrics"])
    assert len(text) == len(keys) == 2
    assert np.mean(text) == pytest.approx(trained.rows[0].value, rel=1e-6)
    assert np.mean(keys) == trained.rows[1].value


def test_what_cannot_be_scored_is_refused(book, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MINE.replace("FACTOR", "[1.0] * 7"))
    with pytest.raises(ValueError, match="Mine.qk raised .*wrong.py, line 9"):
        run_of(book, swaps=(f"{wrong}:Mine",))
    with pytest.raises(ValueError, match="needs parameters"):
        run_of(book, swaps=("learned",))
    with pytest.raises(ValueError, match="by=place needs metrics with windows for each place"):
        run_of(book, metrics=("nonoverlapping",))
    with pytest.raises(ValueError, match="trains nothing: name by train.init_from"):
        Run.of({"pe": "rope", "train": {"steps": 0}})
    with pytest.raises(ValueError, match="train.rates are tried in training"):
        Run.of({"pe": "rope", "train": {"steps": 0, "init_from": SOURCE, "rates": (1e-3, 3e-3)}})
    with pytest.raises(Refused, match="no document .*has the 65536 tokens"):
        execute(run_of(book, (65536,), ("pi",)), tmp_path, verbose=False)
    assert not [*tmp_path.glob("*/config.json")]
