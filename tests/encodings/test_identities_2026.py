"""What encodings published in 2025 and 2026 become where their parameters make them another."""

import jax.numpy as jnp
import numpy as np
from cases import APART, CASE, one
from helpers import DIMS, assert_near
from reference_case import alibi_slopes
from test_identities_published import attended

from pe_jax.geometry import inverse_softplus
from pe_jax.specs.parse import make


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


def test_grape_ap_without_a_match_is_alibi_with_slopes_times_ln_2():
    for case in (CASE, APART):
        steps = case._replace(pos=CASE.pos)  # it counts keys, not distances
        got = attended("grape_ap", case, w=np.zeros((24, 3, 8)))
        assert_near(got, attended(f"alibi(slope_scale={np.log(2)})", steps), 1e-5)


def test_bam_begins_as_alibi_and_lerope_as_rope():
    for case in (CASE, APART):
        assert_near(attended("bam", case), attended("alibi", case), 1e-4)
        assert_near(attended("lerope", case), attended("rope", case), 1e-5)


def test_evq_cosh_with_a_small_tau_is_spaced_as_rope():
    (e,), (rope,) = make("evq_cosh(tau=1e-4)", DIMS), make("rope", DIMS)
    half_a_step = DIMS.head**-1.0
    want = rope._frequencies() * rope.base**-half_a_step
    np.testing.assert_allclose(e._frequencies(), want, rtol=1e-4)
    wide = make("evq_cosh(tau=3.0)", DIMS)[0]._frequencies()
    assert (wide[:-1] > want[:-1]).all()


def test_a_relative_projection_of_one_curve_for_all_tokens_is_a_table():
    bank = jnp.linspace(1.0, -1.0, DIMS.train_len)[None]
    located = {"weights": jnp.ones((9, 3, 1)), "pos": jnp.arange(9)}
    bias = one("relative_projection(curves=1)").bias({"bank": bank}, located, located)
    for head in bias:
        np.testing.assert_array_equal(head[7], [*bank[0, ::-1], 0.0])
        assert head[8, 0] == 0.0 and head[8, 1] == bank[0, -1]
