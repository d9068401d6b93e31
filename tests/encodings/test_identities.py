"""Identities, limits, initial values and defaults of encodings that their formulas do not show."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_published as reference
from cases import APART, CASE, LENGTH, one
from helpers import DIMS, assert_near, bind, example, folded, layer, output
from reference_case import alibi_slopes, attention

from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.dense import attend
from pe_jax.encoding import HIDDEN, overrides
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.resonance import Resonance
from pe_jax.encodings.scaled import Scaled
from pe_jax.errors import Refused
from pe_jax.runs.run import Run
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap

SCALED = [name for name, cls in ENCODINGS.items() if issubclass(cls, Scaled)]
TURNING = [*(name for name in SCALED if name != "drope"), "dynamic_ntk"]
AS_ROPE = """
p_rope(p=1.0) partial_rope(rotary_pct=1.0) xpos(scale_base=1e8) clipped_rope(pairs=0) lerope carope
shape(max_shift=0)+rope cape(max_shift=0.0,max_jitter=0.0,max_scale=1.0)+rope rerope(window=60)
cape(max_shift=0.0,max_jitter=0.0,max_scale=1.0,centred=True)+rope lm_infinite(window=60)
leaky_rerope(window=60,factor=3.0) leaky_rerope(window=3,factor=1.0) streaming(window=60)
self_extend(window=60,group=3) self_extend(window=3,group=1) string(shift=60)
string(shift=3,window=3) chunk(chunk=60,local=3) chunk(chunk=30,local=30)
""".split()
EQUAL = [  # with the parameters that they begin with
    *((spec, "rope") for spec in AS_ROPE),
    *((spec, "nope") for spec in ("p_rope(p=0.0)", "urpe", "multiplicative(length=60)", "drope")),
    *((spec, "alibi") for spec in ("alibi(learned=True)", "bam")),
    ("alibi(learned=True,slope_scale=4.0)", "alibi(slope_scale=4.0)"),
    ("sinusoidal(merge='concatenate')", "sinusoidal"),
    ("lm_infinite(window=5,sinks=0)", "rope+window(window=5)"),
    ("streaming(window=5,sinks=0)", "rope+window(window=5)"),
]
COUNTS_TOKENS = {"carope", "lm_infinite(window=5,sinks=0)", "streaming(window=5,sinks=0)"}


def attended(spec, case=CASE, dims=DIMS, served=None, form=output, **params):
    """The attention of a spec or of encodings, with these parameters in place of the first's."""
    encodings = make(spec, dims) if isinstance(spec, str) else spec
    encodings = encodings if served is None else tuple(e.at(served) for e in encodings)
    moved = any(overrides(e, "positions") for e in encodings)
    pe = bind(encodings, contiguous=case is CASE and not moved, spread=0.0)
    given = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    pe = dataclasses.replace(pe, params=(pe.params[0] | given, *pe.params[1:]))
    return form(pe, case._replace(pos=folded(encodings, case)))


def embedded(spec, pos, x=None, dims=DIMS, spread=0.3):
    """What an encoding of the input makes of one sequence, unless given of zeros."""
    pe, pos = bind(make(spec, dims), spread=spread), jnp.asarray(pos)
    x = jnp.zeros((len(pos), dims.model)) if x is None else x
    return np.asarray(pe.encodings[0].embed(pe.params[0], x, jnp.zeros(len(pos), int), pos))


@pytest.mark.parametrize(("spec", "other"), EQUAL)
def test_one_is_the_other(spec, other):
    tolerance = 1e-4 if spec == "bam" else 1e-5  # it adds 1e-5 to distances
    for case in (CASE,) if spec in COUNTS_TOKENS else (CASE, APART):
        got, want = (attended(each, case, form=layer) for each in (spec, other))
        assert_near(got, want, tolerance)


def test_the_length_of_a_text_is_taken_unless_one_is_given():
    for name, field in (("normalized", "length"), ("rnn", "length"), ("dynamic_ntk", "served")):
        lengths = [getattr(one(name + given).at(32), field) for given in ("", f"({field}=64)")]
        assert lengths == [32, 64], name


# Encodings of the input


def test_initial_vectors_of_the_index_have_the_scale_of_tokens():
    (last,) = embedded("integer", [DIMS.train_len], spread=0.0)
    assert 0.5 < np.sqrt((last**2).mean()) < 2


def test_positions_of_more_bits_than_the_table_are_not_numbers():
    assert np.isnan(embedded("binary(bits=5)", [32, 64])).all()
    assert np.isfinite(embedded("binary(bits=31)", [2**31 - 1])).all()


def test_hierarchical_swaps_in_on_a_learned_table():
    model = make("learned(length=6)+t5", DIMS)
    swapped = swap(model, "hierarchical")
    assert swapped == (*make("hierarchical(length=6)", DIMS), model[1])
    assert [e.limit() for e in (model[0], swapped[0])] == [6, 36]


def test_floater_follows_one_path_for_any_positions():
    dims = DIMS._replace(train_len=64)
    whole = embedded("floater", np.arange(LENGTH), dims=dims)
    halves = embedded("floater", np.arange(2 * LENGTH) / 2, dims=dims)
    assert_near(halves[::2], whole, 1e-4)
    assert_near(embedded("floater", [0, 2, 1, 4], dims=dims), whole[[0, 2, 1, 4]], 1e-4)
    one_step, five = (
        embedded(f"floater(steps={n})", np.arange(64), dims=dims, spread=0.0) for n in (1, 5)
    )
    assert_near(one_step, five, 1e-5)


@pytest.mark.parametrize("name", ["learned", "hierarchical", "multiplicative", "binary", "rnn"])
def test_fractional_positions_are_refused_by_tables(name):
    with pytest.raises(Refused, match="defined at whole positions"):
        embedded(name, jnp.arange(8) + 0.5)


# Biases, position maps and temperatures


@pytest.mark.parametrize("name", ["kerple_log", "kerple_power"])
def test_clamped_parameters_have_gradients(name):
    e, n = one(name), jnp.arange(5)
    high = {"kerple_log": 5.0, "kerple_power": 2.0}[name]
    wild = {"a": jnp.array([-3.0, 0.5, 0.5]), "p": jnp.array([0.5, -1.0, 5.0])}
    tame = {"a": jnp.array([0.01, 0.5, 0.5]), "p": jnp.array([0.5, 0.01, high])}
    np.testing.assert_allclose(e.relative_bias(wild, n), e.relative_bias(tame, n), rtol=1e-5)
    slope = jax.grad(lambda params: e.relative_bias(params, n).sum())(wild)
    assert all((np.isfinite(s) & (s != 0)).all() for s in slope.values())


def test_the_prior_of_dape_is_clamped_with_gradients():
    e, case = one("dape(prior='kerple_log')"), example(LENGTH)
    (params,) = bind((e,)).params
    logits = jnp.zeros((DIMS.heads, LENGTH, LENGTH))

    @jax.jit
    def total(low):
        given = (params | low, logits, case.q, case.k, case.pos, case.pos)
        return (e.logits(*given) ** 2).sum()

    low, least = (
        {name: jnp.full(DIMS.heads, value) for name, value in zip("ap", values, strict=True)}
        for values in ((1e-3, -1.0), (0.01, 0.01))
    )
    value, gradient = jax.value_and_grad(total)(low)
    assert float(value) == pytest.approx(float(total(least)), rel=1e-5)
    assert all(np.abs(slope).min() > 0 for slope in gradient.values())


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


def test_jordan_rope_is_not_a_number_where_float32_ends_and_exact_before():
    (e,), x = make("jordan_rope(c=8.0)", DIMS), jnp.ones((2, 3, 8))
    for length, finite in ((160, True), (169, False)):  # 84 / 8 training lengths on each side of m
        q, _ = e.at(length).qk(e.init(None), x, x, jnp.array([0, length - 1]), jnp.zeros(2))
        assert np.isfinite(q).all() == finite


def test_shape_and_cape_draw_in_training_alone():
    tokens, pos = jnp.zeros(50, jnp.int32), jnp.arange(50)
    for spec in ("shape", "cape"):
        e = one(spec)
        np.testing.assert_array_equal(e.positions(tokens, pos, None, False), pos)
        with pytest.raises(ValueError, match="draws positions: pass `key`"):
            e.positions(tokens, pos, None, True)


@pytest.mark.parametrize("length", (2, 8, 64))
def test_ssmax_begins_with_logits_as_large_as_without_it(length):
    e = one("ssmax", DIMS._replace(train_len=length))
    scale = e.scale(e.init(jax.random.key(0)), jnp.arange(length))
    assert np.mean(scale) == pytest.approx(1, abs=1e-6)


def test_fields_at_the_ends_of_their_ranges_are_finite(subtests):
    for spec, dims in (
        ("pj_bias(order=20)", {"train_len": 1}),
        ("cpb(variant='code')", {"train_len": 1}),
        ("resonance(base=0.005)", {}),
        ("hierarchical(length=46341,clip=True)", {}),
        ("evq_cosh(tau=700.0)", {}),
    ):
        with subtests.test(spec=spec):
            pe = bind(make(spec, DIMS._replace(**dims)))
            assert np.isfinite(layer(pe, example(LENGTH))).all()


def test_the_angles_of_carope_do_not_drift_token_by_token():
    e = one("carope", DIMS._replace(heads=1, head=64, model=8))
    x, params = jnp.zeros((8192, 8)), e.init(jax.random.key(0))

    def step(before, x):
        located = e.locate(params, x[None], jnp.arange(1), before)[0]
        return located, located

    by_token = jax.jit(lambda x: jax.lax.scan(step, jnp.zeros((1, 32)), x)[1])(x)
    drift = by_token - jax.jit(lambda x: e.locate(params, x, jnp.arange(len(x)), None))(x)
    assert np.abs(np.sin(drift / 2)).max() < 5e-3


def test_evq_cosh_with_a_small_tau_is_spaced_as_rope():
    (e,), (rope,) = make("evq_cosh(tau=1e-4)", DIMS), make("rope", DIMS)
    half_a_step = DIMS.head**-1.0
    want = rope._frequencies() * rope.base**-half_a_step
    np.testing.assert_allclose(e._frequencies(), want, rtol=1e-4)


# Rotations


def test_resonance_is_as_exact_far_out_as_at_the_start():
    q, k, pos = jnp.asarray(CASE.q), jnp.asarray(CASE.k), jnp.arange(LENGTH)

    def dots(shift):
        rotated = one("resonance").qk({}, q, k, pos + shift, pos + shift)
        return jnp.einsum("thk,shk->hts", *rotated)

    assert_near(dots(10**6), dots(0), 1e-5)
    whole = math.lcm(6, 63, 628, 6283)  # a turn of every pair
    np.testing.assert_array_equal(dots(whole), dots(0))


def test_fope_sums_over_the_frequencies_that_training_turns():
    """Two of four pairs, and all of them."""
    for train_len in (64, 2**13):
        pe = bind((one("fope", DIMS._replace(train_len=train_len)),))
        exact = jax.tree.map(np.float64, pe.params[0])
        want = reference.fope(pe.encodings[0], exact, CASE)["attend"]
        assert_near(output(pe, CASE), want, 1e-5)


def test_the_coefficients_of_fope_are_drawn_and_not_learned():
    run = Run.of({"pe": {"spec": "fope"}})
    assert run.parameters() == Run.of({"pe": {"spec": "rope"}}).parameters()
    draw = one("fope(std=0.5)", DIMS._replace(model=128, heads=2, head=64)).init(jax.random.key(0))
    for coefficients in draw.values():
        noise = coefficients - jnp.eye(32)[None]
        assert np.std(noise) == pytest.approx(0.5 / math.sqrt(32), rel=0.1)


def test_what_has_no_coefficients_cannot_become_fope():
    with pytest.raises(ValueError, match=r"needs parameters \(cos, sin\)"):
        swap(make("t5+rope", DIMS), "fope")
    with pytest.raises(ValueError, match="needs parameters"):
        swap(make("dape", DIMS), "dape_v2")
    assert swap(make("fope", DIMS), "fope(base=50.0)") == make("fope(base=50.0)", DIMS)
    assert type(swap(make("rope", DIMS), "resonance")[0]) is Resonance


def test_the_offset_of_pope_stays_in_its_bounds_and_comes_back():
    @jax.jit
    def logits(delta):
        here, there = jnp.arange(2) + 5, jnp.arange(2)
        q, k = one("pope").qk({"delta": delta}, CASE.q[:2], CASE.k[:2], here, there)
        return (q * k).sum()

    for outside, bound in ((1.0, 0.0), (-7.0, -2 * math.pi)):
        beyond, at = jnp.full((3, 8), outside), jnp.full((3, 8), bound)
        assert float(logits(beyond)) == pytest.approx(float(logits(at)), rel=1e-5)
        assert (jax.grad(logits)(beyond) != 0).all()


def test_mapformer_begins_with_rates_down_to_one_turn_in_the_longest_distance():
    for spec, longest in (("mapformer", 8), ("mapformer(omega=1.0,longest=50)", 50)):
        (omega, *others) = np.asarray(bind((one(spec),), spread=0.0).params[0]["omega"], np.float64)
        most = 1.0 if "omega" in spec else 2 * np.pi
        assert omega[-1] == pytest.approx(2 * np.pi / longest, rel=1e-5)
        ratios = omega / np.array([most, *omega[:-1]])
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-5)
        assert all((omega == other).all() for other in others)


# Scalings of RoPE


@pytest.mark.parametrize("name", TURNING)
def test_within_the_training_length_a_scaling_is_rope_to_the_bit(name):
    want = attended("rope(base=50.0)", APART)
    (swapped,) = swap(make("rope(base=50.0)", DIMS), name)
    for served in (1, 4, 8):
        np.testing.assert_array_equal(attended((swapped.at(served),), APART), want)
    assert np.abs(attended((swapped.at(32),), APART) - want).max() > 1e-3


@pytest.mark.parametrize("name", SCALED)
def test_the_factor_follows_the_length_unless_it_is_given(name):
    auto, fixed, shorter = (one(f"{name}{f}") for f in ("", "(factor=4.0)", "(length=4)"))
    assert [auto.at(length).factor for length in (4, 8, 12, 64)] == [1, 1, 1.5, 8]
    assert {fixed.at(length).factor for length in (4, 8, 64)} == {4}
    assert [shorter.at(length).factor for length in (4, 8, 64)] == [1, 2, 16]
    assert attended((shorter,)).tolist() == attended((shorter.at(8),)).tolist()
    with pytest.raises(ValueError, match="factor must be a finite number of at least 1"):
        one(f"{name}(factor=0.5)")


def test_yarn_turns_its_ramp_round_where_all_pairs_are_beyond_one_end():
    """As its authors' code: all are interpolated where all turn often, none where none does."""
    llama = DIMS._replace(head=128, train_len=4096)
    for of_yarn, base, slower in (
        ("beta=2.0,length=30000", 4.0, 4),
        ("alpha=8.0,length=16", 100.0, 1),
    ):
        yarn = one(f"yarn(factor=4.0,base={base},{of_yarn})", llama)
        want = one(f"rope(base={base})", llama)._frequencies() / slower
        np.testing.assert_allclose(yarn._frequencies(), want, rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["leaky_rerope", "self_extend", "lm_infinite", "streaming", "chunk"]
)
def test_within_the_training_length_remapped_distances_are_those_of_rope(name):
    dims = DIMS._replace(train_len=LENGTH)
    assert_near(attended(name, served=LENGTH, dims=dims), attended("rope", dims=dims), 1e-6)
    assert np.abs(attended(name, served=LENGTH) - attended("rope")).max() > 1e-3


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


def test_swapped_in_for_rope_drope_takes_it_away_and_nope_does_not():
    model = make("t5+rope", DIMS)
    assert swap(model, "drope") == make("t5+drope", DIMS)
    assert swap(model, "nope") == make("t5+rope+nope", DIMS)


# Encodings that read content


def test_a_forget_gate_begins_with_a_memory_of_the_training_length():
    for spec, gate in (("forget_gate", 8 / 9), ("forget_gate(start=0.0)", 0.5)):
        b = bind(make(spec, DIMS), spread=0.0).params[0]["b"]
        assert_near(1 / (1 + np.exp(-b)), np.full(DIMS.heads, gate), 1e-6)


def test_a_constant_forget_gate_is_alibi():
    """ln sigmoid(b) = -m where b = -ln(e^m - 1)."""
    b = [-math.log(math.expm1(m)) for m in alibi_slopes(DIMS.heads)]
    same = attended("forget_gate", w=np.zeros((DIMS.model, DIMS.heads)), b=b)
    assert_near(same, attended("alibi"), 1e-5)


@pytest.mark.parametrize("length", (8, 33, 64))
def test_training_reaches_every_row_of_cope_and_the_table_says_from_which_length(length):
    e = one("cope", DIMS._replace(train_len=length))
    pe, case = bind((e,), spread=0.0), example(length)

    def loss(params):
        return (output(dataclasses.replace(pe, params=params), case) ** 2).sum()

    (gradient,) = jax.grad(loss)(pe.params)
    assert np.abs(gradient["table"]).max(1).min() > 0
    assert e.trained_from() == length // 2 * 2 and len(gradient["table"]) == length // 2 + 1
    assert one("cope", DIMS._replace(train_len=2048)).trained_from() == 126


def test_the_gates_of_cope_do_not_see_other_members():
    """ALiBi changes its logits and not its counts."""
    case, table = example(LENGTH), np.random.default_rng(0).normal(size=(8, DIMS.head))
    slope = alibi_slopes(DIMS.heads)

    def logit(i, j, h):
        count = min(sum(1 / (1 + math.exp(-case.dot(i, t, h))) for t in range(j, i + 1)), 7)
        low, part = int(count), count - int(count)
        e = (1 - part) * table[low] + part * table[min(low + 1, 7)]
        return case.dot(i, j, h) + case.q[i, h] @ e / math.sqrt(DIMS.head) - slope[h] * (i - j)

    assert_near(attended("cope(rows=8)+alibi", table=table), attention(case, logit), 1e-5)


@pytest.mark.parametrize("k", [4, 16, 64, 256])
def test_the_buckets_of_deberta_v2(k):
    """Of the differences -3000 .. 3000, in double precision: the code's make_log_bucket_position
    with 2k as its farthest, and its clip.
    """
    m, exact = np.arange(-3000, 3001), k // 2
    near = np.abs(m) <= exact
    per_log = (exact - 1) / np.log((2 * k - 1) / exact)
    far = np.ceil(per_log * np.log(np.where(near, exact, np.abs(m)) / exact) - 1e-9) + exact
    want = np.clip(np.where(near, m, np.sign(m) * far) + k, 0, 2 * k - 1)

    (e,) = make(f"deberta(clip={k},variant='v2')", DIMS._replace(model=1, heads=1, head=1))
    own = {"table": jnp.arange(2.0 * k)[:, None], "key": jnp.ones((1, 1, 1))}
    np.testing.assert_array_equal(e.relative_keys(own, m)[0, :, 0], want)


def test_lengths_follow_the_training_length_up_to_those_of_the_papers():
    for spec, name, of_8, of_4096 in (
        ("shaw", "keys", 8, 17),
        ("urpe", "c", 8, 4096),
        ("cope", "table", 5, 64),
        ("tupe", "table", 8, 4096),
        ("deberta", "table", 14, 1024),
        ("deberta(variant='v2')", "table", 8, 512),
    ):
        for train_len, rows in ((8, of_8), (4096, of_4096)):
            (e,) = make(spec, DIMS._replace(train_len=train_len))
            shape = jax.eval_shape(e.init, jax.random.key(0))[name].shape
            assert shape[1 if name == "c" else 0] == rows, (spec, train_len)


def test_one_does_not_see_oneself_through_a_window_either():
    alone = attended("stick_breaking+window(window=1)")
    np.testing.assert_array_equal(alone, 0 * alone)
    nearest = attended("stick_breaking+window(window=2,sinks=1)", CASE._replace(v=CASE.v + 2))
    s = np.einsum("thk,shk->hts", CASE.q, CASE.k) / math.sqrt(8)
    near, far = (1 / (1 + np.exp(-s[:, LENGTH - 1, j])) for j in (LENGTH - 2, 0))
    v = CASE.v + 2
    want = near[:, None] * v[-2] + ((1 - near) * far)[:, None] * v[0]
    assert_near(nearest[-1], want, 1e-5)


# PaTH


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


def test_a_temperature_grows_at_every_multiple_of_its_length():
    (e,) = make("temperature_tuning(length=41)", DIMS)
    scale = jax.jit(e.scale)({}, jnp.array([39, 40, 80, 81]))[:, 0]
    np.testing.assert_allclose(scale, 1 + 0.1 * np.log1p([0, 1, 1, 2]), rtol=1e-6)
