"""What encodings of 2025 and 2026 become where their parameters make them another."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import APART, CASE, LENGTH
from helpers import DIMS, assert_near, bind, example, folded, output

from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.dense import attend
from pe_jax.encoding import HIDDEN
from pe_jax.specs.parse import make


def bound(spec, dims=DIMS, **params):
    """The encodings of a spec, with these parameters in place of the first's."""
    pe = bind(make(spec, dims), spread=0.0)
    given = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    return dataclasses.replace(pe, params=(pe.params[0] | given, *pe.params[1:]))


def attended(spec, case=CASE, **params):
    return output(bound(spec, **params), case)


# PaTH


def test_tokens_that_take_nothing_away_leave_no_positions():
    got = attended("path", b=np.full(3, -30.0), u=np.zeros((24, 3)))
    assert_near(got, attended("nope"), 1e-5)
    assert np.abs(attended("path") - attended("nope")).max() > 1e-3


@pytest.mark.parametrize("spec", ["path(variant='paper')", "path(rank=1)"])
def test_tokens_that_reverse_one_component_count_in_twos(spec):
    """beta = 2 and w one unit vector e: the component of q along e changes its sign with every
    token after the key, so logits are q . k, or q . k - 2 (q . e) (k . e) at odd distances.
    """
    high = np.zeros((1 if "rank" in spec else 32, 3, 8))
    high[0, :, 2] = 1
    low = np.zeros((24, len(high)))
    low[0, 0] = 1
    taps = np.zeros((3, 3, 8))
    taps[0] = 1
    case = CASE._replace(x=np.abs(CASE.x) + 0.5)
    fixed = {"low": low, "high": high, "taps": taps, "u": np.zeros((24, 3)), "b": np.full(3, 30.0)}
    turned = case._replace(q=case.q.copy(), k=case.k.copy())
    turned.q[1::2, :, 2] *= -1
    turned.k[1::2, :, 2] *= -1
    assert_near(attended(spec, case, **fixed), attended("nope", turned), 1e-5)


def test_a_projection_takes_out_what_it_has_taken_out_once():
    """beta = 1 and w one unit vector: every key but the query's own loses that component."""
    taps, high = np.zeros((3, 3, 8)), np.zeros((32, 3, 8))
    taps[0], high[0, :, 5] = 1, 1
    case = CASE._replace(x=np.abs(CASE.x) + 0.5)
    fixed = {"low": np.eye(24, 32), "high": high, "taps": taps, "u": np.zeros((24, 3))}
    got = attended("path", case, **fixed)
    s = np.einsum("thk,shk->hts", case.q, case.k)
    lost = np.einsum("th,sh->hts", case.q[..., 5], case.k[..., 5])
    s = (s - lost * (1 - np.eye(len(case.q)))) / np.sqrt(8)
    w = np.exp(s - s.max()) * np.tril(np.ones(s.shape[1:]))
    want = np.einsum("hts,shk->thk", w / w.sum(-1, keepdims=True), case.v)
    assert_near(got, want, 1e-5)


def one_after_another(w, beta, q, k):
    """Logits [H, T, S] without K^-1/2: each token changes all keys before it (section 3.4)."""
    places = jnp.arange(len(k))

    def step(keys, token):
        t, w, beta, q = token
        along = beta[None] * (keys * w[None]).sum(-1)
        keys = keys - jnp.where(places < t, 1.0, 0.0)[:, None, None] * along[..., None] * w[None]
        return keys, jnp.einsum("hk,shk->hs", q, keys)

    _, rows = jax.lax.scan(step, k, (places, w, beta, q))
    return jnp.moveaxis(rows, 1, 0)


@pytest.mark.parametrize(
    "length",
    [pytest.param(1, marks=pytest.mark.slow), 10, pytest.param(64, marks=pytest.mark.slow), 150],
)
def test_products_by_chunks_of_keys_are_those_of_one_token_after_another(length):
    """With gradients, in attention over all queries and by blocks of these."""
    case, pe = example(length), bind(make("path", DIMS))
    seen = np.tril(np.ones((length, length)))[None] > 0

    def wanted(params, q, k):
        bound = dataclasses.replace(pe, params=params)
        (c,) = bound.locate(jnp.asarray(case.x), jnp.arange(length))
        s = jnp.where(seen, one_after_another(c["w"], c["beta"], q, k) * 8**-0.5, HIDDEN)
        return jnp.einsum("hts,shk->thk", jax.nn.softmax(s, axis=-1), case.v)

    def got(form, params, q, k):
        return output(dataclasses.replace(pe, params=params), case._replace(q=q, k=k), form=form)

    def with_slopes(function):
        return jax.jit(
            jax.value_and_grad(
                lambda *args: ((out := function(*args)) ** 2).sum() + out.sum(), argnums=(0, 1, 2)
            )
        )(pe.params, jnp.asarray(case.q), jnp.asarray(case.k))

    want = jax.tree.leaves(with_slopes(wanted))
    for form in (attend, attend_blockwise):
        leaves = jax.tree.leaves(with_slopes(functools.partial(got, form)))
        for value, other in zip(leaves, want, strict=True):
            assert_near(value, other, 1e-5, form.__name__)


# CARoPE


def test_carope_begins_as_rope():
    for base in (50.0, 10000.0):
        want = attended(f"rope(base={base})")
        assert_near(attended(f"carope(base={base})"), want, 1e-5)
    assert np.abs(attended("carope", b=np.zeros(3)) - want).max() > 1e-3


def test_tokens_that_slow_carope_down_leave_it_the_fastest_pair():
    """f^0 is 1 whatever f is."""
    assert_near(attended("carope", b=np.full(3, 1e5)), attended("p_rope(p=0.25)"), 1e-4)


# MapFormer


def test_mapformer_is_rope_where_tokens_say_that_they_are():
    """Along a walk, forth and back."""
    steps = np.random.default_rng(0).integers(-3, 4, LENGTH)
    x = CASE.x.copy()
    x[:, 5] = steps
    into, out = np.zeros((24, 3, 2)), np.zeros((3, 2, 4))
    into[5, :, 1], out[:, 1] = 0.5, 2.0
    omega = np.tile(10000.0 ** (-np.arange(4) / 4), (3, 1))
    got = attended("mapformer(rank=2)", CASE._replace(x=x), into=into, out=out, omega=omega)
    there = CASE._replace(pos=np.cumsum(steps).astype(np.int32))
    want = output(bind(make("rope", DIMS), contiguous=False), there)
    assert_near(got, want, 1e-5)


def test_mapformer_begins_with_rates_down_to_one_turn_in_the_longest_distance():
    for spec, longest in (("mapformer", 8), ("mapformer(omega=1.0,longest=50)", 50)):
        (omega, *others) = np.asarray(bound(spec).params[0]["omega"], np.float64)
        most = 1.0 if "omega" in spec else 2 * np.pi
        assert omega[-1] == pytest.approx(2 * np.pi / longest, rel=1e-5)
        ratios = omega / np.array([most, *omega[:-1]])
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-5)
        assert all((omega == other).all() for other in others)


# Selective RoPE


def test_selective_rope_of_equal_tokens_is_rope():
    """Each adds SiLU(1.2784645) = 1, with an open gate; the first three also by what they see of
    tokens that are not there, so that only one tap may count.
    """
    x = np.zeros_like(CASE.x)
    x[:, 3] = 7.0
    low, high, taps = np.zeros((24, 2)), np.zeros((2, 3, 4)), np.zeros((4, 3, 4))
    low[3, 1], high[1], taps[0] = 1, 1.27846454, 1
    fixed = {"low": low, "high": high, "taps": taps, "u": np.zeros((24, 3)), "b": np.full(3, 30.0)}
    got = attended("selective_rope(rank=2,base=10000.0)", CASE._replace(x=x), **fixed)
    assert_near(got, attended("rope"), 1e-4)
    shut = fixed | {"b": np.full(3, -30.0)}
    got = attended("selective_rope(rank=2)", CASE._replace(x=x), **shut)
    assert_near(got, attended("nope"), 1e-5)


def test_the_size_of_its_input_does_not_matter_to_selective_rope():
    doubled = CASE._replace(x=7 * CASE.x)
    assert_near(attended("selective_rope", doubled), attended("selective_rope"), 1e-5)


# RePo


def test_repo_is_rope_at_the_positions_that_it_is_told():
    x = CASE.x.copy()
    x[:, 2], x[:, 4] = 30.0, APART.pos / 30
    gate, content, final = np.zeros((24, 3)), np.zeros((24, 3)), np.zeros((3, 3))
    gate[2, 1], content[4, 1], final[1] = 1, 1, 1
    given = {"gate": gate, "content": content, "final": final}
    got = attended("repo(base=10000.0)", CASE._replace(x=x), **given)
    want = output(bind(make("rope", DIMS), contiguous=False), APART)
    assert_near(got, want, 1e-5)


# Moebius RoPE


def test_a_training_length_further_on_the_first_heads_turn_the_other_way():
    (e,) = make("mobius", DIMS._replace(model=64, heads=8))
    x, pos = jnp.asarray(np.tile(CASE.q[:, :1], (1, 8, 1))), jnp.arange(LENGTH)
    once, later, twice = (e.qk({}, x, x, pos + n, pos)[0] for n in (0, 8, 16))
    assert_near(later[:, :2], -once[:, :2], 1e-5)
    assert_near(twice[:, :2], once[:, :2], 1e-5)
    plain = make("rope", DIMS)[0].qk({}, x, x, pos + 8, pos)[0]
    assert_near(later[:, 2:], plain[:, 2:], 1e-6)
    assert np.abs(later[:, :2] - plain[:, :2]).max(-1).min() > 1e-3


@pytest.mark.parametrize(("part", "heads", "count"), [(0.25, 3, 1), (0.5, 3, 1), (1.0, 3, 3)])
def test_at_least_one_head_is_moebius(part, heads, count):
    (e,) = make(f"mobius(part={part})", DIMS._replace(heads=heads))
    frequencies = np.asarray(e._frequencies())
    odd = np.pi * (2 * np.arange(4) + 1) / 8
    assert [np.allclose(row, odd) for row in frequencies] == [h < count for h in range(heads)]


# BiPE


def test_places_and_numbers_of_segments():
    tokens = jnp.array([5, 6, 3, 3, 5, 7, 5, 7, 5])
    (e,) = make("bipe(ends=(3,7),rows=3,stride=10)", DIMS)
    moved = e.positions(tokens, jnp.arange(9), None, True)
    assert moved.tolist() == [0, 0, 0, 10, 20, 20, 30, 30, 40]
    params = {"table": jnp.arange(3.0)[:, None] * jnp.ones((1, 24))}
    places = e.embed(params, jnp.zeros((9, 24)), tokens, moved)[:, 0]
    assert places.tolist() == [0, 1, 2, 0, 0, 1, 0, 1, 0]
    long = e.embed(params, jnp.zeros((9, 24)), 0 * tokens, moved)[:, 0]
    assert long.tolist() == [0, 1, 2, 2, 2, 2, 2, 2, 2]


def test_where_every_token_is_a_segment_rope_is_itself():
    ends = make(f"bipe(ends={tuple(range(DIMS.vocab))})+rope", DIMS)
    moved = folded(ends, CASE)
    np.testing.assert_array_equal(moved, CASE.pos)
    (none,) = make("bipe(ends=(99,))", DIMS)
    assert not folded((none,), CASE).any()
