"""Scores that compare with the model as it is within its training length: KL and LongPPL."""

import dataclasses
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from evaluated import evaluated
from flax import nnx

from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.longppl import Short, key_tokens
from pe_jax.evaluation.passes import Scored, work
from pe_jax.evaluation.scoring import Missing, Models, Programs, target_nats
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.metrics import METRICS
from pe_jax.model.lm import LM
from pe_jax.pretrained.load import load
from pe_jax.record import Reason, Replica
from pe_jax.specs.swap import swap
from pe_jax.storage.jsonl import History
from pe_jax.training.session import Session

GOLDEN = Path(__file__).parents[1] / "golden"
LAST = 12


@pytest.fixture(scope="module")
def model():
    return load(f"hf:{GOLDEN / 'pretrained' / 'llama_tied'}")


@pytest.fixture(scope="module")
def documents(model):
    rng = np.random.default_rng(0)
    return [rng.integers(257, size=size).astype(np.int32) for size in (70, 90)]


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def config_of(metrics, by="place", lengths=(16, 64), **fields):
    asked = {"swaps": ("pi",), "targets": 3 * LAST, "last": LAST, "batch_tokens": 1, "split": "all"}
    return EvalConfig(lengths, metrics, by=by, **asked | fields).resolved(32)


def values(model, documents, config, session=None, known=()):
    models = Models(model.graphdef, {0: model.params}, model.members, segment=32)
    rows = evaluated(models, documents, config, model.tokenizer, session=session, known=known).rows
    return {(r.metric, str(r.way), r.length, r.replica.number): r for r in rows}


def test_scores_that_compare_with_nothing_stay_where_the_reference_is_missing(
    model, documents, monkeypatch
):
    missing, text = Missing(Reason.OUT_OF_MEMORY), Programs.text

    def without_rows(self, *args, **options):
        return missing if options.get("measure", 0) is None else text(self, *args, **options)

    monkeypatch.setattr(Programs, "text", without_rows)
    rows = values(model, documents, config_of(("same_targets", "kl", "changed"), lengths=(16,)))
    for (metric, *_), row in rows.items():
        assert (row.value is None) == (metric != "same_targets") == (row.reason == missing.reason)


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"))
def predicted(params, tokens, *, graphdef, encodings):
    return nnx.merge(graphdef, params)(tokens, encodings=encodings)[0]


def nats_of(model, tokens, spec, last, length):
    """(ln p [last, V], -ln p of the targets) of the last tokens, by encodings for a length."""
    members = swap(model.members, spec) if spec else model.members
    made = tuple(e.at(length) for e in members)
    inputs = jnp.asarray(tokens[None, :-1])
    logits = predicted(model.params, inputs, graphdef=model.graphdef, encodings=made)
    log_p = log_softmax(np.asarray(logits)[0, -last:])
    return log_p, -log_p[np.arange(last), tokens[-last:]]


def test_the_divergence_is_from_the_model_as_it_is_within_its_training_length(
    model, documents, monkeypatch
):
    """Its rows are those that the others diverge from, and are computed once for both scores."""
    passed = []
    whole = LM.__call__

    def counted(self, tokens, *args, **kwargs):
        passed.append(tokens.shape[1])
        return whole(self, tokens, *args, **kwargs)

    target_nats.clear_cache()
    config = config_of(("same_targets", "kl", "changed"))
    with monkeypatch.context() as patch:
        patch.setattr(LM, "__call__", counted)
        rows = values(model, documents, config)
    assert sorted(passed) == [16, 32, 64, 64]  # within 32 tokens pi is the model itself
    assert len(rows) == 3 * 2 * 3 * 3 and config.lengths == (16, 32, 64)
    for place in range(3):
        p, _ = nats_of(model, windows(documents, "kl", 32, config).tokens[place][:-1], "", LAST, 32)
        for spec, length in (("", 16), ("", 32), ("", 64), ("pi", 64)):
            tokens = windows(documents, "kl", length, config).tokens[place][:-1]
            q, nats = nats_of(model, tokens, spec, LAST, length)
            wanted = (np.exp(p) * (p - q)).sum(-1).mean()
            row = rows["kl", spec, length, place]
            assert row.value == pytest.approx(wanted, rel=1e-3, abs=1e-6)
            changed = 100 * (p.argmax(-1) != q.argmax(-1)).mean()
            assert rows["changed", spec, length, place].value == pytest.approx(changed)
            bits = rows["same_targets", spec, length, place].value
            size = model.tokenizer.sizes[tokens[-LAST:]].sum()
            assert bits == pytest.approx(nats.sum() / size / np.log(2), rel=1e-5)
        assert rows["kl", "", 32, place].value == 0
        assert rows["kl", "", 64, place].value > 1e-4 and rows["kl", "pi", 64, place].value > 1e-6
    assert METRICS["kl"].better == "lower"


@pytest.mark.parametrize("by", ["place", "seed"])
def test_the_work_that_progress_counts_is_that_of_the_windows_that_are_computed(
    model, documents, monkeypatch, by
):
    lines, computed, text = [], [], Programs.text

    def counted(self, cut, *args, same=False, **options):
        computed.append(0 if same else len(cut.tokens) * work(cut.length, 16))
        return text(self, cut, *args, **options | ({"same": True} if same else {}))

    monkeypatch.setattr(Programs, "text", counted)
    config = config_of(("same_targets", "kl", "longppl", "context_gain"), by)
    values(model, documents, config, Session(History(None, lines.append)))
    assert lines[-1]["of"] == lines[-1]["evaluated"] == sum(computed)
    assert len({line["evaluated"] for line in lines}) == len(lines)


def test_metrics_of_the_same_windows_share_a_pass(model, documents):
    config = config_of(("same_targets", "kl", "longppl"), by="seed")
    together = values(model, documents, config)
    known = [Scored(row, None) for row in together.values() if row.metric == "kl" and not row.way]
    rest = values(model, documents, config, known=known)
    assert len(rest) == len(together) - len(known)
    for key, row in rest.items():
        assert row.reason is together[key].reason
        assert row.value is None or row.value == pytest.approx(together[key].value, rel=1e-5)


@pytest.mark.parametrize("metric", ["kl", "longppl"])
def test_a_metric_of_other_windows_has_a_reference_of_its_own(
    model, documents, monkeypatch, metric
):
    """Whose rows and key tokens are kept apart from those of the metrics beside it."""
    monkeypatch.setattr("pe_jax.evaluation.longppl.GAIN", 0.05)
    monkeypatch.setattr("pe_jax.evaluation.longppl.FULL", 9.0)

    def later(sizes, E, scope):
        for place in METRICS[metric].places(sizes, E, scope):
            yield place._replace(start=place.start + 1)

    monkeypatch.setitem(METRICS, "mine", dataclasses.replace(METRICS[metric], places=later))
    together, alone = (
        values(model, documents, config_of(names, by="seed", lengths=(64,)))
        for names in ((metric, "mine"), ("mine",))
    )
    for key, row in alone.items():
        assert together[key].value == pytest.approx(row.value, rel=1e-5), key
        if key[1:3] == ("pi", 64):
            assert 0 < row.value != together[metric, *key[1:]].value


def test_one_program_serves_the_windows_of_all_places():
    tokens, sizes = np.zeros((2, 9), np.int32), np.ones((2, 8), np.int64)
    rows = np.arange(8) - np.array([[2], [5]])
    whole = Windows(METRICS["kl"], 8, tokens, sizes, (rows == 0) | (rows == 1))
    assert [whole.of(Replica("place", n)).last for n in (0, 1)] == [whole.last] * 2 == [6, 6]
    values = np.arange(12.0).reshape(2, 6)
    for n in (0, 1):
        assert whole.of(Replica("place", n)).scored.sum() == 2
        part = dataclasses.replace(whole.of(Replica("place", n)), metric=METRICS["same_targets"])
        wanted = values[n][part.scored[0, -6:]].sum() / 2 / np.log(2)
        assert part.value(values[n : n + 1]) == pytest.approx(wanted)


def test_longppl_is_that_of_its_authors_package_for_fixed_logits():
    """tests/golden/make_longppl.py has run it."""
    golden = np.load(GOLDEN / "longppl.npz")
    tokens, targets = golden["tokens"], golden["tokens"][1:]
    size, short = len(tokens) - 1, Short(16, 4)
    whole = Windows(
        METRICS["longppl"], size, tokens[None], np.ones((1, size)), np.ones((1, size), bool)
    )
    pieces = short.windows(whole)
    little = []
    for window, logits in zip(pieces.tokens, golden["short"], strict=True):
        nats = -log_softmax(logits)[np.arange(len(window) - 1), window[1:]]
        little.append(nats[-pieces.last :])
    full, scored = (
        -log_softmax(golden[name])[np.arange(size), targets] for name in ("full", "scored")
    )
    keys = key_tokens(full[None], short.spread(whole, np.array(little)))
    assert keys.sum() == golden["keys"] > 3
    value = METRICS["longppl"].value(scored[keys[0]], np.ones(keys.sum()))
    assert value == pytest.approx(float(golden["longppl"]), rel=1e-6)


def test_keys_are_those_of_the_model_itself_and_score_every_way(model, documents, monkeypatch):
    """With bounds that a random model has key tokens for."""
    monkeypatch.setattr("pe_jax.evaluation.longppl.GAIN", 0.05)
    monkeypatch.setattr("pe_jax.evaluation.longppl.FULL", 9.0)
    config = config_of(("longppl",), lengths=(64,))
    rows = values(model, documents, config)
    for place in range(3):
        whole = windows(documents, "longppl", 32, config).of(Replica("place", place))
        tokens = whole.tokens[0]
        _, full = nats_of(model, tokens[:-1], "", LAST, 32)
        keys = []
        for i, target in enumerate(range(32 - LAST, 32)):
            first = target - i % 2 - 8  # two targets share a context that begins 8 tokens before
            _, little = nats_of(model, tokens[first : target + 1], "", 1, 32)
            keys.append(little[0] - full[i] > 0.05 and full[i] < 9)
        assert any(keys) and not all(keys)
        longer = windows(documents, "longppl", 64, config).tokens[place][:-1]
        _, nats = nats_of(model, longer, "pi", LAST, 64)
        wanted = np.exp(nats[keys].mean())
        assert rows["longppl", "pi", 64, place].value == pytest.approx(wanted, rel=1e-4)


def test_the_gain_of_context_is_by_the_same_encodings_in_short_windows(model, documents):
    """At 64 tokens targets see 16 to 19 of them; windows of 2 in both layers gain nothing."""
    config = config_of(("same_targets", "context_gain"), swaps=("pi", "window(window=2)"))
    rows = values(model, documents, config)
    whole = windows(documents, "context_gain", 64, config)
    for place in range(3):
        tokens = whole.tokens[place][:-1]
        for spec in ("", "pi(factor=2.0)"):
            _, full = nats_of(model, tokens, spec, LAST, 64)
            gains = []
            for first in range(len(tokens) - LAST, len(tokens), 4):
                part = tokens[first - 16 : first + 4]
                _, near = nats_of(model, part, spec, len(part) - 16, 64)
                gains += [*near]
            wanted = (np.array(gains) - full).mean()
            found = rows["context_gain", spec.partition("(")[0], 64, place].value
            assert found == pytest.approx(wanted, abs=1e-5)
        assert abs(rows["context_gain", "window(window=2)", 64, place].value) < 1e-5
    assert METRICS["context_gain"].better == "higher"


def test_a_text_without_key_tokens_has_no_longppl_and_says_so(model, documents):
    rows = values(model, documents, config_of(("longppl",), lengths=(64,)))
    assert {row.reason for row in rows.values()} == {Reason.NO_KEYS}
    assert "no key token" in next(iter(rows.values())).why


def test_no_length_within_the_training_length_brings_another(model, documents):
    rows = values(model, documents, config_of(("same_targets", "kl"), lengths=(16, 24)))
    assert {length for _, _, length, _ in rows} == {16, 24}
    assert rows["kl", "", 24, 0].value > 1e-6  # it is compared with the window of 32 all the same


def test_the_reference_may_be_longer_than_training_was(model, documents):
    """As if trained at 32: what is compared with is the model at 64, as it really is."""
    rows = values(model, documents, config_of(("kl",), lengths=(64,), reference=64))
    assert rows["kl", "", 64, 0].value < 1e-6 < rows["kl", "", 32, 0].value
    with pytest.raises(ValueError, match="eval.last must be below eval.reference, 8"):
        config_of(("kl",), reference=8)
    with pytest.raises(ValueError, match="have no segments"):
        config_of(("kl",), by="seed", memory=(8,))
    assert dataclasses.replace(config_of(("kl",)), reference=64).scope.longest == 64
