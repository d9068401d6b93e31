"""Scores of masked text: what is hidden, scored and seen, and values by loops over documents."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from evaluated import evaluated
from flax import nnx
from helpers import perturbed

from pe_jax.data.tokenizer import Tokenizer
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.scoring import Models
from pe_jax.evaluation.windows import windows
from pe_jax.metric import DRAWS
from pe_jax.metrics import METRICS
from pe_jax.model.config import LmConfig
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap
from pe_jax.tasks.markov import Markov
from pe_jax.tasks.masked_text import MaskedText
from pe_jax.tasks.text import TEXT
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, structure

MASKED = tuple(name for name, metric in METRICS.items() if getattr(metric, "masks", ""))
PIECES = Tokenizer("sized", tuple(b"a" * (1 + number % 3) for number in range(30)))
MASK, TRAIN, LAST = 30, 8, 6
LM = LmConfig(vocab=MASK + 1, layers=2, model=16, heads=2, causal=False)
TASK = MaskedText(rate=0.4)


def documents(*sizes):
    return [np.random.default_rng(size).integers(0, MASK, size) for size in sizes]


def configured(metrics=MASKED, task=TASK, **fields):
    asked = {"lengths": (8, 9, 32), "swaps": (), "targets": 10 * LAST, "last": LAST}
    return EvalConfig(**{"metrics": metrics, **asked, **fields}).resolved(TRAIN, task=task)


def placed(cut, texts):
    """(document, place of its token 0, the tokens as they are, which are hidden) of each window."""
    for row in cut.tokens:
        hidden, whole = row[1:] < 0, np.where(row < 0, ~row, row)[1:]
        found = [
            (d, start)
            for d, text in enumerate(texts)
            for start in range(len(text) - len(whole) + 1)
            if (text[start : start + len(whole)] == whole).all()
        ]
        assert len(found) == 1
        yield *found[0], whole, hidden


@pytest.mark.parametrize("metric", MASKED)
def test_the_same_tokens_are_hidden_and_scored_at_every_length(metric):
    """Around each place the window grows by as many tokens on both sides, but for an odd one."""
    texts, config = documents(100, 31, 200, 33), configured()
    seen = {}
    for E in config.lengths:
        cut = windows(texts, metric, E, config, PIECES)
        rows = zip(placed(cut, texts), cut.scored, strict=True)
        seen[E] = [
            (d, start, hidden, np.flatnonzero(scored)) for (d, start, _, hidden), scored in rows
        ]
    short, *others = seen.values()
    assert any(len(scored) for *_, scored in short)
    for E, longer in zip(config.lengths[1:], others, strict=True):
        more = E // 2 - TRAIN // 2
        for (d, start, hidden, scored), (d2, start2, hidden2, scored2) in zip(
            short, longer, strict=True
        ):
            assert (d2, start2) == (d, start - more)
            np.testing.assert_array_equal(hidden2[more : more + TRAIN], hidden)
            np.testing.assert_array_equal(scored2, scored + more)
            assert metric == "pseudo_perplexity" or E < 32 or hidden2.sum() >= hidden.sum()


def test_what_is_hidden_depends_on_the_place_in_the_text_alone():
    """Other targets, lengths and training lengths move the windows, not the hidden tokens."""
    texts, known = documents(300, 150), {}
    for fields in ({}, {"targets": 60, "last": 4}, {"lengths": (16, 64)}):
        config = configured(**fields)
        for E in config.lengths:
            cut = windows(texts, "masked_tokens", E, config, PIECES)
            for d, start, _, hidden in placed(cut, texts):
                for place, one in enumerate(hidden.tolist(), start):
                    assert known.setdefault((d, place), one) == one
    assert np.mean([*known.values()]) == pytest.approx(0.4, abs=0.08)


def test_the_middle_is_scored_where_it_is_hidden():
    texts, config = documents(100, 80), configured()
    plain, bound, alone = (
        windows(texts, name, 32, config, PIECES)
        for name in ("masked_tokens", "diffusion_bound", "pseudo_perplexity")
    )
    middle = (np.arange(32) >= 13) & (np.arange(32) < 19)
    np.testing.assert_array_equal(plain.scored, middle & (plain.tokens[:, 1:] < 0))
    assert len(plain.tokens) == 10 and len(bound.tokens) == DRAWS * 10 and len(alone.tokens) == 60
    assert (bound.scored == middle).all() and bound.targets == 60
    np.testing.assert_array_equal(alone.scored, alone.tokens[:, 1:] < 0)
    assert (alone.scored.sum(1) == 1).all() and (alone.scored.sum(0) == 10 * middle).all()
    # One rate from each of DRAWS equal parts of (0, 1], and weights of its inverse, 1 in the mean.
    np.testing.assert_array_equal(bound.weights > 0, bound.tokens[:, 1:] < 0)
    sizes = [len(text) for text in texts]
    rates = np.array([p.rate for p in bound.metric.windows(sizes, 32, config.scope)])
    assert (np.ceil(rates * DRAWS).reshape(10, DRAWS) == np.arange(1, DRAWS + 1)).all()
    assert np.ptp((bound.weights * rates[:, None])[bound.weights > 0]) < 1e-9
    assert bound.value(np.full((len(rates), 32), np.log(2))) == pytest.approx(60 / bound.bytes)


def model(spec, **fields):
    """(graphdef, parameters of seed 0 with noise, encodings)"""
    lm = dataclasses.replace(LM, **fields)
    members = make(spec, lm.dims(TRAIN))
    state = init(lm, members, TrainConfig(length=TRAIN, batch=1), (0,))
    params = jax.tree.map(lambda a: a[0], state["params"])
    return structure(lm, members)[0], perturbed(params), members


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"))
def log_p(params, tokens, *, graphdef, encodings):
    logits = nnx.merge(graphdef, params)(tokens[None], encodings=encodings)[0][0]
    return jax.nn.log_softmax(logits[:, :MASK])


def wanted(metric, texts, made, E, config, spec=""):
    """The value of a metric, token by token."""
    graphdef, params, members = made
    encodings = tuple(e.at(E) for e in (swap(members, spec) if spec else members))
    cut, nats, sizes, right = windows(texts, metric, E, config, PIECES), [], [], []
    for (_, _, whole, hidden), scored, row in zip(
        placed(cut, texts), cut.scored, range(len(cut.tokens)), strict=True
    ):
        read = jnp.asarray(np.where(hidden, MASK, whole))
        p = np.asarray(log_p(params, read, graphdef=graphdef, encodings=encodings), np.float64)
        for place in np.flatnonzero(scored):
            weight = 1.0 if cut.weights is None else cut.weights[row, place]
            nats.append(-p[place, whole[place]] * weight)
            sizes.append(1 + whole[place] % 3)
            right.append(p[place].argmax() == whole[place])
    if metric == "first_choices":
        return 100 * np.mean(right)
    if metric == "pseudo_perplexity":
        return math.exp(np.mean(nats))
    return sum(nats) / sum(sizes) / math.log(2)


@pytest.mark.parametrize(
    ("spec", "swapped"), [("rope", "ntk"), ("learned", "hierarchical"), ("t5", "window")]
)
def test_values_are_those_of_a_loop_over_the_tokens(spec, swapped):
    texts, config = documents(100, 80), configured(swaps=(swapped,), lengths=(8, 32))
    made = model(spec)
    models = Models(made[0], {0: made[1]}, made[2], {}, TRAIN, TASK)
    rows = evaluated(models, texts, config, PIECES).rows
    assert len(rows) == 2 * 2 * len(MASKED)
    for row in rows:
        if row.reason:
            assert (spec, str(row.way), row.length) == ("learned", "", 32)
        else:
            expected = wanted(row.metric, texts, made, row.length, config, row.way.swap)
            assert row.value == pytest.approx(expected, rel=1e-5), row


def test_at_a_rate_of_one_no_text_is_seen():
    """Without positions every token is predicted by one distribution, whatever the length."""
    texts, config = documents(100, 80), configured(("masked_tokens",), rate=1.0)
    made = model("nope")
    (p,) = {
        tuple(np.round(row, 4))
        for row in np.asarray(
            log_p(made[1], jnp.full(5, MASK), graphdef=made[0], encodings=made[2]), np.float64
        )
    }
    models = Models(made[0], {0: made[1]}, made[2], {}, TRAIN, TASK)
    cut = windows(texts, "masked_tokens", 8, config, PIECES)
    assert (cut.tokens[:, 1:] < 0).all()
    targets = ~cut.tokens[:, 1:][cut.scored]
    expected = -np.array(p)[targets].sum() / (1 + targets % 3).sum() / math.log(2)
    for row in evaluated(models, texts, config, PIECES).rows:
        assert row.value == pytest.approx(expected, rel=1e-3)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(
        ValueError, match="same_targets does not go with MaskedText, .* use masked_t"
    ):
        configured(("same_targets",))
    with pytest.raises(ValueError, match="passkey does not go with MaskedText, which hides tokens"):
        configured(("passkey",))
    with pytest.raises(
        ValueError, match=r"masked_tokens does not go with Text, .* use same_targets"
    ):
        configured(task=TEXT)
    with pytest.raises(ValueError, match=r"eval.rate is of masked text"):
        EvalConfig((8,), rate=0.5).resolved(8, task=Markov(masked=True))
    with pytest.raises(ValueError, match=r"eval.rate is of masked text"):
        configured(("same_targets",), TEXT, rate=0.5)
    with pytest.raises(ValueError, match="segment memories are for decoders"):
        configured(memory=(8,))
    with pytest.raises(ValueError, match="raise eval.rate, eval.last or eval.targets"):
        windows(documents(100), "masked_tokens", 8, configured(rate=1e-6), PIECES)
