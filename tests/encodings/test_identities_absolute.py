"""What must hold of the encodings that act on a model's input: identities, limits, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import DIMS, assert_near, bind, example

from pe_jax.model.lm import init_params
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap

LENGTH = 20


def embedded(spec, pos=None, x=None, params=None, spread=0.3, length=LENGTH, dims=DIMS):
    """x of one sequence after the encoding, by default with no parameter at its start."""
    (e,) = make(spec, dims)
    pe = bind((e.at(length),), spread=spread)
    pos = jnp.arange(length) if pos is None else jnp.asarray(pos)
    case = example(len(pos), dims)
    x = jnp.asarray(case.x) if x is None else x
    params = pe.params[0] if params is None else params
    return np.asarray(pe.encodings[0].embed(params, x, jnp.asarray(case.tokens), pos))


def vectors(spec, pos=None, **kwargs):
    """What it adds to 0."""
    count = kwargs.get("length", LENGTH) if pos is None else len(pos)
    return embedded(spec, pos, x=jnp.zeros((count, DIMS.model)), **kwargs)


# Baselines


def test_the_index_as_a_feature_is_proportional_to_it():
    rows = vectors("integer")
    assert_near(rows, np.arange(LENGTH)[:, None] * rows[1], 1e-6)
    start = vectors("integer", spread=0.0, pos=[DIMS.train_len])[0]
    assert 0.5 < np.sqrt((start**2).mean()) < 2  # the tokens' scale at the end of training


def test_a_normalized_index_is_a_part_of_the_length_it_is_told():
    whole = vectors("normalized", length=16)
    assert_near(whole[:8], vectors("normalized", [0, 2, 4, 6, 8, 10, 12, 14], length=32), 1e-6)
    (e,) = make("normalized", DIMS)
    at_training = e.embed({"w": jnp.ones(24)}, jnp.zeros((8, 24)), jnp.arange(8), jnp.arange(8))
    np.testing.assert_array_equal(at_training[:, 0], np.arange(8) / 8)
    fixed = vectors("normalized(length=1)", length=16)
    assert_near(fixed, np.arange(16)[:, None] * fixed[1], 1e-6)  # the raw index


def test_bits_tell_every_position_apart_and_add_up():
    rows = vectors("binary(bits=5)", length=32)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    assert apart[~np.eye(32, dtype=bool)].min() > 0.1
    for i in range(32):
        assert_near(rows[i], sum(rows[1 << b] for b in range(5) if i >> b & 1) + 0 * rows[0], 1e-5)
    assert np.isnan(vectors("binary(bits=5)", [32, 64])).all()
    assert np.isfinite(vectors("binary(bits=31)", [2**31 - 1])).all()


def test_without_the_bits_that_training_never_sets_positions_repeat():
    (e,) = make("binary", DIMS)
    table = bind((e,)).params[0]["table"]
    seen = {"table": table.at[3:].set(0)}  # 8 tokens: bits 0, 1 and 2
    rows = vectors("binary", params=seen)
    np.testing.assert_array_equal(rows[8:16], rows[:8])


# Tables


def test_hierarchical_is_learned_below_its_rows_and_tells_their_square_apart():
    params = bind(make("learned", DIMS)).params[0]
    learned, far = (vectors(s, params=params, length=64) for s in ("learned", "hierarchical"))
    np.testing.assert_array_equal(far[:8], learned[:8])
    assert np.isnan(learned[8:]).all() and np.isfinite(far).all()
    apart = np.linalg.norm(far[:, None] - far[None], axis=-1)
    assert apart[~np.eye(64, dtype=bool)].min() > 0.1
    assert np.isnan(vectors("hierarchical", [64], params=params)).all()


def test_hierarchical_swaps_in_on_a_learned_table():
    model = make("learned(length=6)+t5", DIMS)
    swapped = swap(model, "hierarchical")
    assert swapped == (*make("hierarchical(length=6)", DIMS), model[1])
    assert [e.limit() for e in (model[0], swapped[0])] == [6, 36]
    for alpha in (0.0, 0.5, 1.0):
        with pytest.raises(ValueError, match=f"not 0.5, got {alpha}"):
            make(f"hierarchical(alpha={alpha})", DIMS)


def test_multiplicative_positions_start_as_none_and_reach_the_gradient():
    x = jnp.asarray(example(8).x)
    np.testing.assert_array_equal(embedded("multiplicative", length=8, spread=0.0), x)
    (e,) = make("multiplicative", DIMS)

    def loss(params):
        return (e.embed(params, x, jnp.arange(8), jnp.arange(8)) ** 2).sum() / 2

    slope = jax.grad(loss)(e.init(jax.random.key(0)))["table"]
    assert_near(slope, x**2, 1e-6)
    assert_near(
        embedded("multiplicative(additive=True)", length=8, spread=0.0) - x,
        vectors("multiplicative(additive=True)", length=8, spread=0.0),
        1e-5,
    )


# Sinusoids


def test_concatenated_sinusoids_start_as_added_ones():
    added = embedded("sinusoidal")
    joined = embedded("sinusoidal(merge='concatenate')", spread=0.0)
    assert_near(joined, added, 1e-6)
    assert np.abs(embedded("sinusoidal(merge='concatenate')") - added).max() > 0.1
    ones = jnp.ones((LENGTH, DIMS.model))
    assert_near(
        embedded("sinusoidal(merge='multiply')", x=ones), ones + vectors("sinusoidal"), 1e-6
    )


def test_the_slowest_wave_of_the_paper_and_of_its_code():
    wide = DIMS._replace(model=64)
    zero = jnp.zeros((1, 64))
    paper, code = (
        embedded(f"sinusoidal(variant='{name}')", [1], x=zero, dims=wide)[0]
        for name in ("paper", "t2t")
    )
    assert (paper[-2], code[31]) == pytest.approx((1.33e-4, 1e-4), rel=5e-3)
    assert paper[0] == pytest.approx(np.sin(1)) and code[0] == pytest.approx(np.sin(1))
    assert_near(code[:32] ** 2 + code[32:] ** 2, np.ones(32), 1e-6)


# Recursions


def test_the_states_of_a_recursion_do_not_hang_on_how_many_there_are():
    rows = vectors("rnn", length=40)
    np.testing.assert_array_equal(vectors("rnn", length=20), rows[:20])
    np.testing.assert_array_equal(vectors("rnn", [3, 3, 0, 17], length=40), rows[[3, 3, 0, 17]])
    assert np.isnan(vectors("rnn(length=12)")[12:]).all()


def test_a_step_of_the_recursion_never_enlarges_a_difference():
    (e,) = make("rnn(length=200)", DIMS)
    params = bind((e,), spread=3.0).params[0]
    near = params | {"start": params["start"] + 1e-2}
    apart = vectors("rnn", params=params, length=200) - vectors("rnn", params=near, length=200)
    distance = np.linalg.norm(apart, axis=-1)
    assert distance[0] > 1e-2 and (np.diff(distance) < 1e-5).all()


def test_floater_goes_along_one_path_whatever_positions_are_asked_for():
    fine = {"dims": DIMS._replace(train_len=64)}
    whole = vectors("floater", **fine)
    halves = vectors("floater", np.arange(2 * LENGTH) / 2, **fine)
    assert_near(halves[::2], whole, 1e-4)
    assert_near(vectors("floater", [0, 2, 1, 4], **fine), whole[[0, 2, 1, 4]], 1e-4)
    assert np.linalg.norm(np.diff(halves, axis=0), axis=-1).min() > 1e-3


def test_one_step_a_token_is_as_good_as_five():
    dims = DIMS._replace(train_len=64)
    one, five = (vectors(f"floater(steps={n})", length=64, dims=dims, spread=0) for n in (1, 5))
    assert_near(one, five, 1e-5)
    assert np.linalg.norm(one[-1] - one[0]) > 1


def test_a_path_without_dynamics_stands_still_and_training_covers_one_span_at_any_length():
    (e,) = make("floater", DIMS)
    start = {"start": jnp.arange(24.0)}
    still = jax.tree.map(jnp.zeros_like, e.init(jax.random.key(0))) | start
    np.testing.assert_array_equal(
        vectors("floater", params=still), np.tile(start["start"], (20, 1))
    )
    short, long = (
        vectors(
            "floater(steps=8)", [0, length], dims=DIMS._replace(train_len=length), length=length
        )
        for length in (8, 32)
    )
    assert_near(short, long, 1e-4)


def test_floater_in_every_layer_has_a_start_for_each_and_one_dynamics():
    (e,) = make("floater(per_layer=('start',))[0:]", DIMS)
    shared, owned = init_params(e, jax.random.key(0))
    assert {*shared} == {"w1", "b1", "w2", "b2"}
    assert [{*layer} for layer in owned.values()] == [{"start"}] * DIMS.layers
    first, second = (shared | layer for layer in owned.values())
    apart = vectors("floater", params=first) - vectors("floater", params=second)
    assert np.linalg.norm(apart, axis=-1).min() > 0.1


# Content


def test_a_convolution_of_zeros_is_but_its_residual():
    (e,) = make("conv(depth=3)", DIMS)
    none = jax.tree.map(jnp.zeros_like, e.init(jax.random.key(0)))
    assert_near(embedded("conv(depth=3)", params=none), 0.5**1.5 * example(LENGTH).x, 1e-6)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_only_what_meets_the_padding_knows_where_it_is(causal):
    same, dims = jnp.ones((LENGTH, DIMS.model)), DIMS._replace(causal=causal)
    rows = embedded("conv(kernel=3,depth=2)", x=same, dims=dims)
    edge, end = (4, LENGTH) if causal else (2, LENGTH - 2)
    inside = rows[edge:end]
    assert_near(inside, np.broadcast_to(inside[0], inside.shape), 1e-6)
    outside = np.concatenate([rows[:edge], rows[end:]])
    assert np.abs(outside - inside[0]).max(-1).min() > 1e-4
    np.testing.assert_array_equal(embedded("conv", np.arange(LENGTH) + 7), embedded("conv"))


def test_complex_words_turn_and_keep_their_amplitude():
    x = np.asarray(example(LENGTH).x)
    rows = embedded("complex")

    def amplitude(rows):
        return np.hypot(rows[:, :12], rows[:, 12:])

    assert_near(amplitude(rows), amplitude(x), 1e-6)
    np.testing.assert_array_equal(rows[0], x[0])
    assert np.abs(rows[1:] - x[1:]).max(-1).min() > 0.1
    still = {"frequency": jnp.zeros((DIMS.vocab, 12))}
    np.testing.assert_array_equal(embedded("complex", params=still), x)


def test_a_word_turns_by_its_own_frequency_alone():
    (e,) = make("complex", DIMS)
    params = e.init(jax.random.key(0))
    case = example(8)
    x, pos = jnp.asarray(case.x), jnp.asarray(case.pos)
    tokens = jnp.array([3, 5, 3, 5, 5, 3, 3, 5])
    faster = {"frequency": params["frequency"].at[5].add(0.5)}
    moved = np.abs(e.embed(faster, x, tokens, pos) - e.embed(params, x, tokens, pos)).max(-1)
    np.testing.assert_array_equal(moved > 1e-3, np.asarray(tokens == 5))


# Refusals


@pytest.mark.parametrize("name", ["learned", "hierarchical", "multiplicative", "binary", "rnn"])
def test_fractional_positions_are_refused_where_there_is_nothing_between_two(name):
    with pytest.raises(ValueError, match="defined at whole positions.*leave out the member"):
        embedded(name, jnp.arange(8) + 0.5)
