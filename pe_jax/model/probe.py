"""Whether the numbers of a user's own encoding are finite and the same for a whole text and for its
parts, and whether it lets a causal model read the tokens that it is to predict.

The probe computes what each hook gives for a short random text twice: the second time everything
from the middle on is replaced (tokens, inputs, queries, keys and values). What the hooks of a
causal model give before the middle must be the same. So must attention be by blocks, and in a
causal model what the first half alone, and in attention the last token alone, get; of positions,
which may be drawn for a length, nothing is compared. The encodings of the table are probed by the
tests alone.

Axes: L sequence, H heads, K head size, D model size.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import attend
from pe_jax.attention.rows import Rows
from pe_jax.contract import calling
from pe_jax.encoding import RELATIVE, Encoding, overrides, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.model.lm import noisy
from pe_jax.specs.hooks import place

MOST = 64  # tokens of the probe
IDS = 16  # tokens have ids below it, so that those which a class may know, such as digits, occur
WRITTEN, ENDS = b"1a", b". \n"  # of text: a number or a word that goes on, and one that ends
NEAR = 1e-5  # what the sums of an FFT may differ by
CLOSE = 1e-3  # what rounding changes in attention by parts, at most
ATTENTION = ("scale", "qk", "far", "far_positions", "bias", "logits", "normalize", "gate")
READING = ("positions", "embed", "locate", *ATTENTION)  # the others get distances alone
LATER = (
    "reads later tokens, which a causal model is to predict: what it gives for a token may depend "
    "on that token and those before it alone"
)
BLOCKS = (
    "gives other numbers where it gets a part of the keys: if it needs all keys of a query, set "
    "whole_rows = True in its class"
)
LENGTHS = (
    "gives other numbers for a shorter text or fewer queries: hooks get positions, never lengths, "
    "which `at` is told"
)
TOGETHER = "gives a distance other numbers where it gets fewer of them: each must stand alone"
AFRESH = "gives other numbers where it goes on from `before`, the row of the token before"
MOVING = "changes beyond the distance that `constant_from` gives"
ENDLESS = "gives numbers that are infinite or undefined (NaN), from which no model learns"


def check(encodings: Sequence[Encoding], names: Sequence[str]) -> None:
    """ValueError for a member of a spec that is of a user's own class and has a `fault`. `names`
    are what to call the members.
    """
    for i, (encoding, name) in enumerate(zip(encodings, names, strict=True)):
        if type(encoding) in ENCODINGS.values():
            continue
        with calling(name, name):
            found = fault(tuple(encodings[: i + 1]))
        if found:
            hook, words = found
            line = place(encoding, hook.split()[0])
            raise ValueError(f"{name}: {hook} {words} ({line})")


@functools.cache  # a sweep has the same encoding in many runs
def fault(encodings: tuple[Encoding, ...]) -> tuple[str, str] | None:
    """(hook, what is wrong) of the last encoding, None if nothing is. LATER: the hook reads later
    tokens in a causal model. ENDLESS: embeddings or attention are not finite. MOVING: a hook of the
    distance is not constant where `constant_from` says so. TOGETHER, BLOCKS, LENGTHS and AFRESH:
    what it gives depends on how much of the text it gets at once. Hooks that cannot be told apart
    are named together, with "or". The encoding gets the positions that the others give.
    """
    if not sites(encodings[-1]):
        return None
    longest = min(encodings[-1].dims.train_len, MOST)
    reads = any(overrides(encodings[-1], hook) for hook in READING)
    # Two lengths for what may read later tokens: a middle could be the end of a block of them.
    for length in (longest, longest - 2) if reads else (longest,):
        if length > 1 and (found := _fault_at(encodings, length)):
            return found
    return None


def _fault_at(encodings: tuple[Encoding, ...], length: int) -> tuple[str, str] | None:
    rng, middle = np.random.default_rng(0), length // 2
    dims = encodings[-1].dims
    ids = rng.integers(0, min(dims.vocab, IDS), (2, length)).astype(np.int32)
    texts = [np.full_like(ids, sign) for sign in WRITTEN if dims.vocab > max(WRITTEN)]
    for _, ended in texts:
        ended[middle:] = np.resize(list(ENDS), length - middle)
    texts.append(ids)
    x = rng.normal(size=(2, length, dims.model)).astype(np.float32)
    qkv = rng.normal(size=(2, length, 3, dims.heads, dims.head)).astype(np.float32)
    for pair in (*texts, x, qkv):
        pair[1, :middle] = pair[0, :middle]
    encodings = tuple(e.at(length) for e in encodings)
    drawn = encodings[-1].init(jax.random.key(0))
    learned = {name: a for name, a in drawn.items() if name not in encodings[-1].fixed}
    params = drawn | noisy(learned, 0)

    def outputs(tokens: np.ndarray):
        both = zip(tokens, x, qkv, strict=True)
        found = (_outputs(encodings, params, tokens[0], *text) for text in both)
        return map(jax.device_get, found)  # NumPy compares without compiling

    def named(hooks: Sequence[str]) -> str:
        return " or ".join(hook for hook in hooks if overrides(encodings[-1], hook))

    hooks = "positions", "embed", "locate", named(ATTENTION)
    attention = named((*ATTENTION, *RELATIVE))
    for tokens in texts:
        first, second = outputs(tokens)
        for hook, *both in zip(hooks, first, second, strict=True) if dims.causal else ():
            for a, b in zip(*map(jax.tree.leaves, both), strict=True):
                if not np.allclose(a[:middle], b[:middle], NEAR, NEAR, equal_nan=True):
                    return hook, LATER
        for hook, output in ("embed", first[1]), (attention, first[3]):
            if not np.isfinite(output).all():
                return hook, ENDLESS
    if hook := _moving(encodings[-1], params):
        return hook, MOVING
    try:
        parts = _the_same(encodings[-1], params, tokens[0], first[0], x[0], qkv[0])
    except Exception:  # of the user's code: no silent fault, and a run may never get there
        return None
    blocks = LENGTHS if encodings[-1].whole_rows else BLOCKS  # then queries alone are cut
    words = ("embed", LENGTHS), (attention, blocks), (attention, LENGTHS), ("locate", AFRESH)
    judged = dims.causal, True, dims.causal, dims.causal
    wrong = (said for said, *right in zip(words, parts, judged, strict=True) if right == [0, 1])
    found = next(wrong, None)
    if found and found[0] == attention and (hook := _together(encodings[-1], params, length)):
        return hook, TOGETHER
    return found


def without_gradient(encodings: tuple[Encoding, ...]) -> list[str]:
    """The parameters of the last encoding that no gradient reaches in a text of its training
    length, of 512 tokens at most, neither as they are drawn nor with noise.
    """
    e, rng = encodings[-1], np.random.default_rng(0)
    length, drawn = min(e.dims.train_len, 512), e.init(jax.random.key(0))
    learned = {name: a for name, a in drawn.items() if name not in e.fixed}
    tokens = np.arange(length, dtype=np.int32) % min(e.dims.vocab, IDS)
    sizes = (length, e.dims.model), (length, 3, e.dims.heads, e.dims.head)
    x, qkv = (rng.normal(size=size).astype(np.float32) for size in sizes)

    def summed(params):
        _, embedded, _, out = _outputs(encodings, drawn | params, tokens, tokens, x, qkv)
        return (embedded * x).sum() + (out * qkv[:, 0]).sum()

    slopes = [jax.grad(summed)(params) for params in (learned, noisy(learned, 0))]
    return [name for name in learned if not any(np.any(slope[name]) for slope in slopes)]


def _moving(e: Encoding, params) -> str | None:
    """The first hook of the distance that changes from `constant_from` on; None without one."""
    if (end := e.constant_from()) is None:
        return None
    beyond = end + 2 ** np.arange(20, dtype=np.int32) - 1
    for hook in (hook for hook in RELATIVE if overrides(e, hook)):
        for n in (beyond,) if e.dims.causal else (beyond, -beyond):
            values = np.asarray(getattr(e, hook)(params, jnp.asarray(n)))
            if not np.allclose(values, values[:, :1], NEAR, NEAR, equal_nan=True):
                return hook
    return None


def _together(e: Encoding, params, length: int) -> str | None:
    """The first hook of the distance that gives other numbers for half of the distances."""
    every, few = jnp.arange(length), length // 2
    for hook in (hook for hook in RELATIVE if overrides(e, hook)):
        whole, half = (getattr(e, hook)(params, n) for n in (every, every[:few]))
        if not np.allclose(whole[:, :few], half, CLOSE, CLOSE, equal_nan=True):
            return hook
    return None


@functools.partial(jax.jit, static_argnames="e")
def _the_same(e: Encoding, params, tokens, pos, x, qkv):
    """Whether what `embed` gives for the first half alone, attention by blocks, and that of the
    first half and of the last token alone are those of the whole text; and whether `locate` of the
    second half goes on where the first ends.
    """
    middle, near = len(x) // 2, functools.partial(jnp.allclose, rtol=CLOSE, atol=CLOSE)
    embedded = e.embed(params, x, tokens, pos)[:middle]
    embeds = near(e.embed(params, x[:middle], tokens[:middle], pos[:middle]), embedded)
    located = e.locate(params, x, pos, None)
    rows, bound = Rows(jnp.arange(len(x)), pos, (located,)), Bound((params,), (e,), False)
    half, last = rows.take(0, middle), rows.take(len(x) - 1, 1)
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
    out = attend(bound, q, k, v, rows, rows)
    by_blocks = attend_blockwise(bound, q, k, v, rows, rows, block=max(1, middle // 2))
    of_half = attend(bound, q[:middle], k[:middle], v[:middle], half, half)
    of_last = attend(bound, q[-1:], k, v, last, rows)
    before = jax.tree.map(lambda a: a[middle - 1], located)
    on = e.locate(params, x[middle:], pos[middle:], before)
    pairs = zip(jax.tree.leaves(on), jax.tree.leaves(located), strict=True)
    shorter = near(of_half, out[:middle]) & near(of_last, out[-1:])
    going_on = jnp.array([near(a, b[middle:]) for a, b in pairs]).all()
    return embeds, near(by_blocks, out), shorter, going_on


@functools.partial(jax.jit, static_argnames="encodings")
def _outputs(encodings: tuple[Encoding, ...], params, before, tokens, x, qkv):
    """What `positions`, `embed`, `locate` and the hooks of attention together give, [L, ...] each,
    of the last encoding. The positions of the other encodings are those for the tokens `before`.
    """
    *others, e = encodings
    key, places = jax.random.key(0), jnp.arange(len(x))
    pos = fold_positions(tuple(others), before[None], places, key, False).reshape(len(x))
    pos = e.positions(tokens, pos, key, False)
    embedded = e.embed(params, x, tokens, pos)
    located = e.locate(params, x, pos, None)
    rows, bound = Rows(places, pos, (located,)), Bound((params,), (e,), contiguous=False)
    return pos, embedded, located, attend(bound, qkv[:, 0], qkv[:, 1], qkv[:, 2], rows, rows)
