"""Whether a user's own encoding lets a causal model read the tokens that it is to predict.

The probe computes what each hook gives for a short random text twice: the second time everything
from the middle on is replaced (tokens, inputs, queries, keys and values). What the hooks give
before the middle must be the same. The encodings of the table are probed by the tests alone.

Axes: L sequence, H heads, K head size, D model size.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import attend
from pe_jax.attention.rows import Rows
from pe_jax.compose.hooks import place
from pe_jax.encoding import Encoding, overrides
from pe_jax.encodings import ENCODINGS
from pe_jax.model.parameters import noisy

MOST = 64  # tokens of the probe
IDS = 16  # tokens have ids below it, so that those which a class may know, such as digits, occur
NEAR = 1e-5  # what the sums of an FFT may differ by
ATTENTION = ("scale", "qk", "far", "far_positions", "bias", "logits", "normalize", "gate")
READING = ("positions", "embed", "locate", *ATTENTION)  # the others get distances alone


def check(encodings: Sequence[Encoding], names: Sequence[str]) -> None:
    """ValueError for a member of a spec whose class is not of the table and of which some hook
    gives, for a token, what depends on a later one. `names` are what to call the members.
    """
    for i, (encoding, name) in enumerate(zip(encodings, names, strict=True)):
        if type(encoding) in ENCODINGS.values():
            continue
        try:
            hook = leak(tuple(encodings[: i + 1]))
        except Exception as error:  # the code is the user's
            first = (str(error).strip().splitlines() or [""])[0][:200]
            raise ValueError(f"{name}: raised {type(error).__name__}: {first}") from error
        if hook:
            raise ValueError(
                f"{name}: {hook} reads later tokens, which a causal model is to predict: what it "
                "gives for a token may depend on that token and those before it alone "
                f"({place(encoding, hook.split()[0])})"
            )


@functools.cache  # a sweep has the same encoding in many runs
def leak(encodings: tuple[Encoding, ...]) -> str | None:
    """The hook of the last encoding that reads later tokens, or the hooks one of which does; None:
    there is none. The positions that the encoding gets are those that the others hand on.
    """
    if not any(overrides(encodings[-1], hook) for hook in READING):
        return None
    longest = min(encodings[-1].dims.train_len, MOST)
    for length in (longest, longest - 2):  # the middles have no common divisor, as blocks may be
        if length > 1 and (hook := _leak_at(encodings, length)):
            return hook
    return None


def _leak_at(encodings: tuple[Encoding, ...], length: int) -> str | None:
    rng, middle = np.random.default_rng(0), length // 2
    dims = encodings[-1].dims
    tokens = rng.integers(0, min(dims.vocab, IDS), (2, length)).astype(np.int32)
    x = rng.normal(size=(2, length, dims.model)).astype(np.float32)
    qkv = rng.normal(size=(2, length, 3, dims.heads, dims.head)).astype(np.float32)
    for pair in (tokens, x, qkv):
        pair[1, :middle] = pair[0, :middle]
    encodings = tuple(e.at(length) for e in encodings)
    params = noisy(encodings[-1].init(jax.random.key(0)), 0)
    texts = zip(tokens, x, qkv, strict=True)
    first, second = (_outputs(encodings, params, tokens[0], *text) for text in texts)
    attention = " or ".join(hook for hook in ATTENTION if overrides(encodings[-1], hook))
    hooks = "positions", "embed", "locate", attention
    for hook, *outputs in zip(hooks, first, second, strict=True):
        for a, b in zip(*map(jax.tree.leaves, outputs), strict=True):
            if not jnp.allclose(a[:middle], b[:middle], NEAR, NEAR, equal_nan=True):
                return hook
    return None


@functools.partial(jax.jit, static_argnames="encodings")
def _outputs(encodings: tuple[Encoding, ...], params, before, tokens, x, qkv):
    """What `positions`, `embed`, `locate` and the hooks of attention together give, [L, ...] each,
    of the last encoding. The others hand on the positions of the tokens `before`.
    """
    *others, e = encodings
    key, places = jax.random.key(0), jnp.arange(len(x))
    pos = fold_positions(tuple(others), before[None], places, key, False).reshape(len(x))
    pos = e.positions(tokens, pos, key, False)
    embedded = e.embed(params, x, tokens, pos)
    located = e.locate(params, x, pos, None)
    rows, bound = Rows(places, pos, (located,)), Bound((params,), (e,), contiguous=False)
    return pos, embedded, located, attend(bound, qkv[:, 0], qkv[:, 1], qkv[:, 2], rows, rows)
