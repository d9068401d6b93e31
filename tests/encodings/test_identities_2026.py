"""What encodings published in 2025 and 2026 become where their parameters make them another."""

import jax.numpy as jnp
import numpy as np
import pytest
from cases import APART, CASE, one
from helpers import DIMS, assert_near
from reference_case import alibi_slopes
from test_identities_published import attended

from pe_jax.compose.parse import make
from pe_jax.geometry import inverse_softplus


def test_the_line_of_the_pj_bias_alone_is_alibi():
    slopes = [inverse_softplus(m * DIMS.train_len) for m in alibi_slopes(DIMS.heads)]
    for case in (CASE, APART):
        got = attended("pj_bias(jets=False,lightcone=False)", case, slope=slopes)
        assert_near(got, attended("alibi", case), 1e-5)


def test_jordan_rope_decays_by_e_to_c_over_one_training_length():
    """Of equal queries and keys, turned alike, the product alone remains: K e^(-c d / L)."""
    (e,) = make("jordan_rope(c=2.0,shear=False,base=1e30)", DIMS)
    x, pos = jnp.zeros((9, 3, 8)).at[..., 1].set(1.0), jnp.arange(9)  # the slow block
    q, k = e.qk(e.init(None), x, x, pos, pos)
    dots = jnp.einsum("thk,shk->hts", q, k)
    np.testing.assert_allclose(dots[:, 8, 0], np.exp(-2.0), rtol=1e-4)
    np.testing.assert_allclose(dots[:, 8, 4], np.exp(-1.0), rtol=1e-4)


def test_jordan_rope_is_not_a_number_where_float32_ends_and_exact_before():
    (e,), x = make("jordan_rope(c=8.0)", DIMS), jnp.ones((2, 3, 8))
    for length, finite in ((160, True), (169, False)):  # 84 / 8 training lengths on each side of m
        q, _ = e.at(length).qk(e.init(None), x, x, jnp.array([0, length - 1]), jnp.zeros(2))
        assert np.isfinite(q).all() == finite


def test_fours_of_components_and_one_part_are_needed():
    with pytest.raises(ValueError, match="fours, got 6"):
        one("jordan_rope", DIMS._replace(head=6))
    with pytest.raises(ValueError, match="one of jets"):
        one("pj_bias(jets=False,line=False,lightcone=False)")
