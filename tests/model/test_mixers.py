"""Mixers, which take the place of attention: parts of a text, gradients, layers, refusals."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from helpers import DIMS, assert_near, bind, example

from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM, decayed
from pe_jax.specs.parse import layers_of, make
from pe_jax.specs.swap import swap
from pe_jax.testing import check
from pe_jax.testing.hooks import check_hooks

MIXERS = ("recurrent[0:]", "gated_delta", "kimi_delta", "retention", "short_conv")
LENGTH, CUTS = 150, (70, 73)
TINY = LmConfig(vocab=16, layers=4, model=16, heads=2, mlp=8)
each = pytest.mark.parametrize("spec", MIXERS)


def bound(spec):
    """(the encoding, its parameters with noise), trained at 64 tokens."""
    pe = bind(make(spec, DIMS._replace(train_len=64)))
    return pe.encodings[0], pe.params[0]


@functools.partial(jax.jit, static_argnums=0)
def in_parts(e, params, x):
    """(y of a text at once, in three parts, token by token)."""
    pieces, state = [], None
    for part in jnp.split(x, CUTS):
        y, state = e.mix(params, part, state)
        pieces.append(y)
    first, state = e.mix(params, x[:1], None)

    def one(state, row):
        y, state = e.mix(params, row[None], state)
        return state, y[0]

    _, rest = jax.lax.scan(one, state, x[1:])
    return e.mix(params, x, None)[0], jnp.concatenate(pieces), jnp.concatenate([first, rest])


@each
def test_a_text_its_parts_and_single_tokens_give_the_same(spec):
    e, params = bound(spec)
    x = example(LENGTH).x
    whole, parts, tokens = in_parts(e, params, x)
    assert_near(parts, whole, 1e-5, "parts")
    assert_near(tokens, whole, 1e-5, "tokens")
    changed = np.concatenate([x[: CUTS[0]], -x[CUTS[0] :]])
    later, *_ = in_parts(e, params, changed)
    np.testing.assert_array_equal(later[: CUTS[0]], whole[: CUTS[0]])
    assert (np.abs(later - whole)[CUTS[0] :].max(-1) > 1e-4).all()


@each
def test_gradients_are_central_differences_in_float64(spec):
    e, params = bound(spec)
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        given = {"x": example(37).x} | params
        given = {name: np.asarray(a, np.float64) for name, a in given.items()}
        towards = rng.normal(size=(37, DIMS.model))

        @jax.jit
        def loss(given):
            own = {name: a for name, a in given.items() if name != "x"}
            return (e.mix(own, given["x"], None)[0] * towards).sum()

        slopes = jax.jit(jax.grad(loss))(given)
        for name, slope in slopes.items():
            aside = rng.normal(size=slope.shape)
            high, low = (
                float(loss(given | {name: given[name] + h * aside})) for h in (1e-5, -1e-5)
            )
            want = (high - low) / 2e-5
            got = float((slope * aside).sum())
            assert abs(got - want) <= 1e-6 * max(1.0, abs(want)), name


@pytest.mark.parametrize("spec", ("gated_delta", "kimi_delta"))
def test_strong_decays_overflow_nowhere(spec):
    """A state that is gone after a token leaves what that token alone gives."""
    e, params = bound(spec)
    strong = params | {"rate": params["rate"] + 14.0}

    @jax.jit
    def both(params, x):
        def loss(params):
            y, _ = e.mix(params, x, None)
            return (y**2).sum(), y

        return jax.value_and_grad(loss, has_aux=True)(params)

    (_, y), slopes = both(strong, example(80).x)
    assert np.isfinite(y).all() and all(np.isfinite(a).all() for a in slopes.values())
    parts = jnp.split(jnp.asarray(example(80).x), [76])
    first, state = e.mix(strong, parts[0], None)
    gone = jax.tree.map(jnp.zeros_like, state[1])
    assert_near(e.mix(strong, parts[1], (state[0], gone))[0], y[76:], 1e-5)


# In a model


def model(spec, seed=0):
    return LM(TINY, make(spec, TINY.dims(16)), rngs=nnx.Rngs(params=seed, encodings=1))


def test_a_layer_with_a_mixer_has_no_matrices_of_attention_and_all_others_are_the_same():
    mixed, plain = (
        nnx.to_pure_dict(nnx.state(model(spec), nnx.Param)) for spec in ("gated_delta[::2]", "nope")
    )
    for layer in range(TINY.layers):
        missing = {"query", "key_value", "out"} if layer % 2 == 0 else set()
        assert plain["blocks"][layer].keys() - mixed["blocks"][layer].keys() == missing
        for name, arrays in mixed["blocks"][layer].items():
            for path, array in arrays.items():
                np.testing.assert_array_equal(array, plain["blocks"][layer][name][path])
    own = decayed(mixed)["owned"][0][0]
    assert {name for name in own if own[name]} == {"qkv_kernel", "gate_kernel", "out_kernel"}


REFUSED = (
    ("gated_delta+rope", "GatedDelta and RoPE act in one layer, where GatedDelta takes the place"),
    ("gated_delta[:2]+window[1:]", "GatedDelta and Window act in one layer"),
    ("kimi_delta+retention[3]", "KimiDelta and Retention act in one layer, where KimiDelta"),
)


@pytest.mark.parametrize(("spec", "words"), REFUSED)
def test_what_acts_in_attention_that_is_not_there_is_refused(spec, words):
    with pytest.raises(ValueError, match=words):
        make(spec, TINY.dims(16))


def test_what_a_layer_without_attention_may_have():
    spec = "recurrent+shape+gated_delta[:3]+sinusoidal[:2]+nope[3]"
    logits, _ = model(spec)(jnp.zeros((1, 4), int), key=jax.random.key(0))
    assert np.isfinite(logits).all()


def test_a_model_of_both_directions_is_refused():
    for spec in MIXERS:
        with pytest.raises(ValueError, match="needs a causal model: the state of a mixer goes"):
            make(spec, DIMS._replace(causal=False))


def test_a_swap_acts_where_there_is_attention():
    members = make("gated_delta[::2]+rope[1::2]", TINY.dims(16))
    for spec in ("yarn", "window"):
        swapped = swap(members, spec)
        assert [layers_of(e) for e in swapped if e != members[0]][-1] == [1, 3]
    assert swap(alone := make("gated_delta", TINY.dims(16)), "window") == alone
    narrow = make("gated_delta[::2]+rope[1::2]+window(window=2)[1::2]", TINY.dims(16))
    assert layers_of(swap(narrow, "yarn")[1]) == [1, 3]


# A mixer of a user


@dataclasses.dataclass(frozen=True)
class Mean(Encoding):
    """The mean of the tokens so far."""

    def mix(self, params, x, state):
        count, total = (0.0, 0.0) if state is None else state
        counts = count + 1.0 + jnp.arange(len(x))
        sums = jnp.cumsum(x, axis=0) + (0 if state is None else total[None])
        return sums / counts[:, None].astype(x.dtype), (counts[-1], sums[-1])


class Forgets(Mean):
    def mix(self, params, x, state):
        return super().mix(params, x, None)


class Grows(Mean):
    def mix(self, params, x, state):
        return x, x if state is None else jnp.concatenate([state, x])


class Alone(Mean):
    def mix(self, params, x, state):
        return x


def test_a_mixer_of_a_user_is_checked():
    check(Mean(DIMS))
    for cls, words in (
        (Forgets, "Forgets.mix gives other numbers for a shorter text"),
        (Grows, r"Grows.mix goes on from the state float32\[8, 24\] to float32\[16, 24\]"),
        (Alone, "Alone.mix must give (y, the state after the last token), got float32[8, 24]"),
    ):
        with pytest.raises(ValueError, match=words if "\\" in words else re.escape(words)):
            check_hooks(cls(DIMS))
            check(cls(DIMS))
