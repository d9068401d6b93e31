"""In-context Markov chains: how they are drawn, samples that end alike, and the best prediction."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_tasks import samples

from pe_jax.evaluation.baselines import baselines
from pe_jax.evaluation.config import EvalConfig
from pe_jax.task import Sample, Task
from pe_jax.tasks import section
from pe_jax.tasks.markov import Markov
from pe_jax.testing import check_task
from pe_jax.testing.tasks import drawn

METRICS = ("bits", "last_bits", "above_bayes")


def test_worked_example():
    """After 0, 0 1, 0 1 1 and 0 1 1 0; n_00, n_01, n_10, n_11 are 0 1 0 1 at the end."""
    best = Markov(symbols=2).bayes([0, 1, 1, 0])
    np.testing.assert_allclose(best[:, 0], [1 / 2, 1 / 2, 1 / 3, 1 / 3])
    np.testing.assert_allclose(best.sum(-1), 1)


def test_a_sample_is_the_end_of_every_longer_one():
    short, long = (samples(Markov(), n, longest=300) for n in (40, 300))
    for (tokens, targets, scored), (all_tokens, all_targets, _) in zip(short, long, strict=True):
        assert (tokens, targets) == (all_tokens[-40:], all_targets[-40:])
        assert all(scored) and targets[:-1] == tokens[1:]


def simulated(n, last, chains, seed=0, k=8):
    """(mean, standard error over chains) of the bits of the last targets of stationary chains of
    n + 1 tokens by (n_ij + 1) / (n_i + k): forwards and in float64, by counting token by token.
    """
    rng, bits = np.random.default_rng(seed), np.zeros(chains)
    matrix = rng.dirichlet(np.ones(k), (chains, k))
    start = np.linalg.matrix_power(matrix, 4096)[:, 0]
    sums, each = matrix.cumsum(-1), np.arange(chains)
    sums[..., -1] = 1
    token = (rng.random((chains, 1)) >= start.cumsum(-1)[:, :-1]).sum(-1)
    counts = np.ones((chains, k, k))
    for place in range(n):
        following = (rng.random((chains, 1)) >= sums[each, token]).sum(-1)
        row = counts[each, token]
        if place >= n - last:
            bits -= np.log2(row[each, following] / row.sum(-1)) / last
        counts[each, token, following] += 1
        token = following
    return bits.mean(), bits.std() / math.sqrt(chains)


def of_task(n, last, count):
    """(mean, standard error over samples) of the same by the task."""
    task, bits = Markov(), []
    batch = drawn(task, np.int32(n), n, count)
    for tokens, targets in zip(np.asarray(batch.tokens), np.asarray(batch.targets), strict=True):
        best = task.bayes(tokens)[np.arange(n), targets]
        bits.append(-np.log2(best[-last:]).mean())
    return np.mean(bits), np.std(bits) / math.sqrt(count)


def test_the_bayes_curve_is_that_of_a_simulation():
    value, error = of_task(256, 32, 1000)
    other, error_of_other = simulated(256, 32, 16_000)
    assert error < 0.01
    assert abs(value - other) < 4 * math.hypot(error, error_of_other)


@pytest.mark.slow
def test_the_bayes_curve_is_that_of_a_simulation_to_a_thousandth():
    """Of 160,000 samples, whose mean has a standard error of 0.0004 bits."""
    value, _ = of_task(64, 32, 160_000)
    assert value == pytest.approx(simulated(64, 32, 640_000)[0], abs=1e-3)


def test_chains_have_their_matrix_forwards_and_its_stationary_distribution(monkeypatch):
    matrix = np.array([[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.5, 0.3, 0.2]])
    monkeypatch.setattr(jax.random, "dirichlet", lambda *_: jnp.asarray(matrix, jnp.float32))
    chains = np.array([tokens for tokens, *_ in samples(Markov(symbols=3), 50, 400)])
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (chains[:, :-1], chains[:, 1:]), 1)
    np.testing.assert_allclose(pairs / pairs.sum(-1, keepdims=True), matrix, atol=0.02)
    stationary = np.linalg.matrix_power(matrix, 100)[0]
    first = np.bincount(chains[:, 0], minlength=3) / 400
    np.testing.assert_allclose(first, stationary, atol=0.08)


def test_bayes_is_a_baseline_at_every_length_on_the_same_targets():
    task = Markov()
    config = EvalConfig(metrics=METRICS, samples=64, last=32)
    values = {
        (one.name, one.metric, n): one.value
        for n in (32, 64, 128)
        for one in baselines(task, n, config)
    }
    assert {name for name, *_ in values} == {"bayes"}
    assert [values["bayes", "above_bayes", n] for n in (32, 64, 128)] == [0, 0, 0]
    assert values["bayes", "bits", 32] == values["bayes", "last_bits", 32]
    assert 3 > values["bayes", "last_bits", 32] > values["bayes", "last_bits", 64]
    assert values["bayes", "last_bits", 64] > values["bayes", "last_bits", 128]


@dataclasses.dataclass(frozen=True)
class Sure(Markov):
    """Its prediction is sharper than the chain."""

    def bayes(self, tokens):
        best = super().bayes(tokens) ** 3
        return best / best.sum(-1, keepdims=True)


@dataclasses.dataclass(frozen=True)
class Unnormalised(Markov):
    def bayes(self, tokens):
        return 2 * super().bayes(tokens)


@dataclasses.dataclass(frozen=True)
class Copies(Task):
    """The first of n bits again, which is another one in one sample of 1,000."""

    def vocab(self):
        return 2

    def sample(self, key, n, longest):
        bits, rare = jax.random.split(key)
        tokens = jax.random.randint(bits, (longest,), 0, 2)
        last = jnp.arange(longest) == n - 1
        copied = tokens[0] ^ jax.random.bernoulli(rare, 0.001).astype(jnp.int32)
        return Sample(tokens, jnp.where(last, copied, 0), last)

    def bayes(self, tokens):
        p = np.full((len(tokens), 2), 0.001)
        p[:, tokens[0]] = 0.999
        return p


def test_a_rare_target_among_few_is_no_error():
    """One of ten at length 28 is rare there."""
    check_task(Copies(), (1, 28), 10)


@pytest.mark.parametrize(
    ("task", "said"),
    [(Sure(), "not drawn from p"), (Unnormalised(), "must be a distribution")],
    ids=lambda part: type(part).__name__,
)
def test_a_wrong_prediction_is_refused(task, said):
    with pytest.raises(ValueError, match=said):
        check_task(task, (100,), 20)


# Chains with hidden tokens


MASKED = Markov(symbols=3, masked=True, rate=0.0)


def test_the_worked_example_of_a_hidden_token():
    p = MASKED.bayes([0, 1, 1, 3, 1])[3]
    np.testing.assert_allclose(p, np.array([1 / 8, 3 / 10, 1 / 12, 0]) * 120 / 61)


@pytest.mark.parametrize(
    "tokens",
    [
        [0, 1, 1, 2, 0, 0, 1, 3, 1, 2, 2, 0, 1, 1],
        [2, 2, 2, 1, 2, 2, 0, 3, 2, 2, 1, 2, 2, 2],
        [0, 1, 2, 0, 1, 2, 0, 3, 2, 0, 1, 2, 0, 1],
        [1, 3, 2],
    ],
)
def test_the_prediction_of_a_hidden_token_is_the_posterior_over_drawn_matrices(tokens):
    """400,000 matrices, each weighed by the probability of the visible transitions."""
    matrix = np.random.default_rng(0).dirichlet(np.ones(3), (400_000, 3))
    at = tokens.index(3)
    pairs = [(a, b) for a, b in itertools.pairwise(tokens) if 3 not in (a, b)]
    weight = math.prod((matrix[:, a, b] for a, b in pairs), start=np.ones(len(matrix)))
    joint = weight[:, None] * matrix[:, tokens[at - 1]] * matrix[:, :, tokens[at + 1]]
    p = joint.sum(0) / joint.sum()
    error = np.sqrt(((joint - p * joint.sum(1, keepdims=True)) ** 2).sum(0)) / joint.sum()
    assert error.max() < 0.01
    np.testing.assert_array_less(np.abs(MASKED.bayes(tokens)[at, :3] - p), 4.5 * error)


def hidden_bits(n, count):
    """Bits of the hidden token by the best prediction, and by others: a sharper one, a flatter one,
    one that cannot tell left from right, and the frequencies of the symbols; [methods, count].
    """
    task = Markov(masked=True, rate=0.0)
    batch, k, bits = drawn(task, np.int32(n), n, count), 8, []
    for tokens, targets in zip(np.asarray(batch.tokens), np.asarray(batch.targets), strict=True):
        at = n // 2
        best = task.bayes(tokens)[at, :k]
        pairs, left, right = np.ones((k + 1, k + 1)), tokens[:-1], tokens[1:]
        np.add.at(pairs, (np.concatenate([left, right]), np.concatenate([right, left])), 1)
        pairs = pairs[:k, :k]
        rows = pairs / pairs.sum(1)
        unoriented = rows[tokens[at - 1]] * rows[:, tokens[at + 1]]
        bag = np.bincount(tokens, minlength=k + 1)[:k] + 1.0
        methods = best, best**1.3, best**0.8, unoriented, bag
        bits.append([-math.log2(p[targets[at]] / p.sum()) for p in methods])
    return np.array(bits).T


@pytest.mark.parametrize(("n", "expected", "count"), [(64, 2.556, 4000), (1024, 2.129, 2000)])
def test_the_bits_of_a_hidden_token_are_those_of_the_table_and_nothing_is_below(n, expected, count):
    """The table has a standard error of 0.02, and these samples one of 0.017 and 0.03."""
    best, *others = hidden_bits(n, count)
    error = best.std() / math.sqrt(count)
    assert best.mean() == pytest.approx(expected, abs=3 * math.hypot(error, 0.02))
    for other in others:
        assert (other - best).mean() > 3 * (other - best).std() / math.sqrt(count)


def test_around_the_hidden_token_samples_grow_on_both_sides():
    task, lengths = Markov(masked=True, rate=0.0), (3, 40, 41, 300)
    short = [samples(task, n, longest=300) for n in lengths]
    for one in zip(*short, strict=True):
        whole, targets, scored = one[-1]
        for n, (tokens, own, at) in zip(lengths, one, strict=True):
            first = 150 - n // 2
            assert tokens == whole[first : first + n] and own == targets[first : first + n]
            assert np.flatnonzero(at).tolist() == [n // 2] and tokens[n // 2] == 8
    assert np.flatnonzero(scored).tolist() == [150]


def test_in_training_tokens_apart_are_hidden():
    task = Markov(masked=True, rate=0.2)
    counts = []
    for tokens, targets, scored in samples(task, 60, 2000, longest=64):
        hidden = np.array(tokens) == 8
        assert hidden.any() and not hidden[0] and not hidden[-1]
        assert not (hidden[1:] & hidden[:-1]).any() and (hidden == scored).all()
        assert (np.where(hidden, targets, tokens) == targets).all()
        counts.append(hidden.sum())
    # Of U(0, 0.4) each token is hidden by a draw of its own, but behind another.
    assert np.mean(counts) == pytest.approx(60 * (0.2 - 0.4**2 / 3), rel=0.05)
    assert min(counts) <= 2 and max(counts) >= 18
    assert task.scored_form() == dataclasses.replace(task, rate=0.0)
    assert not task.causal and Markov().scored_form() == Markov()


def test_chains_with_hidden_tokens_have_their_matrix_on_both_sides(monkeypatch):
    matrix = np.array([[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.5, 0.3, 0.2]])
    monkeypatch.setattr(jax.random, "dirichlet", lambda *_: jnp.asarray(matrix, jnp.float32))
    chains = np.array([targets for _, targets, _ in samples(MASKED, 50, 800)])
    for side in (chains[:, :26], chains[:, 25:]):
        pairs = np.zeros((3, 3))
        np.add.at(pairs, (side[:, :-1], side[:, 1:]), 1)
        np.testing.assert_allclose(pairs / pairs.sum(-1, keepdims=True), matrix, atol=0.02)


def test_the_identity_of_chains_that_hide_nothing_stays():
    assert section.identity({"name": "markov"}) == {"name": "markov", "symbols": 8}
    hidden = section.identity({"name": "markov", "masked": True})
    assert hidden == {"name": "markov", "symbols": 8, "masked": True}
