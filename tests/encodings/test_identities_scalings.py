"""What carries RoPE over to longer texts: where it is RoPE, and what it does beyond."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from cases import APART, CASE, LENGTH, one
from helpers import DIMS, assert_near, bind, output

from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.scaled import Scaled
from pe_jax.geometry import inverse_timescales
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap

LLAMA = DIMS._replace(head=128, train_len=4096)
SCALED = [name for name, cls in ENCODINGS.items() if issubclass(cls, Scaled)]
TURNING = [*(name for name in SCALED if name != "drope"), "dynamic_ntk"]


def attended(spec, case=CASE, dims=DIMS, served=None):
    encodings = make(spec, dims) if isinstance(spec, str) else spec
    encodings = encodings if served is None else tuple(e.at(served) for e in encodings)
    return output(bind(encodings, contiguous=case is CASE), case)


def frequencies(spec, dims=LLAMA, served=None):
    e = one(spec, dims)
    return np.asarray((e.at(served) if served else e)._frequencies())


@pytest.mark.parametrize("case", [CASE, APART], ids=["contiguous", "scattered"])
@pytest.mark.parametrize("name", TURNING)
def test_within_the_training_length_a_scaling_is_rope_to_the_bit(name, case):
    for served in (1, 4, 8):
        want = attended("rope(base=50.0)", case)
        (swapped,) = swap(make("rope(base=50.0)", DIMS), name)
        np.testing.assert_array_equal(attended((swapped.at(served),), case), want)
    assert np.abs(attended((swapped.at(32),), case) - want).max() > 1e-3


@pytest.mark.parametrize("name", SCALED)
def test_the_factor_follows_the_length_unless_it_is_given(name):
    auto, fixed, shorter = (one(f"{name}{f}") for f in ("", "(factor=4.0)", "(length=4)"))
    assert [auto.at(length).factor for length in (4, 8, 12, 64)] == [1, 1, 1.5, 8]
    assert {fixed.at(length).factor for length in (4, 8, 64)} == {4}
    assert [shorter.at(length).factor for length in (4, 8, 64)] == [1, 2, 16]
    assert attended((shorter,)).tolist() == attended((shorter.at(8),)).tolist()
    with pytest.raises(ValueError, match="factor must be a finite number of at least 1"):
        one(f"{name}(factor=0.5)")


def test_ntk_slows_the_last_pair_as_interpolation_does_and_the_first_by_nothing():
    ratio = frequencies("rope") / frequencies("ntk(factor=8.0)")
    assert ratio[0] == 1 and ratio[-1] == pytest.approx(8, rel=1e-4)
    assert (np.diff(ratio) > 0).all()
    assert frequencies("ntk(factor=8.0)", DIMS._replace(head=2)).tolist() == [1]


def test_dynamic_ntk_with_a_factor_of_1_is_ntk_at_every_length():
    for served in (4096, 5000, 65536):
        got = frequencies("dynamic_ntk(factor=1.0)", served=served)
        np.testing.assert_array_equal(got, frequencies("ntk", served=served))
    assert one("dynamic_ntk(served=64)").at(8).served == 64


def test_parts_are_kept_or_interpolated_by_how_often_they_turn():
    """Beyond beta or `high` turns within L nothing changes, below alpha or `low` all is divided."""
    w = frequencies("rope").astype(np.float64)
    turns = 4096 * w / (2 * math.pi)
    for spec, low, high in (
        ("yarn(variant='paper',factor=16.0)", 1, 32),
        ("llama3(factor=16.0)", 1, 4),
        ("llama3(factor=16.0,low=2.0,high=50.0)", 2, 50),
    ):
        ratio = w / frequencies(spec)
        np.testing.assert_allclose(ratio[turns > high], 1, rtol=1e-5)
        np.testing.assert_allclose(ratio[turns < low], 16, rtol=1e-5)
        between = ratio[(turns > low) & (turns < high)]
        assert len(between) > 4 and (1 < between).all() and (between < 16).all()
    paper, code = (w / frequencies(f"yarn(variant='{v}',factor=16.0)") for v in ("paper", "code"))
    kept = [(1 / ratio - 1 / 16) / (1 - 1 / 16) for ratio in (paper, code)]
    assert 0.36 < np.abs(kept[0] - kept[1]).max() < 0.51  # pairs 20 to 46 of the 64
    moved = np.flatnonzero((code > 1.0001) & (code < 15.999))
    assert (moved[0], moved[-1]) == (21, 45)


def test_yarn_turns_its_ramp_round_where_all_pairs_are_beyond_one_end():
    """As its authors' code: all are interpolated where all turn often, none where none does."""
    for of_yarn, base, slower in (
        ("beta=2.0,length=30000", 4.0, 4),
        ("alpha=8.0,length=16", 100.0, 1),
    ):
        got = frequencies(f"yarn(factor=4.0,base={base},{of_yarn})")
        np.testing.assert_allclose(got, frequencies(f"rope(base={base})") / slower, rtol=1e-6)


def test_mrrope_slows_between_the_ends_of_yarn_evenly_or_later():
    """Its authors' example: the pairs 20 to 46 of Llama's 64, s = 16."""
    w = frequencies("rope").astype(np.float64)
    uni, pro = (w / frequencies(f"mrrope(variant='{v}',factor=16.0)") for v in ("uni", "pro"))
    for ratio in (uni, pro):
        np.testing.assert_allclose(ratio[:21], 1, rtol=1e-5)
        np.testing.assert_allclose(ratio[46:], 16, rtol=1e-5)
    np.testing.assert_allclose(np.diff(np.log(uni[20:47])), math.log(16) / 26, rtol=1e-3)
    steps = np.diff(np.log(pro[20:47]))
    np.testing.assert_allclose(steps, 2 * np.arange(1, 27) * math.log(16) / (26 * 27), rtol=1e-2)


def test_clipped_rope_takes_the_slow_pairs_down_to_nothing():
    w = frequencies("rope(base=500000.0)").astype(np.float64)
    llama3 = LLAMA._replace(train_len=8192)
    by_wavelength = frequencies("clipped_rope(base=500000.0)", llama3) / w
    twenty = frequencies("clipped_rope(base=500000.0,pairs=20)", llama3) / w
    for ratio, n in ((by_wavelength, 29), (twenty, 20)):
        np.testing.assert_allclose(ratio[: 65 - n], 1, rtol=1e-5)
        assert ratio[-1] == 0 and (np.diff(ratio[64 - n :]) < 0).all()
    assert frequencies("clipped_rope(pairs=0)").tolist() == frequencies("rope").tolist()


def test_the_first_keys_of_streaming_are_next_to_its_window():
    e = one("streaming(window=5,sinks=2)")
    i, j = jnp.array([6, 7, 30]), jnp.arange(31)
    far, (q_pos, k_pos) = e.far(i, j), e.far_positions(i, j)
    n = np.where(far, q_pos[:, None] - k_pos[None], i[:, None] - j[None])
    assert n[:, :2].tolist() == [[6, 5], [6, 5], [6, 5]] and n[2, 26:].tolist() == [4, 3, 2, 1, 0]
    near = attended("streaming(window=5,sinks=0)")
    assert_near(near, attended("rope+window(window=5)"), 1e-6)


def test_the_temperatures_are_those_of_the_papers():
    pos = jnp.arange(3)
    for spec, want in (
        ("yarn(factor=16.0)", (0.1 * math.log(16) + 1) ** 2),
        ("yarn(factor=16.0,attention_factor=1.0)", 1),
        ("yarn(factor=16.0,mscale=0.2)", (0.2 * math.log(16) + 1) ** 2),
        ("mrrope(factor=16.0,mscale=0.0)", 1),
        ("longrope(factor=32.0)", 1 + math.log(32) / math.log(4096)),
        ("longrope(factor=32.0,attention_factor=1.5)", 1.5**2),
        ("longrope(attention_factor=1.5)", 1.5**2),  # within the training length, too
    ):
        np.testing.assert_allclose(one(spec, LLAMA).scale({}, pos), want, rtol=1e-6)


def test_longrope_changes_its_factors_beyond_the_training_length_and_spares_the_first_tokens():
    long, short = (2.0, 3.0, 4.0, 5.0), (1.5, 1.0, 1.0, 1.0)
    spec = f"longrope(long={long},short={short})"
    w = inverse_timescales(8)
    for served, factors in ((8, short), (9, long)):
        got = one(spec).at(served)._frequencies()
        np.testing.assert_allclose(got, w / np.array(factors), rtol=1e-6)
    x, pos = jnp.asarray(CASE.q), jnp.arange(LENGTH)
    spared = one(f"longrope(long={long},first=6)").at(32).qk({}, x, x, pos, pos)[0]
    rope, all_scaled = (
        one(s).at(32).qk({}, x, x, pos, pos)[0] for s in ("rope", f"longrope(long={long})")
    )
    assert_near(spared[:6], rope[:6], 1e-6)
    assert_near(spared[6:], all_scaled[6:], 1e-6)
    np.testing.assert_array_equal(
        attended("longrope", served=32), attended("longrope(factor=4.0,served=32)")
    )


# What scores far pairs at another distance


@pytest.mark.parametrize(
    "spec",
    [
        "rerope(window=60)",
        "leaky_rerope(window=60,factor=3.0)",
        "leaky_rerope(window=3,factor=1.0)",
        "self_extend(window=60,group=3)",
        "self_extend(window=3,group=1)",
        "lm_infinite(window=60)",
        "streaming(window=60)",
        "string(shift=60)",
        "string(shift=3,window=3)",
        "chunk(chunk=60,local=3)",
        "chunk(chunk=30,local=30)",
    ],
)
def test_what_leaves_every_distance_as_it_is_is_rope(spec):
    for case in (CASE, APART):
        assert_near(attended(spec, case), attended("rope", case), 1e-6)


@pytest.mark.parametrize(
    "name", ["leaky_rerope", "self_extend", "lm_infinite", "streaming", "chunk"]
)
def test_within_the_training_length_what_remaps_distances_is_rope(name):
    dims = DIMS._replace(train_len=LENGTH)
    assert_near(attended(name, served=LENGTH, dims=dims), attended("rope", dims=dims), 1e-6)
    assert np.abs(attended(name, served=LENGTH) - attended("rope")).max() > 1e-3


def test_leaky_rerope_lies_between_rope_and_rerope():
    far = attended("leaky_rerope(window=4,factor=1000000.0)")
    assert_near(far, attended("rerope(window=4)"), 1e-4)
    assert np.abs(attended("leaky_rerope(window=4,factor=3.0)") - far).max() > 1e-3


def test_lm_infinite_without_first_keys_is_a_window():
    assert_near(attended("lm_infinite(window=5,sinks=0)"), attended("rope+window(window=5)"), 1e-6)
    with_sinks = attended("lm_infinite(window=5,sinks=2)")
    assert np.abs(with_sinks - attended("rope+window(window=5,sinks=2)")).max() > 1e-3


def test_a_window_of_one_key_and_rerope_see_no_order():
    """At distance min(n, 1) all keys but the query's own are alike: their order is nothing."""
    order = np.arange(LENGTH)
    order[[0, LENGTH - 2]] = LENGTH - 2, 0
    swapped = CASE._replace(**{n: getattr(CASE, n)[order] for n in ("x", "q", "k", "v")})
    last = [attended("rerope(window=1)", case)[-1] for case in (CASE, swapped)]
    assert_near(*last, 1e-5)


def farthest(e, N):
    """The largest distance at which any pair of a text of N tokens is scored."""
    i = j = jnp.arange(800)  # one shape, so that operations are compiled once
    far, (q_pos, k_pos) = e.far(i, j), e.far_positions(i, j)
    n = np.where(far, q_pos[:, None] - k_pos[None], i[:, None] - j[None])
    return n[np.tril_indices(N)].max()


@pytest.mark.parametrize("name", ["rerope", "leaky_rerope", "self_extend", "lm_infinite", "chunk"])
def test_by_default_no_distance_is_beyond_those_of_training(name):
    for L, times in itertools.product((8, 64, 100), (1, 2, 4, 8)):
        e = one(name, DIMS._replace(train_len=L)).at(times * L)
        most = L if name == "lm_infinite" else L - 1
        assert farthest(e, times * L) <= most


def test_self_extend_takes_the_smallest_groups_that_its_rule_allows():
    for L, N in ((64, 128), (64, 512), (100, 250)):
        e = one("self_extend", DIMS._replace(train_len=L)).at(N)
        W, G = L // 4, e.group
        assert W + (N - W) / G < 2 * L / 3 <= W + (N - W) / (G - 1)


# RoPE taken away


def test_drope_is_nope_within_the_training_length_and_sharper_beyond():
    np.testing.assert_array_equal(attended("drope", served=8), attended("nope"))
    hotter = CASE._replace(q=(1 + 0.412 * math.log(4)) * CASE.q)
    assert_near(attended("drope", served=32), attended("nope", hotter), 1e-6)
    np.testing.assert_array_equal(attended("drope(c=0.0)", served=32), attended("nope"))


def test_swapped_in_for_rope_drope_takes_it_away_and_nope_does_not():
    model = make("t5+rope", DIMS)
    assert swap(model, "drope") == make("t5+drope", DIMS)
    assert swap(model, "nope") == make("t5+rope+nope", DIMS)
