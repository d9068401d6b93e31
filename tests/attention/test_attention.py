"""Attention: dense against loops in NumPy, blockwise against dense, and what a mask must hide."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_case
from cases import CASES, WIDE, both_ways, encodings, serves_both_directions
from exotic import EXOTIC, Capped, MixKeys, PairGate
from helpers import (
    DIMS,
    assert_near,
    bind,
    example,
    fewest,
    folded,
    layer,
    output,
    rows,
    sampled,
    scattered,
    take,
    traits,
)

from pe_jax import geometry
from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.choose import choose
from pe_jax.attention.dense import attend
from pe_jax.attention.relative import Tables, shift, unshift
from pe_jax.encoding import RELATIVE, Encoding, overrides, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.nope import NoPE
from pe_jax.encodings.shaw import Shaw
from pe_jax.encodings.t5 import T5
from pe_jax.encodings.window import Window
from pe_jax.specs.parse import make

CLIPPED = [  # constant from a distance that blocks of these tests exceed
    "shaw(clip=3)",
    "deberta(clip=3)",
    "urpe(rows=4)",
    "t5(buckets=4,max_distance=3)+nezha(clip=2)",
    "t5(buckets=4,max_distance=3)+alibi",  # one that is not: none are
]
OUTSIDE = {"embed", "mix", "at", "limit", "highest_position", "trained_from"}
"""What attention does not see."""
APART = {*CLIPPED, "pope"}  # whose `qk` gives the products more components than a head has
LENGTH, QUERIES, BLOCK = 20, 13, 8
blockwise = functools.partial(attend_blockwise, block=BLOCK)


def names_with(*hooks):
    return [n for n in CASES if any(overrides(e, h) for e in encodings(n) for h in hooks)]


def numpy(params):
    return jax.tree.map(lambda a: np.asarray(a, np.float64), params)


def settings():
    """(name, kind): a memory before the queries, and both directions for all that serve them;
    scattered positions where attention lays distances out or masks.
    """
    for name in CLIPPED:
        yield from ((name, "memory"), (name, "bidirectional"))
    for name in CASES:
        used = {hook for e in encodings(name) for hook in sites(e)}
        if "positions" in used:
            yield name, "scattered"
        else:
            yield name, "memory"
            relative = used & {*RELATIVE, "reach"} and (name in ENCODINGS or name in EXOTIC)
            if name == "nope" or relative:
                yield name, "scattered"
        if name not in CLIPPED and serves_both_directions(name):
            yield name, "bidirectional"


def kinds(name, kind):
    """How tiles are put together depends on the hooks alone."""
    return {(kind, name in APART, trait) for trait in traits(encodings(name)) - OUTSIDE}


def setting(name, kind):
    """(bound, case, queries): a memory before the queries; scattered positions; both directions."""
    dims = WIDE._replace(causal=kind != "bidirectional")
    members = encodings(name, dims)
    moved = any(overrides(e, "positions") for e in members)
    case = example(LENGTH, dims)
    pos = scattered(LENGTH, 60) if kind == "scattered" else case.pos
    if moved:
        pos = folded(members, case._replace(pos=pos))
    pe = bind(members, contiguous=not moved and kind != "scattered")
    return pe, case._replace(pos=pos), LENGTH if kind == "scattered" else QUERIES


@pytest.mark.parametrize(("name", "kind"), fewest(settings(), kinds))
def test_blockwise_is_dense_and_neither_sees_the_future(name, kind):
    pe, case, queries = setting(name, kind)
    shape = (queries, *case.v.shape[1:])
    towards = np.random.default_rng(1).normal(size=shape).astype(np.float32)

    @jax.jit
    def both(params, inputs):
        def run(form, params, inputs):
            out = layer(
                dataclasses.replace(pe, params=params), case._replace(**inputs), queries, form
            )
            return (out * towards).sum(), out

        return [
            jax.value_and_grad(functools.partial(run, form), argnums=(0, 1), has_aux=True)(
                params, inputs
            )
            for form in (attend, blockwise)
        ]

    inputs = {name: getattr(case, name) for name in "xqkv"}
    ((_, dense), dense_slope), ((_, blocks), blocks_slope) = both(pe.params, inputs)
    assert_near(blocks, dense, 1e-5, "output")
    for (path, got), want in zip(
        jax.tree.leaves_with_path(blocks_slope), jax.tree.leaves(dense_slope), strict=True
    ):
        assert_near(got, want, 1e-5, f"gradient {jax.tree_util.keystr(path)}")
    if kind == "bidirectional":
        return
    cut = queries // 2
    first = LENGTH - queries + cut
    later = {n: np.concatenate([a[:first], a[first:][::-1] + 1]) for n, a in inputs.items()}
    for before, ((_, after), _) in zip((dense, blocks), both(pe.params, later), strict=True):
        np.testing.assert_array_equal(after[:cut], before[:cut])
        assert not np.array_equal(after[cut:], before[cut:])


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("name", EXOTIC)
def test_attention_is_what_loops_compute(name, causal):
    cls, formula = EXOTIC[name]
    dims = WIDE._replace(causal=causal)
    e, case = cls(dims), example(9, dims)
    for contiguous, pos in ((True, case.pos + 3), (False, scattered(9, 30))):
        pe, here = bind((e,), contiguous), case._replace(pos=pos)
        want = formula(e, numpy(pe.params[0]), here)
        assert_near(output(pe, here), want, 1e-5, f"contiguous={contiguous}")
        assert_near(output(pe, here, 4), want[-4:], 1e-5, "the last 4 queries")


@pytest.mark.parametrize(
    ("form", "causal"),
    [(attend, True), (blockwise, True), (blockwise, False)],
    ids=["dense", "blockwise", "bidirectional"],
)
def test_relative_hooks_that_are_looked_up_are_those_of_every_pair(causal, form):
    dims = DIMS._replace(causal=causal)
    pe = bind(make("shaw+t5+urpe+deberta", dims), contiguous=False)
    case = example(LENGTH, dims)._replace(pos=scattered(LENGTH, 24))
    known = dataclasses.replace(pe, below=24).tabulated(LENGTH, LENGTH)
    assert known.tables and not pe.tabulated(LENGTH, LENGTH).tables
    assert not dataclasses.replace(pe, below=26).tabulated(LENGTH, LENGTH).tables  # of few pairs
    want = layer(pe, case, LENGTH, form)
    assert_near(layer(known, case, LENGTH, form), want, 1e-5)
    for hook, table in known.tables.items():
        broken = dataclasses.replace(known, tables=known.tables | {hook: 0 * table})
        assert not np.allclose(layer(broken, case, LENGTH, form), want), hook


def test_the_order_of_scale_rotation_relative_keys_gate_and_values():
    """Relative keys meet the scaled, unrotated query; the gate weighs the values' rows too."""
    pe = bind(make("ssmax+rope+shaw+urpe", WIDE))
    case = example(9, WIDE)
    scale, _, shaw, gate = (numpy(p) for p in pe.params)
    grown = [scale["s"] * math.log(i + 1) for i in range(9)]
    scaled = case._replace(q=np.array([g[:, None] * q for g, q in zip(grown, case.q, strict=True)]))
    turned = rotated(scaled)

    def logit(i, j, h):
        q = scaled.q[i, h] / math.sqrt(WIDE.head)
        return turned.dot(i, j, h) + q @ shaw["keys"][i - j]

    want = reference_case.attention(
        case,
        logit,
        gate=lambda i, j, h: gate["c"][h, i - j],
        value=lambda i, j, h: shaw["values"][i - j],
    )
    assert_near(output(pe, case), want, 1e-5)


def rotated(case):
    """The case with queries and keys turned by their positions (Su et al., 2021, eq. 14)."""
    half = case.q.shape[-1] // 2
    angle = np.array([[p * 10000 ** (-c / half) for c in range(half)] for p in case.pos])[:, None]
    turn = np.exp(1j * angle)

    def one(x):
        z = (x[..., :half] + 1j * x[..., half:]) * turn
        return np.concatenate([z.real, z.imag], -1)

    return case._replace(q=one(case.q), k=one(case.k))


def test_two_members_act_together():
    case = example(9, WIDE)
    turned = rotated(case)
    slope = reference_case.alibi_slopes(WIDE.heads)
    want = reference_case.attention(case, lambda i, j, h: turned.dot(i, j, h) - slope[h] * (i - j))
    assert_near(output(bind(make("rope+alibi", WIDE)), case), want, 1e-5, "rope+alibi")
    want = reference_case.attention(case, turned.dot, lambda i, j: i - j < 3 or j < 2)
    got = output(bind(make("rope+window(window=3,sinks=2)", WIDE)), case)
    assert_near(got, want, 1e-5, "rope+window")


def test_a_second_logits_hook_gets_hidden_keys_hidden_again():
    members, case = (Capped(WIDE), MixKeys(WIDE)), example(9, WIDE)
    pe = bind(members)
    m = numpy(pe.params[1])["m"]

    def cap(i, j, h):
        return 3 * math.tanh(case.dot(i, j, h) / 3)

    def logit(i, j, h):
        near = [(d, j + d - 1) for d in range(3) if 0 <= j + d - 1 <= i]
        return cap(i, j, h) + sum(m[d] * math.tanh(cap(i, t, h)) for d, t in near)

    assert_near(output(pe, case), reference_case.attention(case, logit), 1e-5)


def test_distances_between_float_positions_stay_floats():
    members = make("cape+alibi", WIDE)
    case = example(9, WIDE)
    case = case._replace(pos=folded(members, case))
    slope = reference_case.alibi_slopes(WIDE.heads)
    want = reference_case.attention(
        case, lambda i, j, h: case.dot(i, j, h) - slope[h] * max(case.distance(i, j), 0)
    )
    assert_near(output(bind(members, contiguous=False), case), want, 1e-5)


@pytest.mark.parametrize("name", sampled(names_with(*RELATIVE), encodings))
def test_relative_hooks_laid_out_are_those_asked_for_pair_by_pair(name):
    for causal in (True, False):
        dims = WIDE._replace(causal=causal)
        case = example(LENGTH, dims)._replace(pos=np.arange(5, 5 + LENGTH, dtype=np.int32))
        laid, asked = (output(bind(encodings(name, dims), c), case, QUERIES) for c in (True, False))
        assert_near(laid, asked, 1e-5, f"{causal=}")


def alone():
    """Encodings with such hooks, slow if composed: the members of a spec are called one by one."""
    for name in names_with("qk", "bias", "gate", "scale", "logits"):
        slow = () if name in ENCODINGS or name in EXOTIC else pytest.mark.slow
        yield pytest.param(name, marks=slow)


@pytest.mark.parametrize("name", list(alone()))
def test_hooks_on_a_block_are_the_block_of_the_whole(name):
    pe, case, _ = setting(name, "scattered")
    for hook, (got, want) in on_block_and_whole(pe, case.x, case.pos, case.q, case.k).items():
        assert_near(got, want, 1e-5 if hook == "logits" else 1e-6, hook)


@jax.jit
def on_block_and_whole(pe, x, pos, q, k):
    """For each hook and encoding what it gives for queries 9 to 14 and keys 4 to 10, and the same
    part of what it gives for all.
    """
    everything, found = rows(pe, x, pos), {}
    queries, keys = take(everything, 9, 6).coords, take(everything, 4, 7).coords
    for (i, e), params in zip(enumerate(pe.encodings), pe.params, strict=True):
        whole, pair = (everything.coords[i],) * 2, (queries[i], keys[i])
        if overrides(e, "qk"):
            block, of_all = e.qk(params, q[9:15], k[4:11], *pair), e.qk(params, q, k, *whole)
            found[f"queries {i}"] = block[0], of_all[0][9:15]
            found[f"keys {i}"] = block[1][e.keys_before :], of_all[1][4 + e.keys_before : 11]
        for hook in ("bias", "gate"):
            if overrides(e, hook):
                block, of_all = (getattr(e, hook)(params, *c) for c in (pair, whole))
                found[f"{hook} {i}"] = block, of_all[:, 9:15, 4:11]
        if overrides(e, "scale"):
            found[f"scale {i}"] = e.scale(params, pair[0]), e.scale(params, whole[0])[9:15]
        if overrides(e, "logits"):
            # A hook that needs whole rows gets all keys, but still any block of queries.
            here = slice(None) if e.whole_rows else slice(4, 11)
            s = jnp.einsum("thk,shk->hts", q, k)
            of_keys = jax.tree.map(lambda a, here=here: a[here], whole[1])
            block = e.logits(params, s[:, 9:15, here], q[9:15], k[here], pair[0], of_keys)
            found["logits"] = block, e.logits(params, s, q, k, *whole)[:, 9:15, here]
    return found


@pytest.mark.parametrize("name", ["t5", "shaw", "cope", "forget_gate", "stick_breaking", "rope"])
def test_a_key_of_index_minus_one_is_not_there(name):
    pe, case, _ = setting(name, "scattered" if name == "forget_gate" else "memory")
    x, q, k, v, pos = (jnp.asarray(a) for a in (case.x, case.q, case.k, case.v, case.pos))
    idx = jnp.where(jnp.arange(LENGTH) < 5, -1, jnp.arange(LENGTH))
    keys = rows(pe, x, pos)._replace(idx=idx)
    queries = take(keys, 12, 8)
    short = jax.tree.map(lambda a: a[5:], keys)
    for form in (jax.jit(attend), jax.jit(blockwise)):
        want = form(pe, q[12:], k[5:], v[5:], queries, short)
        for junk in (0.0, 100.0):
            got = form(pe, q[12:], k.at[:5].set(junk), v.at[:5].set(junk), queries, keys)
            assert_near(got, want, 1e-5, form)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        pytest.param("cope", 70, marks=pytest.mark.slow),
        ("stick_breaking", 70),
        ("stick_breaking", 90),
        ("dape_v2+t5", 70),
    ],
)
def test_whole_rows_end_where_a_quarter_of_the_queries_does(name, length):
    """Nine blocks, the last one short; keys behind the quarter's end would be hidden anyway. Not so
    with 20 keys before the queries.
    """
    members, case, queries = encodings(name), example(length, WIDE), 70
    inputs = [getattr(case, n) for n in "qkv"]

    @jax.jit
    def both(*inputs):
        def loss(form, *inputs):
            here = case._replace(**dict(zip("qkv", inputs, strict=True)))
            out = output(bind(members), here, queries, form=form)
            return (out * case.v[-queries:]).sum(), out

        return [
            jax.grad(functools.partial(loss, form), argnums=(0, 1, 2), has_aux=True)(*inputs)
            for form in (attend, blockwise)
        ]

    (slopes, dense), (got, blocks) = both(*inputs)
    assert_near(blocks, dense, 1e-5)
    for a, b, what in zip(got, slopes, "qkv", strict=True):
        assert_near(a, b, 1e-5, f"gradient {what}")


@pytest.mark.parametrize("name", ["t5", "shaw", "rope"])
def test_queries_in_the_middle_of_the_keys(name):
    pe, case, _ = setting(name, "memory")
    want = output(pe, case)
    q, k, v = (jnp.asarray(a) for a in (case.q, case.k, case.v))
    keys = rows(pe, jnp.asarray(case.x), jnp.asarray(case.pos))
    for form in (jax.jit(attend), jax.jit(blockwise)):
        got = form(pe, q[3:12], k, v, take(keys, 3, 9), keys)
        assert_near(got, want[3:12], 1e-5, form)


def test_prefix_sums_go_on_from_the_row_before():
    pe, case, _ = setting("forget_gate+rope", "memory")
    x, pos = jnp.asarray(case.x), jnp.asarray(case.pos)
    whole = pe.locate(x, pos)
    first = pe.locate(x[:7], pos[:7])
    last = jax.tree.map(lambda a: a[-1], first)
    second = pe.locate(x[7:], pos[7:], last)
    for got, want in zip(second, whole, strict=True):
        assert_near(got, want[7:], 1e-6)
    restarted = pe.locate(x[7:], pos[7:])
    assert np.abs(restarted[0] - whole[0][7:]).max() > 0.1


NARROW = {
    "transformer_xl+window": lambda dims: make("transformer_xl+window(window=6)", dims),
    "t5+two_windows": lambda dims: make(
        "t5+window(window=9,sinks=2)+window(window=5,sinks=6)", dims
    ),
    "shaw+pair_gate+window": lambda dims: (
        Shaw(dims, clip=4),
        PairGate(dims),
        Window(dims, 4, sinks=5),
    ),
    "deberta+window": lambda dims: make("deberta(clip=3)+window(window=9,sinks=6)", dims),
    "cape+alibi+wide_window": lambda dims: make("cape+alibi+window(window=15,sinks=1)", dims),
}


@pytest.mark.parametrize(("name", "causal"), both_ways(NARROW))
def test_blocks_that_a_window_leaves_out_change_nothing(name, causal):
    """41 keys in blocks of 4: queries at their end or in their middle, keys that are not there."""
    length, queries, absent = 41, 18, 11
    dims = WIDE._replace(causal=causal)
    members, case = NARROW[name](dims), example(length, dims)
    moved = any(overrides(e, "positions") for e in members)
    pe = bind(members, contiguous=not moved)
    pos = jnp.asarray(folded(members, case)) if moved else jnp.asarray(case.pos)
    towards = np.random.default_rng(1).normal(size=(queries, *case.v.shape[1:]))
    inputs = {n: jnp.asarray(getattr(case, n)) for n in "xqkv"}

    @jax.jit
    def both(params, inputs, idx, first):
        def loss(form, params, inputs):
            here = dataclasses.replace(pe, params=params)
            keys = rows(here, inputs["x"], pos)._replace(idx=idx)
            q = jax.lax.dynamic_slice_in_dim(inputs["q"], first, queries)
            out = form(here, q, inputs["k"], inputs["v"], take(keys, first, queries), keys)
            return (out * towards).sum(), out

        forms = attend, functools.partial(attend_blockwise, block=4)
        return [
            jax.value_and_grad(functools.partial(loss, form), argnums=(0, 1), has_aux=True)(
                params, inputs
            )
            for form in forms
        ]

    place = np.arange(length)
    for what, idx, first in (
        ("the last", place, length - queries),
        ("in the middle", place, 7),
        ("the first", place, 0),
        ("keys without the first", np.where(place < absent, -1, place), length - queries),
        ("keys that begin late", np.maximum(place - absent, -1), length - queries),
        ("queries at their begin", np.maximum(place - absent, -1), absent),
        ("keys of later places", place + 30, 13),
    ):
        ((_, dense), slopes), ((_, blocks), got) = both(pe.params, inputs, idx, first)
        assert_near(blocks, dense, 1e-5, what)
        for (path, a), b in zip(
            jax.tree.leaves_with_path(got), jax.tree.leaves(slopes), strict=True
        ):
            assert_near(a, b, 1e-5, f"{what}: gradient {jax.tree_util.keystr(path)}")


def visits(encoding, form, causal, batch=None, length=64):
    """How many pairs of blocks the encoding's bias is asked for.

    It reads positions alone, which the batch shares: vmap asks no more often, unless it makes the
    `cond` of a block a `select` of both branches.
    """
    calls = []

    class Counted(type(encoding)):
        def bias(self, params, q_pos, k_pos):
            jax.debug.callback(lambda _: calls.append(1), q_pos[0])
            return jnp.zeros((1, q_pos.shape[0], k_pos.shape[0]))

    case = example(length)
    pe = bind((Counted(**vars(encoding)),))
    pe = dataclasses.replace(pe, causal=causal)

    def run(x):
        return output(pe, case._replace(q=x), form=form)

    if batch:
        jax.vmap(run)(jnp.stack([case.q] * batch)).block_until_ready()
    else:
        run(case.q).block_until_ready()
    jax.effects_barrier()
    return len(calls)


@pytest.mark.parametrize(("causal", "batch"), [(True, None), (False, None), (True, 2)], ids=str)
def test_blocks_that_the_mask_empties_are_skipped(causal, batch):
    got = visits(NoPE(DIMS), functools.partial(attend_blockwise, block=8), causal, batch)
    assert got == (8 * 9 // 2 if causal else 64)


def test_blocks_between_the_reaches_of_two_tables_are_not_taken_for_constant():
    """Beyond a distance of 3 shaw is constant, and t5 beyond 20 at the latest."""
    pe, case = bind(make("shaw(clip=3)+t5(max_distance=20)", WIDE)), example(64)
    assert_near(output(pe, case, form=blockwise), output(pe, case), 1e-5)
    assert pe.constant_from == 20 and bind(make(CLIPPED[-1], WIDE)).constant_from is None


@pytest.mark.parametrize(("causal", "far"), [(True, 21), (False, 42)])
def test_blocks_beyond_where_hooks_are_constant_are_met_by_one_column(causal, far, monkeypatch):
    """8 blocks of 8: those at least two apart are 9 or more apart, beyond a clip of 3."""
    met, constant = [], Tables.constant

    def counted(tables):
        jax.debug.callback(lambda: met.append(1))
        return constant(tables)

    monkeypatch.setattr(Tables, "constant", counted)
    members, case = make("shaw(clip=3)", WIDE._replace(causal=causal)), example(64, WIDE)
    output(bind(members), case, form=blockwise).block_until_ready()
    output(bind(make("alibi", WIDE)), case, form=blockwise).block_until_ready()
    jax.effects_barrier()
    assert len(met) == far


@pytest.mark.parametrize(
    ("window", "sinks", "causal", "blocks"),
    [(8, 0, True, 2), (10, 3, True, 4), (10, 3, False, 5), (2, 9, True, 4)],
    ids=str,
)
def test_the_blocks_of_a_window_do_not_grow_with_the_length(window, sinks, causal, blocks):
    """`blocks` meet each block of 8 queries: ceil((window + 7) / 8), or both sides, and sinks."""
    form = functools.partial(attend_blockwise, block=8)
    half, full = (
        visits(Window(DIMS, window, sinks=sinks), form, causal, length=length)
        for length in (64, 128)
    )
    assert full - half == 8 * blocks
    assert half <= 8 * blocks


def carried(jaxpr):
    """Bytes of what the loops of a program have at hand at every step, besides their own share."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            inside = equation.params["jaxpr"].jaxpr.invars
            for outer, inner in zip(equation.invars, inside, strict=True):
                if outer.aval.shape == inner.aval.shape:  # a share lacks the axis of steps
                    total += outer.aval.size * outer.aval.dtype.itemsize
        for inner in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(inner, "jaxpr", inner)  # of a ClosedJaxpr
            total += carried(inner) if hasattr(inner, "eqns") else 0
    return total


@pytest.mark.parametrize("sinks", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_the_work_of_a_windowed_block_does_not_grow_with_the_length(sinks):
    """No loop holds all keys, nor all tiles, nor a gradient of their size."""

    def at_hand(members, length):
        case, pe = example(length, WIDE), bind(members)

        def loss(params, q, k, v):
            here = dataclasses.replace(pe, params=params)
            return output(here, case._replace(q=q, k=k, v=v), form=blockwise).sum()

        step = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
        return carried(jax.make_jaxpr(step)(pe.params, case.q, case.k, case.v).jaxpr)

    narrow = make(f"transformer_xl+window(window=12,sinks={sinks})", WIDE)
    assert at_hand(narrow, 256) == at_hand(narrow, 128)
    assert at_hand(narrow[:1], 256) > 1.5 * at_hand(narrow[:1], 128)


def gradient_memory(name, length, form):
    """Bytes of temporaries of the compiled gradient of one attention."""
    case = example(length, WIDE)
    pe = bind(encodings(name))

    def loss(params, q, k, v):
        here = case._replace(q=q, k=k, v=v)
        return output(dataclasses.replace(pe, params=params), here, form=form).sum()

    step = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))
    compiled = step.lower(pe.params, case.q, case.k, case.v).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.slow  # by default test_linear_memory holds what a gradient keeps, by its program
@pytest.mark.parametrize("name", ["shaw", "t5", "fire", "transformer_xl", "deberta"])
def test_the_memory_of_a_blockwise_gradient_grows_linearly(name):
    form = functools.partial(attend_blockwise, block=128)
    half, full = (gradient_memory(name, length, form) for length in (1024, 2048))
    assert full < 2.3 * half
    assert gradient_memory(name, 2048, attend) > 5 * full


@pytest.mark.slow
def test_what_a_wider_window_takes_of_memory_does_not_grow_with_the_length():
    form = functools.partial(attend_blockwise, block=128)

    half, full = (
        [gradient_memory(f"rope+window(window={window})", length, form) for window in (1024, 1536)]
        for length in (2048, 4096)
    )
    # Were keys laid out for every query block, it would be twice as much.
    assert full[1] - full[0] < 1.1 * (half[1] - half[0])
    assert full[0] < 1.5 * gradient_memory("rope", 4096, form)


@pytest.mark.parametrize("form", [attend, blockwise], ids=["dense", "blockwise"])
@pytest.mark.parametrize("name", ["rope", "t5", "transformer_xl", "shaw", "cope", "dape"])
def test_bfloat16_is_near_float32(name, form):
    pe, case, queries = setting(name, "memory")
    low = case._replace(**{n: jnp.asarray(getattr(case, n), jnp.bfloat16) for n in "xqkv"})
    high = case._replace(**{n: getattr(low, n).astype(jnp.float32) for n in "xqkv"})
    got = output(pe, low, queries, form)
    assert got.dtype == jnp.bfloat16
    assert_near(got, output(pe, high, queries, form), 0.03)


@pytest.mark.parametrize(("backend", "length", "batch"), [("cpu", 2**10, 2), ("gpu", 2**14, 1)])
def test_auto_is_dense_while_the_logits_of_a_layer_fit(backend, length, batch, monkeypatch):
    """8 MiB on the CPU, 1 GiB elsewhere: a sequence or a head more is too much."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    for members in ((NoPE(DIMS),), ()):
        pe = bind(members)
        assert choose("auto", pe, batch, 1, length, length) is attend
        assert choose("auto", pe, batch + 1, 1, length, length).func is attend_blockwise
        assert choose("auto", pe, batch, 2, length, length).func is attend_blockwise
        assert choose("blockwise", pe, 1, 1, 8, 8).func is attend_blockwise
        assert choose("blockwise", pe, 1, 1, 1, 4096) is attend
    narrow = bind((Window(DIMS, 16, sinks=4),))
    assert choose("auto", narrow, 1, 1, 81, 81).func is attend_blockwise
    assert choose("auto", narrow, 1, 1, 80, 80) is attend
    assert choose("dense", narrow, 1, 1, 1024, 1024) is attend


@pytest.mark.parametrize(("queries", "keys"), [(1, 7), (5, 5), (13, 20)], ids=str)
@pytest.mark.parametrize("full", [True, False], ids=["all-distances", "causal"])
def test_shift_lays_distances_out_and_unshift_is_its_transpose(queries, keys, full):
    rng = np.random.default_rng(0)
    width = queries + keys - 1 if full else keys
    a = rng.integers(-9, 9, (2, queries, width)).astype(np.float32)
    out = np.asarray(shift(jnp.asarray(a), keys))
    hidden = np.zeros((queries, keys), bool)
    for t in range(queries):
        for j in range(keys):
            column = queries - 1 - t + j
            hidden[t, j] = column >= width
            assert hidden[t, j] or (out[:, t, j] == a[:, t, column]).all()
    w = np.where(hidden, 0, rng.integers(-9, 9, out.shape)).astype(np.float32)
    back = np.asarray(unshift(jnp.asarray(w), width))
    assert back.shape == a.shape
    assert (out * w).sum() == (a * back).sum()


def test_slopes():
    for heads in range(1, 34):
        np.testing.assert_allclose(
            geometry.slopes(heads), reference_case.alibi_slopes(heads), 1e-12
        )
    np.testing.assert_allclose(geometry.slopes(6), [0.25, 2**-4, 2**-6, 2**-8, 0.5, 0.125])
    twelve = [2.0**-h for h in range(1, 9)] + [2.0 ** -(h + 0.5) for h in range(4)]
    np.testing.assert_allclose(geometry.slopes(12), twelve)


EXACT = [(32, 128), (32, 17), (8, 2048), (128, 8192)]


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize(("buckets", "most"), EXACT, ids=str)
def test_log_bucket_is_that_of_exact_arithmetic_up_to_2_to_the_17(buckets, most, causal):
    n = np.arange(2**17 + 1)
    side = buckets if causal else buckets // 2
    edges = [0]  # the first distance of each bucket, by bisection on the exact rule
    for b in range(1, side):
        low, high = edges[-1], 2**17 + 1
        while low < high:
            middle = (low + high) // 2
            exact = reference_case.bucket(middle, side, most)
            low, high = (low, middle) if exact >= b else (middle + 1, high)
        edges.append(low)
    want = np.searchsorted(edges, n, side="right") - 1
    got = geometry.log_bucket(jnp.asarray(n, jnp.int32), buckets, most, causal)
    np.testing.assert_array_equal(got, want)
    behind = geometry.log_bucket(jnp.asarray(-n[1:], jnp.int32), buckets, most, causal)
    np.testing.assert_array_equal(behind, 0 if causal else want[1:] + side)


def test_t5_buckets_of_the_published_table():
    n = jnp.arange(31)
    want = [0, 1, 2, 3, 4, 5, 6, 7] + 4 * [8] + 4 * [9] + 7 * [10] + 8 * [11]
    assert geometry.log_bucket(n, 32, 128, False).tolist() == want
    assert geometry.log_bucket(jnp.array([112, 113, 10**6]), 32, 128, True).tolist() == [30, 31, 31]
    assert isinstance(T5(DIMS), Encoding) and "relative_bias" in sites(T5(DIMS))
