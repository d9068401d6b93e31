"""What tests of attention, encodings and models share: a single layer, perturbed parameters."""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_case import Case

from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import attend
from pe_jax.attention.rows import Rows
from pe_jax.encoding import Dims, overrides, sites
from pe_jax.model.lm import init_params

DIMS = Dims(model=24, heads=3, head=8, layers=2, train_len=8, vocab=13)  # the tokens of addition


def perturbed(params, seed=0, spread=0.3):
    """A tree of parameters with noise on each: one that is 0 or constant at first hides what reads
    it. The noise of a parameter depends on its name alone, not on the others.
    """

    def noisy(path, leaf):
        name = np.uint32(zlib.crc32(jax.tree_util.keystr(path).encode()))
        noise = np.asarray(_normal(seed, name, max(leaf.size, 4096)))
        here = np.float32(spread) * noise[: leaf.size].reshape(leaf.shape)
        return jax.device_put(np.asarray(leaf) + here)

    return jax.tree.map_with_path(noisy, params)


@functools.partial(jax.jit, static_argnums=2)
def _normal(seed, name, size):
    """The first numbers are those of every shape, so that one program draws for all."""
    return jax.random.normal(jax.random.fold_in(jax.random.key(seed), name), (size,))


@functools.cache  # most tests bind the same few encodings
def _drawn(encoding, i, seed, spread):
    with jax.ensure_compile_time_eval():  # some bind while they are traced
        key = jax.random.fold_in(jax.random.key(seed), i)
        shared, owned = init_params(encoding, key)
        return perturbed(shared | owned.get(0, {}), seed + i, spread)


def bind(encodings, contiguous=True, spread=0.3, seed=0):
    """The encodings with layer 0's parameters, perturbed."""
    params = [dict(_drawn(e, i, seed, spread)) for i, e in enumerate(encodings)]
    causal = all(e.dims.causal for e in encodings)
    return Bound(tuple(params), tuple(encodings), contiguous=contiguous, causal=causal)


def example(length, dims=DIMS, seed=0):
    """Random x, tokens, q, k, v of one sequence, float32, and positions 0 .. length - 1."""
    rng = np.random.default_rng(seed)
    draw = [
        rng.normal(size=(length, dims.model)),
        *rng.normal(size=(3, length, dims.heads, dims.head)),
    ]
    x, q, k, v = (a.astype(np.float32) for a in draw)
    tokens = rng.integers(0, dims.vocab, length).astype(np.int32)
    return Case(x, tokens, np.arange(length, dtype=np.int32), q, k, v, dims.causal)


def scattered(length, most, seed=0):
    """Ascending distinct positions below `most`, not consecutive."""
    return np.sort(np.random.default_rng(seed).permutation(most)[:length]).astype(np.int32)


def folded(encodings, case, seed=3):
    """The positions of a case after every `positions` hook, in training."""
    tokens, pos = jnp.asarray(case.tokens), jnp.asarray(case.pos)
    batch = tokens if tokens.ndim == 2 else tokens[None]
    moved = fold_positions(encodings, batch, pos, jax.random.key(seed), True)
    return np.asarray(moved[0] if moved.ndim > tokens.ndim else moved)


def trained_line(seeds, step, loss, **more):
    """A line of metrics.jsonl as training writes it."""
    line = {"seeds": list(seeds), "step": step, "of": 12, "loss": loss, "rate": 1e-3}
    line |= {"grad_norm": [1.0 for _ in seeds], "ms_per_step": 1.0, "tokens_per_second": 1e3}
    return line | more


def sampled(names, members, adding=()):
    """The names as parameters, slow but for the first of each kind; compositions too, unless they
    are `adding` something.

    What caches and memories must get right depends on the hooks and not on their values: a kind is
    the hooks of a member without `at` and `limit`, which act before. `embed` may read anything, so
    what overrides it is a kind of its own.
    """
    seen, out = set(), []
    for name in names:
        kind = tuple(
            (
                frozenset(sites(e)) - {"at", "limit"},
                e.whole_rows,
                e.per_sequence,
                e.layers,
                name * overrides(e, "embed"),
            )
            for e in members(name)
        )
        composed = len(kind) > 1 and name not in adding
        slow = composed or kind in seen
        out.append(pytest.param(name, marks=pytest.mark.slow if slow else ()))
        seen.add(kind)
    return out


def traits(members):
    """The hooks of encodings, and what caches and blocks treat apart."""
    facts = {(e.whole_rows, e.per_sequence) for e in members}
    return facts.union(*(sites(e) for e in members))


def covering(names, members):
    """The names as parameters, slow but for those that have a hook which none before them has."""
    seen, out = set(), []
    for name in names:
        new = traits(members(name)) - seen
        out.append(pytest.param(name, marks=() if new else pytest.mark.slow))
        seen |= new
    return out


def fewest(cases, traits):
    """The cases as parameters, slow but for few that have all traits, those with most of them."""
    left = {case: traits(*case) for case in cases}
    missing, chosen = set().union(*left.values()), set()
    while missing:
        chosen.add(max(left, key=lambda case: len(left[case] & missing)))
        missing -= set().union(*(left[case] for case in chosen))
    slow = pytest.mark.slow
    return [pytest.param(*case, marks=() if case in chosen else slow) for case in left]


def embed(pe, x, tokens, pos):
    for e, params in zip(pe.encodings, pe.params, strict=True):
        if overrides(e, "embed"):
            x = e.embed(params, x, tokens, pos)
    return x


def take(rows, start, size):
    """`size` rows from `start` on, which may be traced."""
    return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), rows)


def rows(pe, x, pos):
    """The rows of all tokens of one sequence, at these positions; x is what `locate` sees."""
    return Rows(jnp.arange(len(x)), pos, pe.locate(x, pos))


def output(pe, case, queries=None, form=attend):
    """The attention of the last `queries` tokens of a case over all; only `locate` sees x."""
    return _output(pe, _arrays(case), queries, form)


def layer(pe, case, queries=None, form=attend):
    """The same where x, after every `embed`, is added to q, k and v; or a mixer's output for x."""
    return _layer(pe, _arrays(case), queries, form)


def _arrays(case):
    return {
        name: jnp.asarray(getattr(case, name)) for name in ("x", "tokens", "pos", "q", "k", "v")
    }


# Compiled: operation by operation, a test would compile dozens of programs.
@functools.partial(jax.jit, static_argnames=("queries", "form"))
def _output(pe, case, queries, form):
    length = len(case["x"])
    first = length - (queries or length)
    keys = rows(pe, case["x"], case["pos"])
    q, k, v = case["q"][first:], case["k"], case["v"]
    return form(pe, q, k, v, take(keys, first, length - first), keys)


@functools.partial(jax.jit, static_argnames=("queries", "form"))
def _layer(pe, case, queries, form):
    x = embed(pe, case["x"], case["tokens"], case["pos"])
    if not pe.attends:
        y, _ = pe.mix(x, None)
        return y.reshape(case["v"].shape)[len(x) - (queries or len(x)) :]
    heads = x.reshape(case["q"].shape)
    moved = {name: case[name] + heads for name in ("q", "k", "v")}
    return _output(pe, case | {"x": x} | moved, queries, form)


def assert_near(got, want, tolerance, what=""):
    """|got - want| <= tolerance * max(0.1, max |want|), NaN at the same places."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, (what, got.shape, want.shape)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), what)
    if not np.isnan(want).all():
        error, scale = np.nanmax(np.abs(got - want)), max(0.1, np.nanmax(np.abs(want)))
        assert error <= tolerance * scale, f"{what}: off by {error:.2e} at a scale of {scale:.2e}"
