"""What encodings of 2025 and 2026 become where their parameters make them another."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASE
from helpers import DIMS, assert_near, bind, example, output

from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.dense import attend
from pe_jax.spec.parse import make


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


@pytest.mark.parametrize("length", [64, 65, 150])
def test_products_over_several_chunks_of_keys(length):
    """In float64, one token after another, and by blocks of queries."""
    case = example(length)
    pe = bind(make("path", DIMS))
    (located,) = pe.locate(jnp.asarray(case.x), jnp.arange(length))
    w, beta = (np.asarray(located[name], np.float64) for name in ("w", "beta"))
    keys = case.k.astype(np.float64)
    out = np.zeros(case.q.shape)
    for i in range(length):
        keys[:i] -= beta[i][None, :, None] * (keys[:i] * w[i]).sum(-1, keepdims=True) * w[i]
        s = np.einsum("hk,shk->hs", case.q[i], keys[: i + 1]) / np.sqrt(8)
        weights = np.exp(s - s.max(-1, keepdims=True))
        out[i] = np.einsum("hs,shk->hk", weights / weights.sum(-1, keepdims=True), case.v[: i + 1])
    for form in (attend, attend_blockwise):
        assert_near(output(pe, case, form=form), out, 1e-5, form.__name__)


@pytest.mark.parametrize(
    ("spec", "dims", "said"),
    [
        ("path", {"causal": False}, "path needs a causal model: set lm.causal=True"),
        ("path(rank=0)", {}, "path's rank must be an integer of at least 1, got 0"),
        ("path(variant='fla')", {}, "path's variant must be one of .*'paper'"),
    ],
)
def test_what_cannot_be_is_said(spec, dims, said):
    with pytest.raises(ValueError, match=said):
        bind(make(spec, DIMS._replace(**dims)))
