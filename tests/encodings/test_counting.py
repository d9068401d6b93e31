"""Counted positions: suffix sums and a table read at falling counts, against plain gathers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_near

from pe_jax.geometry import lookup_between, suffix_sums


@pytest.mark.parametrize("length", [1, 32, 33])
def test_suffix_sums_are_those_of_numpy(length):
    x = np.random.default_rng(0).normal(size=(2, 3, length)).astype(np.float32)
    want = np.cumsum(x[..., ::-1].astype(np.float64), -1)[..., ::-1]
    assert_near(jax.jit(suffix_sums)(jnp.asarray(x)), want, 1e-5)
    ones = jax.jit(suffix_sums)(jnp.ones((1, length)))  # whole numbers are exact
    np.testing.assert_array_equal(ones[0], np.arange(length, 0, -1))


def plain(table, count):
    below = jnp.minimum(jnp.floor(count).astype(int), table.shape[-1] - 2)
    low, high = (jnp.take_along_axis(table, r, axis=-1) for r in (below, below + 1))
    return low + (count - below) * (high - low)


@pytest.mark.parametrize("rows", [2, 7, 30])
def test_a_table_is_read_with_the_gradient_of_a_gather(rows):
    """Of open, half open and shut gates, and of counts that end at the table's last row."""
    rng = np.random.default_rng(rows)
    table = jnp.asarray(rng.normal(size=(4, 2, rows)), jnp.float32)
    gates = rng.uniform(size=(4, 2, 40)) * np.array([1, 0.1, 0, 1])[:, None, None]
    gates[3] = 1
    count = jnp.minimum(suffix_sums(jnp.asarray(gates, jnp.float32)), rows - 1.0)
    towards = jnp.asarray(rng.normal(size=count.shape), jnp.float32)
    assert_near(lookup_between(table, count), plain(table, count), 1e-6)
    slopes = [
        jax.jit(jax.grad(lambda t, c, f=f: (f(t, c) * towards).sum(), argnums=(0, 1)))(table, count)
        for f in (lookup_between, plain)
    ]
    for got, want in zip(*slopes, strict=True):
        assert_near(got, want, 1e-5)


def test_counts_that_rise_by_a_rounding_have_the_gradient_of_a_gather():
    """Gates of repeated tokens, open or shut by 17 nats: shut ones add less than a rounding."""
    rng = np.random.default_rng(1)
    table = jnp.asarray(rng.normal(size=(64, 64)), jnp.float32)
    open_or_shut = jnp.where(rng.random((64, 256)) < 0.15, 17.0, -17.0)
    count = jnp.minimum(jax.jit(suffix_sums)(jax.nn.sigmoid(open_or_shut)), 63.0)
    assert np.diff(count).max() > 0
    towards = jnp.asarray(rng.normal(size=count.shape), jnp.float32)
    got, want = (
        jax.jit(jax.grad(lambda t, f=f: (f(t, count) * towards).sum()))(table)
        for f in (lookup_between, plain)
    )
    assert_near(got, want, 1e-4)
