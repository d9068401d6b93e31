"""Biases of the distance, rotations, position maps and temperatures: where two of them are one."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import APART, CASE, one
from helpers import DIMS, assert_near, bind, folded, output

from pe_jax.specs.parse import make


def attended(spec, case=CASE, dims=DIMS, **params):
    """The attention of an encoding, or a sum of them, with these parameters in place of its own."""
    encodings = make(spec, dims)
    pe = bind(encodings, contiguous=case is CASE and len(encodings) == 1, spread=0.0)
    pe = dataclasses.replace(pe, params=tuple({**p, **params} for p in pe.params))
    return output(pe, case._replace(pos=folded(encodings, case)))


@pytest.mark.parametrize(
    ("spec", "other"),
    [
        ("p_rope(p=1.0)", "rope"),
        ("p_rope(p=0.0)", "nope"),
        ("partial_rope(rotary_pct=1.0)", "rope"),
        ("alibi(learned=True)", "alibi"),
        ("alibi(learned=True,slope_scale=4.0)", "alibi(slope_scale=4.0)"),
        ("shape(max_shift=0)+rope", "rope"),
        ("cape(max_shift=0.0,max_jitter=0.0,max_scale=1.0)+rope", "rope"),
        ("cape(max_shift=0.0,max_jitter=0.0,max_scale=1.0,centred=True)+rope", "rope"),
    ],
)
def test_one_is_the_other(spec, other):
    for case in (CASE, APART):
        assert_near(attended(spec, case), attended(other, case), 1e-5, spec)


def test_a_power_of_1_is_alibi():
    slopes = jnp.array([0.5, 0.02, 1.5])
    for case in (CASE, APART):
        power = attended("kerple_power", case, a=slopes, p=jnp.ones(3))
        linear = attended("alibi(learned=True)", case, log_slopes=jnp.log(slopes))
        assert_near(power, linear, 1e-5)


@pytest.mark.parametrize("name", ["kerple_log", "kerple_power"])
def test_what_is_clamped_still_has_a_gradient(name):
    e, n = one(name), jnp.arange(5)
    high = {"kerple_log": 5.0, "kerple_power": 2.0}[name]
    wild = {"a": jnp.array([-3.0, 0.5, 0.5]), "p": jnp.array([0.5, -1.0, 5.0])}
    tame = {"a": jnp.array([0.01, 0.5, 0.5]), "p": jnp.array([0.5, 0.01, high])}
    np.testing.assert_allclose(e.relative_bias(wild, n), e.relative_bias(tame, n), rtol=1e-5)
    slope = jax.grad(lambda params: e.relative_bias(params, n).sum())(wild)
    assert all((np.isfinite(s) & (s != 0)).all() for s in slope.values())


def test_one_hidden_layer_of_cpb_by_hand():
    pe = bind((one("cpb(width=5)"),))
    (params,) = jax.tree.map(np.float64, pe.params)
    n = np.array([-9.0, 0.0, 1.0, 3.5, 200.0])
    want = np.zeros((3, 5))
    for h in range(3):
        for i, x in enumerate(n):
            for f in range(5):
                coordinate = math.copysign(math.log(1 + abs(x)), x)
                hidden = max(0, params["w1"][0, f] * coordinate + params["b1"][f])
                want[h, i] += params["w2"][f, h] * hidden
    assert_near(pe.encodings[0].relative_bias(pe.params[0], jnp.asarray(n)), want, 1e-5)
    deep = one("cpb(depth=3,width=5)").init(jax.random.key(0))
    assert {name: leaf.shape for name, leaf in deep.items() if name[0] == "w"} == {
        "w1": (1, 5),
        "w2": (5, 5),
        "w3": (5, 5),
        "w4": (5, 3),
    }


def test_fire_sees_the_distance_alone_up_to_its_threshold():
    near = CASE._replace(pos=CASE.pos + 4)
    wide, narrow = "fire(threshold=30)", "fire(threshold=10)"
    assert_near(attended(wide, near), attended(wide), 1e-5)
    assert np.abs(attended(narrow, near) - attended(narrow))[10:].max() > 1e-3
    # what f is given does not leave [0, 1]: at the first key it is 1 from the threshold on
    (params,) = bind((one(narrow),)).params
    first = jax.jit(one(narrow).bias)(params, jnp.arange(50, 1000), jnp.arange(1))
    np.testing.assert_allclose(first[..., 0], first[:, :1, 0].repeat(950, 1), rtol=1e-4)


def test_sandwich_falls_from_0():
    bias = np.asarray(one("sandwich").relative_bias({}, jnp.arange(200)))
    assert (bias[:, 0] == 0).all() and (bias[:, 1:] < 0).all()
    np.testing.assert_allclose(bias[0], 3 * bias[2], rtol=1e-6)
    assert (np.diff(bias[:, :4]) < 0).all()


# xPos


def test_the_middle_of_xpos_cancels():
    for case in (CASE, APART):
        at = [attended(f"xpos(middle={m})", case) for m in (-50.0, 0.0, 30.0, 100.0)]
        for other in at[1:]:
            assert_near(other, at[0], 1e-5)
    assert_near(attended("xpos", CASE._replace(pos=CASE.pos + 9)), attended("xpos"), 1e-5)


def test_xpos_fades_to_rope_as_its_base_grows():
    assert_near(attended("xpos(scale_base=1e7)"), attended("rope"), 1e-5)
    assert np.abs(attended("xpos") - attended("rope")).max() > 0.01


def test_xpos_serves_what_float32_holds_and_no_more():
    e = one("xpos", DIMS._replace(train_len=1024))
    assert 60_000 < e.limit() < 71_000 and e.at(4096).limit() >= 4096
    assert e.at(e.limit()).limit() == e.limit()
    assert e.at(64).at(4096) == e.at(64)
    last = e.at(e.limit())
    x, pos = jnp.ones((3, 3, 8)), jnp.array([0, 1000, e.limit() - 1])
    for side in last.qk({}, x, x, pos, pos):
        assert np.isfinite(side).all()
    assert np.isnan(e.at(e.limit() + 2).qk({}, x, x, pos, pos)[0][0]).any()


# Position maps


def test_shape_and_cape_draw_in_training_alone():
    tokens, pos = jnp.zeros(50, jnp.int32), jnp.arange(50)
    for spec in ("shape", "cape"):
        e = one(spec)
        np.testing.assert_array_equal(e.positions(tokens, pos, None, False), pos)
        with pytest.raises(ValueError, match="draws positions: pass `key`"):
            e.positions(tokens, pos, None, True)
    moved = one("shape").positions(tokens, pos, jax.random.key(1), True) - pos
    assert (moved == moved[0]).all() and 0 < moved[0] <= 64
    jittered = one("cape").positions(tokens, pos, jax.random.key(1), True)
    assert (np.diff(jittered) > 0).all() and np.abs(np.diff(jittered) - 1).max() > 0.3
    centred = one("cape(centred=True)").positions(tokens, pos, None, False)
    assert centred[0] == -24.5 and centred[-1] == 24.5


# Temperatures


def test_log_n_is_none_within_the_training_length():
    plain, scaled = attended("nope"), attended("log_n")
    np.testing.assert_array_equal(scaled[:8], plain[:8])
    assert (np.abs(scaled - plain)[8:].max((1, 2)) > 1e-4).all()
    assert_near(attended("log_n(length=20)"), plain, 1e-7)


@pytest.mark.parametrize("length", (2, 8, 64))
def test_ssmax_begins_with_logits_as_large_as_without_it(length):
    e = one("ssmax", DIMS._replace(train_len=length))
    scale = e.scale(e.init(jax.random.key(0)), jnp.arange(length))
    assert np.mean(scale) == pytest.approx(1, abs=1e-6)


def test_ssmax_with_the_scale_of_log_n_is_log_n_beyond_it():
    scaled = attended("ssmax", s=jnp.full(3, 1 / math.log(8)))
    assert_near(scaled[7:], attended("log_n")[7:], 1e-5)
    constant = attended("ssmax(offset=True)", s=jnp.zeros(3), b=jnp.ones(3))
    assert_near(constant, attended("nope"), 1e-6)
