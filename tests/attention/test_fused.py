"""Fused attention, interpreted, against dense attention; and what its programs may hold."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, WIDE, both_ways, encodings, serves_both_directions
from flax import nnx
from helpers import (
    assert_near,
    bind,
    example,
    fewest,
    folded,
    layer,
    output,
    perturbed,
    rows,
    take,
    traits,
)

from pe_jax.attention import choose as choosing
from pe_jax.attention import pointwise
from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.bound import Bound
from pe_jax.attention.choose import choose
from pe_jax.attention.dense import attend
from pe_jax.attention.fused import REFUSED, TABLES, attend_fused, refusal
from pe_jax.encoding import Encoding, overrides, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.alibi import ALiBi
from pe_jax.model.cache import Cache
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM, init_params
from pe_jax.specs.parse import make

TARGETS = "tpu", "gpu"
LENGTH, QUERIES, BLOCK = 20, 13, 8
IN_TILES = {*TABLES, "bias", "gate", "far", "reach", "sink"}
"""Hooks that change the kernel or what it gives; all others are called before it."""
UNFUSED = {
    "cope", "dape", "dape_v2", "deberta", "grape_a", "grape_ap", "nezha", "path",
    "relative_projection", "shaw", "stick_breaking", "transformer_xl", "tupe",
}  # fmt: skip


def bound(name, causal=True):
    """(bound, case), with the positions after every `positions` hook."""
    dims = WIDE._replace(causal=causal)
    members, case = encodings(name, dims), example(LENGTH, dims)
    moved = any(overrides(e, "positions") for e in members)
    if moved:
        case = case._replace(pos=folded(members, case))
    return bind(members, contiguous=not moved), case


def refused(pe, case):
    keys = rows(pe, jnp.asarray(case.x), jnp.asarray(case.pos))
    return refusal(pe, keys, keys, case.q.shape[1])


def fused(target, block=BLOCK):
    return functools.partial(attend_fused, target=target, block=block, interpret=True)


def settings():
    """(name, causal, target)"""
    for name in CASES:
        used = {hook for e in encodings(name) for hook in sites(e)}
        moved = "positions" in used and used & set(TABLES)
        if moved or used & set(REFUSED) or name in UNFUSED:
            continue
        both = serves_both_directions(name)
        for causal in (True, False) if both else (True,):
            for target in TARGETS:
                yield name, causal, target


def in_tiles(name, causal, target):
    """Each hook in tiles. Of FIRE's default width each number is an array of its own."""
    hooks = IN_TILES & traits(encodings(name)) if name not in {"fire", *UNFUSED} else set()
    return {(causal, target, hook) for hook in hooks}


def values_and_slopes(pe, case, form, queries=QUERIES):
    """(output, gradients of every parameter and of x, q, k and v)."""
    towards = np.random.default_rng(1).normal(size=(queries, *case.v.shape[1:]))

    def run(params, inputs):
        here = dataclasses.replace(pe, params=params)
        out = layer(here, case._replace(**inputs), queries, form)
        return (out * towards).sum(), out

    inputs = {name: jnp.asarray(getattr(case, name)) for name in "xqkv"}
    step = jax.jit(jax.value_and_grad(run, argnums=(0, 1), has_aux=True))
    (_, out), slopes = step(pe.params, inputs)
    return out, slopes


def assert_same(got, want, tolerance=1e-5):
    for (path, a), b in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(want), strict=True):
        assert_near(a, b, tolerance, jax.tree_util.keystr(path))


@pytest.mark.parametrize(("name", "causal", "target"), fewest(settings(), in_tiles))
def test_fused_is_dense(name, causal, target):
    """13 queries, the last of 20 keys, in blocks of 8: the last ones are not full."""
    pe, case = bound(name, causal)
    assert_same(values_and_slopes(pe, case, fused(target)), values_and_slopes(pe, case, attend))


def test_an_mlp_and_a_learned_table_together_are_dense():
    """`fire` of its default width is slow above: each of its numbers is an array of its own."""
    pe, case = bind(make("fire(width=3)+kerple_log", WIDE)), example(LENGTH, WIDE)
    want = values_and_slopes(pe, case, attend)
    for target in TARGETS:
        assert_same(values_and_slopes(pe, case, fused(target)), want)


@pytest.mark.parametrize("sink", [-200.0, 200.0])
def test_a_sink_far_from_the_logits_takes_nothing_or_everything(sink):
    (pe, case), dense = bound("learned_sinks"), bind((Encoding(WIDE),))
    pe = dataclasses.replace(pe, params=({"b": jnp.full(WIDE.heads, sink)},))
    want = output(dense, case) if sink < 0 else np.zeros(case.v.shape)
    for form in (attend, functools.partial(attend_blockwise, block=BLOCK), fused("gpu")):
        assert_near(output(pe, case, form=form), want, 1e-5)


OTHER_TARGETS = ("rope+t5", "tpu"), ("forget_gate+urpe", "gpu"), ("rerope(window=4)", "tpu")


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ("rope+t5", "gpu"),
        ("forget_gate+urpe", "tpu"),
        ("rerope(window=4)", "gpu"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHER_TARGETS),
    ],
)
def test_bfloat16_is_near_float32(spec, target):
    """Values and gradients, of numbers that bfloat16 holds exactly."""
    pe, case = bind(make(spec, WIDE)), example(LENGTH, WIDE)
    low = case._replace(**{n: jnp.asarray(getattr(case, n), jnp.bfloat16) for n in "xqkv"})
    high = case._replace(**{n: getattr(low, n).astype(jnp.float32) for n in "xqkv"})
    got = values_and_slopes(pe, low, fused(target))
    assert got[0].dtype == jnp.bfloat16
    assert_same(got, values_and_slopes(pe, high, attend), 0.03)


WINDOWS = {
    "window": "t5+window(window=6)",
    "sinks": "window(window=9,sinks=2)+window(window=5,sinks=6)",
    "a window and gates": "urpe+window(window=4,sinks=5)",
    "a learned sink": "learned_sinks+t5+window(window=6)",
}


@pytest.mark.parametrize(("name", "causal"), both_ways(WINDOWS))
def test_tiles_that_a_window_leaves_out_and_keys_that_are_not_there_change_nothing(name, causal):
    """41 keys and 18 queries in blocks of 4: padding at the end, no first keys, later places."""
    length, queries = 41, 18
    dims = WIDE._replace(causal=causal)
    pe, case, place = bind(make(WINDOWS[name], dims)), example(length, dims), np.arange(length)
    target = "gpu" if causal else "tpu"
    q, k, v = (jnp.asarray(getattr(case, n)) for n in "qkv")

    @functools.partial(jax.jit, static_argnums=0)
    def values_and_slopes(form, q, k, v, idx):
        keys = rows(pe, jnp.asarray(case.x), jnp.arange(length))._replace(idx=idx)

        def run(q, k, v):
            seeing = take(keys, length - queries, queries)
            out = form(pe, q, k, v, seeing, keys)
            out = jnp.where((seeing.idx >= 0)[:, None, None], out, 0.0)
            return (out * jnp.cos(jnp.arange(out.size)).reshape(out.shape)).sum(), out

        return jax.value_and_grad(run, argnums=(0, 1, 2), has_aux=True)(q, k, v)

    form = fused(target, block=4)
    for idx in (
        place,
        np.where(place < 35, place, -1),
        np.where(place < 11, -1, place),
        place + 30,
    ):
        got, want = (values_and_slopes(f, q[-queries:], k, v, idx) for f in (form, attend))
        assert_same(got, want)


def traced(members, contiguous=True):
    """The encodings with parameters of which nothing but the shapes is computed."""
    own = (init_params(e, jax.random.key(0)) for e in members)
    return Bound(tuple(shared | owned.get(0, {}) for shared, owned in own), members, contiguous)


def test_which_encodings_are_fused():
    reasons = {}

    def ask():
        for name in ENCODINGS:
            members = encodings(name)
            moved = any(overrides(e, "positions") for e in members)
            pe = traced(members, contiguous=not moved)
            reasons[name] = refused(pe, example(LENGTH, WIDE))
        reasons["scattered"] = refused(traced(make("alibi", WIDE), False), example(LENGTH, WIDE))

    jax.eval_shape(ask)
    assert "consecutive" in reasons["scattered"]
    assert {name for name in ENCODINGS if reasons[name]} == UNFUSED


@dataclasses.dataclass(frozen=True)
class Waves(Encoding):
    """A user's: waves of the distance, and of each pair, by a product of matrices."""

    def init(self, key):
        return {"w": jax.random.normal(key, (self.dims.heads, 2))}

    def relative_bias(self, params, n):
        return params["w"][:, :1] * jnp.sin(n)[None]

    def bias(self, params, q_pos, k_pos):
        waves = jnp.sin(q_pos[:, None] / jnp.arange(1.0, 3.0)[None])
        apart = waves[:, None] - k_pos[None, :, None] / 7.0
        return jnp.einsum("hc,tsc->hts", params["w"], jax.nn.softplus(apart))


def test_hooks_of_a_user_are_fused():
    pe, case = bind((Waves(WIDE),)), example(LENGTH, WIDE)
    assert not refused(pe, case)
    want = values_and_slopes(pe, case, attend)
    for target in TARGETS:
        assert_same(values_and_slopes(pe, case, fused(target)), want)


def program(params, x, y):
    """Everything that moves numbers about, products, a loop and functions."""
    a = jnp.concatenate([x[:2] * y, jnp.flip(x)[1:]]).reshape(2, 2) @ params["w"]
    a = jnp.where(a > 0, jnp.tanh(a), jnp.exp(a).T[:2])
    b, _ = jax.lax.scan(lambda c, row: (c * 0.5 + row.max(), c), y, a)
    return [jnp.pad(a.sum(0), (1, 0), constant_values=2.0) + b, jnp.split(x, 3)[1] ** 2]


def test_a_program_of_one_pair_runs_on_tiles():
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(2, 2)).astype(np.float32)}
    x, y = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=7).astype(np.float32)
    pairs = jax.vmap(jax.vmap(program, (None, None, 0)), (None, 0, None))(params, x, y)
    traced = jax.make_jaxpr(program)(params, x[0], y[0])
    numbers = pointwise.constants(params["w"].reshape(2, 2))
    columns = pointwise.filled((3,), (jnp.asarray(x[:, n : n + 1]) for n in range(3)))
    row = pointwise.filled((), [jnp.asarray(y[None])])
    results = pointwise.evaluate(traced, numbers, columns, row)
    for got, want in zip(results, pairs, strict=True):
        for n, tile in enumerate(got.ravel()):
            assert_near(np.broadcast_to(tile, (5, 7)), want.reshape(5, 7, -1)[..., n], 1e-6)


@pytest.mark.parametrize(
    ("function", "said"),
    [(lambda x: jnp.sort(x), "sort"), (lambda x: jnp.outer(x, x).sum() * jnp.ones(9999), "more")],
)
def test_a_program_that_is_not_pointwise_is_refused(function, said):
    shape = jax.ShapeDtypeStruct((9,), jnp.float32)
    with pytest.raises(pointwise.NotPointwise, match=said):
        pointwise.operations(jax.make_jaxpr(function)(shape), shape)


def test_a_large_hook_of_many_heads_has_no_kernel_on_a_gpu():
    """There each head has a loop of its own, with the whole hook in it."""
    for heads, refused in ((4, False), (12, True)):
        (e,) = make("fire", LmConfig(model=12 * heads, heads=heads).dims(LENGTH))
        pe, x = Bound((e.init(jax.random.key(0)),), (e,)), jnp.zeros((LENGTH, 12 * heads))
        of = rows(pe, x, jnp.arange(LENGTH))
        said = {target: refusal(pe, of, of, heads, target) for target in TARGETS}
        assert not said["tpu"] and ("too large" in said["gpu"]) == refused


@pytest.mark.parametrize("remat", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_model_of_shared_keys_and_vmapped_seeds_has_the_gradients_of_dense_attention(remat):
    """A batch of padded sequences, two seeds and a key head for two query heads."""
    config = LmConfig(vocab=11, layers=1, model=16, heads=4, kv_heads=2)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 11, (2, 9)), jnp.int32)

    def slopes(form, remat):
        own = dataclasses.replace(config, attention=form)
        model = LM(own, make("rope+t5", own.dims(9)), rngs=nnx.Rngs(params=0, encodings=1))
        graphdef, params = nnx.split(model, nnx.Param)
        seeds = [perturbed(nnx.to_pure_dict(params), seed) for seed in (0, 1)]

        def loss(params):
            merged = nnx.merge(graphdef, params, copy=True)
            logits, _ = merged(tokens, size=jnp.int32(7), remat=remat)
            return (jax.nn.log_softmax(logits[:, :7]) ** 2).mean()

        stacked = jax.tree.map(lambda *a: jnp.stack(a), *seeds)
        return jax.jit(jax.vmap(jax.value_and_grad(loss)))(stacked)

    assert_same(slopes("fused", remat), slopes("dense", False))


@pytest.mark.parametrize("form", ["auto", "fused"])
def test_fused_is_for_full_passes_on_one_accelerator(form, monkeypatch):
    pe = bind((ALiBi(WIDE),))

    def fuses(length=128, full=True, form=form):
        chosen = choose(form, pe, 1, 3, length, length, full)
        return getattr(chosen, "func", None) is choosing._fused_or

    assert fuses() == (form == "fused")
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    assert fuses() == (form == "fused")  # the program is for a CPU
    for backend in ("tpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        assert fuses() and not fuses(full=False)
        assert fuses(64) == (form == "fused")
        assert not fuses(form="dense") and not fuses(form="blockwise")
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    assert fuses() == (form == "fused")


def test_what_is_not_fused_is_as_before(monkeypatch):
    """Hooks of another kind, and tokens after those of a cache."""
    pe, case = bind(make("cope", WIDE)), example(LENGTH, WIDE)
    chosen = choose("fused", pe, 1, 3, LENGTH, LENGTH, True)
    np.testing.assert_array_equal(output(pe, case, form=chosen), output(pe, case))
    config = LmConfig(vocab=11, layers=1, model=16, heads=4, attention="fused")
    model = LM(config, make("alibi", config.dims(9)), rngs=nnx.Rngs(params=0, encodings=1))
    tokens, run = jnp.arange(9)[None] % 11, jax.jit(lambda *given: model(*given))
    whole, _ = run(tokens)
    monkeypatch.setattr(choosing, "attend_fused", None)
    first, cache = run(tokens[:, :5], Cache.empty(1))
    rest, _ = run(tokens[:, 5:], cache.grown(9))
    assert_near(jnp.concatenate([first, rest], axis=1), whole, 1e-5)
    with pytest.raises(TypeError, match="NoneType"):
        jax.eval_shape(lambda: model(tokens))


LOWERED = [
    *("rope+t5+forget_gate+urpe+window(window=8,sinks=2)", "fire(width=2)"),
    "chunk(chunk=48)",
]


@pytest.mark.parametrize("spec", LOWERED)
def test_the_gradient_lowers_for_cuda_and_tpu(spec):
    """In bfloat16, with heads of 24 and 100 keys, neither of them a power of two. Later versions of
    JAX lower Triton's kernels only for a GPU that is there.
    """
    length, heads, head = 100, 3, 24
    dims = WIDE._replace(model=heads * head, heads=heads, head=head, train_len=length)
    pe, case = bind(make(spec, dims)), example(length, dims)

    def loss(target, params, x, q, k, v):
        here = dataclasses.replace(pe, params=params)
        form = functools.partial(attend_fused, target=target)
        out = jax.vmap(
            lambda x, q, k, v: output(here, case._replace(x=x, q=q, k=k, v=v), form=form)
        )
        return out(x, q, k, v).astype(jnp.float32).sum()

    vectors = jax.ShapeDtypeStruct((2, *case.q.shape), jnp.bfloat16)
    x = jax.ShapeDtypeStruct((2, *case.x.shape), jnp.float32)
    kernels = {"tpu": ("tpu", "tpu_custom_call"), "gpu": ("cuda", "triton")}
    for target in TARGETS if jax.__version_info__ < (0, 11) else ("tpu",):
        platform, kernel = kernels[target]
        step = jax.jit(jax.grad(functools.partial(loss, target), argnums=(0, 1, 2, 3, 4)))
        traced = step.trace(pe.params, x, *[vectors] * 3)
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert len(re.findall(rf"custom_call @\S*{kernel}", text)) == 3
