"""What encodings published since 2024 become where their parameters make them another."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import APART, CASE, LENGTH, one
from helpers import DIMS, assert_near, bind, example, layer, output
from reference_case import alibi_slopes

from pe_jax.encodings import rotary
from pe_jax.encodings.resonance import Resonance
from pe_jax.geometry import inverse_softplus
from pe_jax.runs.run import Run
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap


def attended(encodings, case=CASE, **params):
    """The attention of a spec or of encodings, with these parameters in place of the first's."""
    encodings = make(encodings, DIMS) if isinstance(encodings, str) else encodings
    pe = bind(encodings, contiguous=case is CASE, spread=0.0)
    given = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    return output(dataclasses.replace(pe, params=(pe.params[0] | given, *pe.params[1:])), case)


# Resonance


def test_resonance_of_whole_wavelengths_is_rope(monkeypatch):
    whole = 2 * jnp.pi / jnp.array([3.0, 7.0, 50.0, 2000.0])
    with monkeypatch.context() as patched:
        patched.setattr(rotary, "inverse_timescales", lambda *_: whole)
        for case in (CASE, APART):
            given = [jnp.asarray(a) for a in (case.q, case.k, case.pos, case.pos)]
            turned, wanted = (one(name).qk({}, *given) for name in ("resonance", "rope"))
            for got, want in zip(turned, wanted, strict=True):
                assert_near(got, want, 1e-5)
    assert np.abs(attended("resonance") - attended("rope")).max() > 1e-3


def test_a_resonant_pair_meets_only_angles_that_it_has_met():
    """Wavelengths of 6, 63, 628 and 6,283 positions: RoPE's have 2 pi, 20 pi, ..."""
    x, pos = jnp.asarray(CASE.q), jnp.arange(LENGTH)
    for pair, wavelength in enumerate((6, 63, 628)):
        for spec, repeats in (("resonance", True), ("rope", False)):
            first, again = (one(spec).qk({}, x, x, p, p)[0] for p in (pos, pos + 5 * wavelength))
            apart = np.abs(first - again)[..., [pair, pair + 4]].max()
            assert apart < 1e-4 if repeats else apart > 1e-3, (spec, wavelength)


def test_resonance_is_as_exact_far_out_as_at_the_start():
    q, k, pos = jnp.asarray(CASE.q), jnp.asarray(CASE.k), jnp.arange(LENGTH)

    def dots(shift):
        rotated = one("resonance").qk({}, q, k, pos + shift, pos + shift)
        return jnp.einsum("thk,shk->hts", *rotated)

    assert_near(dots(10**6), dots(0), 1e-5)
    whole = math.lcm(6, 63, 628, 6283)  # a turn of every pair
    np.testing.assert_array_equal(dots(whole), dots(0))


# FoPE


def test_fope_without_noise_is_rope_without_the_frequencies_below_one_turn():
    lengths = ((64, "p_rope(p=0.5)"), (2**13, "rope"))  # 1, 0.1, 0.01 and 0.001 radians a position
    for train_len, other in lengths:
        quiet = one("fope(std=0.0)", DIMS._replace(train_len=train_len))
        for case in (CASE, APART):
            assert_near(attended((quiet,), case), attended(other, case), 1e-5, other)


def test_the_pairs_that_fope_zeroes_stand_still_whatever_was_drawn():
    pe = bind((one("fope", DIMS._replace(train_len=64)),), spread=1.0)
    q, k, pos = jnp.asarray(CASE.q), jnp.asarray(CASE.k), jnp.asarray(APART.pos)
    for turned, given in zip(pe.qk(q, k, (pos,), (pos,)), (q, k), strict=True):
        moved = np.abs(turned - given).max((0, 1)) > 0.1
        assert moved.tolist() == [True, True, False, False] * 2


def test_the_coefficients_of_fope_are_drawn_and_not_learned():
    run = Run.of({"pe": {"spec": "fope"}})
    assert run.parameters() == Run.of({"pe": {"spec": "rope"}}).parameters()
    draw = one("fope(std=0.5)", DIMS._replace(model=128, heads=2, head=64)).init(jax.random.key(0))
    for coefficients in draw.values():
        noise = coefficients - jnp.eye(32)[None]
        assert np.std(noise) == pytest.approx(0.5 / math.sqrt(32), rel=0.1)


def test_what_has_no_coefficients_cannot_become_fope():
    with pytest.raises(ValueError, match=r"needs parameters \(cos, sin\).*no swap"):
        swap(make("t5+rope", DIMS), "fope")
    with pytest.raises(ValueError, match="needs parameters .*no swap"):
        swap(make("dape", DIMS), "dape_v2")
    assert swap(make("fope", DIMS), "fope(base=50.0)") == make("fope(base=50.0)", DIMS)
    assert type(swap(make("rope", DIMS), "resonance")[0]) is Resonance


# PoPE


def softplus(x):
    return np.log1p(np.exp(x))


@pytest.mark.parametrize("case", [CASE, APART], ids=["contiguous", "scattered"])
def test_pope_is_rope_of_positive_numbers_whose_own_angle_is_0(case):
    q, k = (np.concatenate([softplus(x), 0 * x], -1) for x in (case.q, case.k))
    longer = case._replace(q=math.sqrt(2) * q, k=k, v=np.concatenate([case.v, case.v], -1))
    want = attended(make("rope", DIMS._replace(model=48, head=16)), longer)
    assert_near(attended("pope", case), want[..., :8], 1e-5)


def test_pope_at_one_position_is_none_of_positive_numbers():
    still = CASE._replace(pos=np.full(LENGTH, 17, np.int32))
    plain = still._replace(q=softplus(still.q), k=softplus(still.k))
    assert_near(attended("pope", still), attended("nope", plain), 1e-5)


def test_the_offset_of_pope_moves_the_keys():
    """With delta = -m w_c, the key at position j stands at j - m."""
    w = 10000.0 ** (-np.arange(8) / 8)
    moved = one("pope"), {"delta": jnp.asarray(np.tile(-3 * w, (3, 1)), jnp.float32)}
    x, pos = jnp.asarray(CASE.k), jnp.arange(LENGTH)
    (_, got), (_, want) = (
        moved[0].qk(params, x, x, pos, k_pos)
        for params, k_pos in ((moved[1], pos), ({"delta": jnp.zeros((3, 8))}, pos - 3))
    )
    assert_near(got, want, 1e-5)


def test_the_offset_of_pope_stays_in_its_bounds_and_comes_back():
    def logits(delta):
        here, there = jnp.arange(2) + 5, jnp.arange(2)
        q, k = one("pope").qk({"delta": delta}, CASE.q[:2], CASE.k[:2], here, there)
        return (q * k).sum()

    for outside, bound in ((1.0, 0.0), (-7.0, -2 * math.pi)):
        beyond, at = jnp.full((3, 8), outside), jnp.full((3, 8), bound)
        assert float(logits(beyond)) == pytest.approx(float(logits(at)), rel=1e-5)
        assert (jax.grad(logits)(beyond) != 0).all()


# GRAPE


def test_grape_with_one_gate_for_all_keys_is_alibi():
    """u sees a component that is 0 in every key: softplus(0) = ln 2, and omega makes it 1."""
    k = CASE.k.copy()
    k[..., 2] = 0
    u, omega = np.zeros((3, 8)), np.full(3, math.log(math.expm1(1 / math.log(2))))
    u[:, 2] = 5.0
    for case in (CASE._replace(k=k), APART._replace(k=k)):
        got = attended("grape_a", case, u=u, omega=omega)
        assert_near(got, attended("alibi", case), 1e-5)
        less = attended("grape_a", case, u=u, omega=np.full(3, -20.0))
        assert_near(less, attended("nope", case), 1e-5)
    assert np.abs(attended("grape_a", u=u, omega=omega) - attended("alibi")).max() > 1e-3


def test_the_length_of_u_does_not_matter():
    u = np.asarray(bind(make("grape_a", DIMS)).params[0]["u"])
    assert_near(attended("grape_a", u=7 * u), attended("grape_a", u=u), 1e-5)


# Stick-breaking


def test_equal_halves_of_what_is_left():
    """Logits of 0 break every stick in the middle: 2^-(i - j), and nothing for oneself."""
    v = np.zeros((LENGTH, 3, 8), np.float32)
    v[:8, :, :8] = np.eye(8)[:, None]
    weights = attended("stick_breaking", CASE._replace(q=0 * CASE.q, v=v))[:, 0]
    for i in range(LENGTH):
        want = [2.0 ** -(i - j) if j < i else 0.0 for j in range(8)]
        np.testing.assert_allclose(weights[i], want, rtol=1e-5, atol=1e-30)


def test_what_is_given_is_one_less_what_is_left_of_the_stick():
    ones = CASE._replace(v=np.ones_like(CASE.v))
    given = np.asarray(attended("stick_breaking", ones), np.float64)[..., 0]
    s = np.einsum("thk,shk->hts", CASE.q, CASE.k) / math.sqrt(8)
    left = [[np.prod(1 / (1 + np.exp(s[h, i, :i]))) for h in range(3)] for i in range(LENGTH)]
    assert_near(given, 1 - np.array(left), 1e-5)
    assert (given[0] == 0).all()


def test_one_does_not_see_oneself_through_a_window_either():
    alone = attended("stick_breaking+window(window=1)")
    np.testing.assert_array_equal(alone, 0 * alone)
    nearest = attended("stick_breaking+window(window=2,sinks=1)", CASE._replace(v=CASE.v + 2))
    s = np.einsum("thk,shk->hts", CASE.q, CASE.k) / math.sqrt(8)
    near, far = (1 / (1 + np.exp(-s[:, LENGTH - 1, j])) for j in (LENGTH - 2, 0))
    v = CASE.v + 2
    want = near[:, None] * v[-2] + ((1 - near) * far)[:, None] * v[0]
    assert_near(nearest[-1], want, 1e-5)


# DAPE V2


@pytest.mark.parametrize("prior", ["alibi", "kerple_log"])
def test_a_convolution_of_one_key_is_dape(prior):
    (params,) = bind(make(f"dape(prior={prior!r})", DIMS)).params
    for kernel in (1, 3, 5):
        padding = [(kernel // 2, kernel // 2), (0, 0), (0, 0)]
        taps = {name: jnp.pad(params[name][None], padding) for name in ("w1", "w2")}
        got = attended(f"dape_v2(prior={prior!r},kernel={kernel})", **(params | taps))
        assert_near(got, attended(f"dape(prior={prior!r})", **params), 1e-5, f"{kernel=}")


def test_the_taps_of_dape_v2_read_the_keys_beside():
    """f = 2 s_{j+1} through the last tap of both layers, or through the first, 2 s_{j-1}."""
    s = np.einsum("thk,shk->hts", CASE.q, CASE.k) / math.sqrt(8)
    s = np.where(np.tril(np.ones((LENGTH, LENGTH)))[None] > 0, s, 0)
    e = one("dape_v2(hidden=6)")
    for tap, step in ((2, 1), (0, -1)):
        w1, w2 = np.zeros((3, 6, 6), np.float32), np.zeros((3, 6, 3), np.float32)
        w1[tap, :3, :3], w1[tap, :3, 3:] = np.eye(3), -np.eye(3)  # h and -h, whose leaky ReLUs
        w2[1, :3], w2[1, 3:] = np.eye(3), -np.eye(3)  # differ by 1.01 h
        params = {"w1": jnp.asarray(w1), "w2": jnp.asarray(w2), "b1": jnp.zeros(6)}
        q, k, pos = jnp.asarray(CASE.q) / math.sqrt(8), jnp.asarray(CASE.k), jnp.arange(LENGTH)
        hidden = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH)))[None] > 0, s, -1e30)
        got = e.logits(params, hidden, q, k, pos, pos) - hidden
        bias = np.asarray(one("alibi").relative_bias({}, pos))
        for i in range(LENGTH):
            for j in range(i + 1):
                beside = s[:, i, j + step] if 0 <= j + step <= i else np.zeros(3)
                want = bias[:, i - j] + 1.01 * beside
                np.testing.assert_allclose(got[:, i, j], want, rtol=1e-4, atol=1e-5)


def test_fields_at_the_ends_of_their_ranges_are_finite(subtests):
    for spec, dims in (
        ("pj_bias(order=34)", {}),
        ("cpb(variant='code')", {"train_len": 1}),
        ("resonance(base=0.005)", {}),
        ("hierarchical(length=46341,clip=True)", {}),
        ("evq_cosh(tau=700.0)", {}),
    ):
        with subtests.test(spec=spec):
            pe = bind(make(spec, DIMS._replace(**dims)))
            assert np.isfinite(layer(pe, example(LENGTH))).all()


# Of 2026


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
