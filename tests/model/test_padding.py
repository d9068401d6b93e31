"""Padded sequences: what lies beyond their tokens changes nothing before it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from helpers import assert_near, covering, perturbed

from pe_jax.attention.bound import Bound
from pe_jax.encodings import ENCODINGS
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM
from pe_jax.specs.parse import make

TINY = LmConfig(vocab=32, layers=1, model=16, heads=2, attention="dense")
SIZE, PADDED = 21, 34
KEY = jax.random.key(3)


def encodings(spec, causal=False):
    return make(spec, dataclasses.replace(TINY, causal=causal).dims(PADDED))


def served(spec):
    """Whether a model that is not causal may have it."""
    try:
        encodings(spec)
    except ValueError:
        return False
    return True


@functools.partial(jax.jit, static_argnames=("graphdef", "padded"))
def logits(graphdef, params, tokens, size, padded):
    model = nnx.merge(graphdef, params, copy=True)
    return model(tokens, key=KEY, size=size if padded else None)[0]


def built(members, config):
    lm = LM(config, members, rngs=nnx.Rngs(params=0, encodings=1))
    graphdef, params = nnx.split(lm, nnx.Param)
    return graphdef, perturbed(params, seed=2)


def tokens(padding):
    rng = np.random.default_rng(0)
    real = rng.integers(0, TINY.vocab, (2, SIZE))
    rest = np.random.default_rng(padding).integers(0, TINY.vocab, (2, PADDED - SIZE))
    return jnp.asarray(np.concatenate([real, rest], axis=1), jnp.int32)


@pytest.mark.parametrize("form", ["dense", pytest.param("blockwise", marks=pytest.mark.slow)])
@pytest.mark.parametrize("spec", covering([s for s in ENCODINGS if served(s)], encodings))
def test_padding_of_a_bidirectional_model_changes_nothing(spec, form):
    config = dataclasses.replace(TINY, causal=False, attention=form)
    graphdef, params = built(encodings(spec), config)
    whole = logits(graphdef, params, tokens(1)[:, :SIZE], SIZE, False)
    padded = logits(graphdef, params, tokens(1), jnp.int32(SIZE), True)[:, :SIZE]
    np.testing.assert_allclose(padded, whole, rtol=2e-4, atol=2e-4)
    other = logits(graphdef, params, tokens(2), jnp.int32(SIZE), True)[:, :SIZE]
    np.testing.assert_array_equal(padded, other)


def test_positions_of_a_padded_sequence_are_those_of_its_tokens():
    graphdef, params = built(encodings("randomized+rope", causal=True), TINY)
    whole = logits(graphdef, params, tokens(1)[:, :SIZE], SIZE, False)
    padded = logits(graphdef, params, tokens(1), jnp.int32(SIZE), True)[:, :SIZE]
    np.testing.assert_allclose(padded, whole, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    "spec", ["rope", "learned+conv", "randomized(max=40)+learned(length=40)", "shape+sinusoidal"]
)
def test_gradients_do_not_see_padding(spec):
    config = dataclasses.replace(TINY, causal=False)
    graphdef, params = built(encodings(spec), config)

    @jax.grad
    def gradient(params, tokens):
        out = logits(graphdef, params, tokens, jnp.int32(SIZE), True)
        return (out[:, :SIZE] ** 2).sum()

    for one, other in zip(
        jax.tree.leaves(gradient(params, tokens(1))),
        jax.tree.leaves(gradient(params, tokens(2))),
        strict=True,
    ):
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_vectors_of_random_positions_are_looked_up_and_nothing_changes(causal, monkeypatch):
    members = encodings("randomized(max=60)+transformer_xl", causal)
    made = built(members, dataclasses.replace(TINY, causal=causal))
    arguments = *made, tokens(1), SIZE
    used, tabulated = [], Bound.tabulated

    def watched(pe, *numbers):
        used.append(tabulated(pe, *numbers))
        return used[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Bound, "tabulated", watched)
        found = logits(*arguments, padded=not causal)
    assert used and all(pe.tables for pe in used)
    with monkeypatch.context() as patched:
        patched.setattr(Bound, "tabulated", lambda pe, *_: pe)
        logits.clear_cache()
        pairwise = logits(*arguments, padded=not causal)
    assert_near(found[:, :SIZE], pairwise[:, :SIZE], 1e-5)
