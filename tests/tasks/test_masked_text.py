"""Masked text in training: which tokens are hidden, how they are read, and what the loss counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pe_jax.tasks.masked_text import MaskedText

VOCAB, LENGTH = 40, 64
MASK = VOCAB - 1


def samples(count=4000, length=LENGTH, **fields):
    """(tokens, targets, scored), each [count, length], of windows of random tokens below MASK."""
    windows = np.random.default_rng(0).integers(0, MASK, (count, length + 1))
    task, keys = MaskedText(**fields), jax.random.split(jax.random.key(1), count)
    drawn = jax.vmap(lambda window, key: task.cut(window, key, VOCAB))(jnp.asarray(windows), keys)
    tokens, targets, scored = map(np.asarray, drawn)
    np.testing.assert_array_equal(targets, windows[:, 1:])
    return tokens, targets, scored


def test_a_share_of_the_tokens_is_hidden_and_scored():
    tokens, targets, scored = samples(rate=0.3)
    np.testing.assert_array_equal(tokens, np.where(scored, MASK, targets))
    assert scored.mean() == pytest.approx(0.3, abs=0.005)
    # One by one: the number of hidden tokens of a window is binomial, and so are pairs.
    assert scored.sum(1).var() == pytest.approx(LENGTH * 0.3 * 0.7, rel=0.1)
    assert (scored[:, 1:] & scored[:, :-1]).mean() == pytest.approx(0.09, abs=0.005)


@pytest.mark.parametrize(("rate", "hidden"), [(1.0, LENGTH), (1e-9, 1)])
def test_at_the_ends_all_tokens_are_hidden_or_a_single_one(rate, hidden):
    tokens, _, scored = samples(50, rate=rate)
    assert (scored.sum(1) == hidden).all() and ((tokens == MASK) == scored).all()


def test_a_share_of_the_hidden_tokens_is_read_as_another_or_as_it_is():
    tokens, targets, scored = samples(rate=0.15, replaced=0.1, kept=0.2)
    read = {"mask": tokens == MASK, "same": tokens == targets}
    assert (read["same"] | scored).all() and scored.mean() == pytest.approx(0.15, abs=0.005)
    assert read["mask"][scored].mean() == pytest.approx(0.7, abs=0.01)
    # One in MASK of the replaced ones is by chance the token itself.
    assert read["same"][scored].mean() == pytest.approx(0.2 + 0.1 / MASK, abs=0.01)
    others = tokens[scored & ~read["mask"] & ~read["same"]]
    assert len(np.unique(others)) == MASK


def test_rates_are_uniform_and_weights_make_the_loss_the_bound():
    tokens, _, weights = samples(20_000, length=16, rate="uniform")
    hidden = weights > 0
    np.testing.assert_array_equal(tokens == MASK, hidden)
    rates = np.array([1 / w[w > 0][0] for w in weights if w.any()])
    assert ((weights == 0) | (np.abs(weights * rates_of(weights)[:, None] - 1) < 1e-5)).all()
    assert 0 < rates.min() and rates.max() <= 1
    # The number of hidden tokens of a window is uniform on 0 .. n, as of U(0, 1] it must be.
    counts = np.bincount(hidden.sum(1), minlength=17) / len(hidden)
    np.testing.assert_allclose(counts, 1 / 17, atol=0.01)
    # Each token weighs 1 on average: the weights have a heavy tail, since E[w^2] is infinite.
    assert np.median([part.mean() for part in np.split(weights, 20)]) == pytest.approx(1, abs=0.1)


def rates_of(weights):
    return 1 / np.maximum(weights.max(1), 1)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rate": 0.0}, "above 0 and at most 1 or one of 'uniform', got 0.0"),
        ({"rate": 1.01}, "got 1.01"),
        ({"replaced": 0.6, "kept": 0.5}, "at most 1, got 1.1"),
        ({"rate": "uniform", "kept": 0.1}, "must be 0 with rate='uniform', .* got 0.1"),
    ],
)
def test_invalid_shares_raise(fields, said):
    with pytest.raises(ValueError, match=said):
        MaskedText(**fields)


def test_the_model_is_no_decoder_whatever_it_is_told():
    assert not MaskedText(causal=True).causal
