"""Encodings in a model: finite numbers, no later tokens, and the same numbers for a text and for
its parts.

What is compared are the rows [L, D] that leave the last layer: the logits of a token are a function
of its row alone. So the models have an MLP of one unit, no output matrix of their own, and
activations in float32.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Int

from pe_jax.encoding import RELATIVE, Dims, Encoding, overrides, sites
from pe_jax.errors import Refused
from pe_jax.model.cache import Cache, Past
from pe_jax.model.config import LmConfig
from pe_jax.model.generate import positions
from pe_jax.model.lm import LM, noisy
from pe_jax.specs.swap import swap
from pe_jax.task import Task
from pe_jax.testing.hooks import Fault, check_hooks, is_users, running
from pe_jax.testing.tasks import drawn

CUTS = (2, 8)  # fewest and most tokens in a row at which a text is cut, 2^14 tokens in all
PART = 130  # tokens of the text that is compared with its parts: more than two blocks of attention
NEAR, CLOSE = 1e-4, 1e-3  # rounding, as of an FFT over all tokens; sums in another order
LATER = "reads later tokens, which a causal model is to predict"
ENDLESS = "gives numbers that are infinite or undefined (NaN), from which no model learns"
BLOCKS = "gives other numbers for a block of the keys: set whole_rows = True if it needs all keys"
PARTS = (
    "gives other numbers for a shorter text or a single query: `locate` goes on from `before`, "
    "`mix` from `state`"
)
ALONE = "gives another value at a distance if it gets other distances, too"
CONSTANT = "changes beyond the distance that `constant_from` gives"


def check_encoding(encoding: Encoding, lengths: Sequence[int] = ()) -> None:
    """The checks of `testing.check` of an encoding, on random letters and digits."""
    check_hooks(encoding)
    dims, signs = encoding.dims, np.frombuffer(b"abcdefgh 0123456789.", np.uint8)
    for length in lengths or (dims.train_len,):
        texts = np.random.default_rng(length).choice(signs, (2, length)).astype(np.int32)
        check_reads(model_of(dims), (encoding,), texts % dims.vocab)
    check_parts((encoding,), texts[0] % dims.vocab)


def check_model(
    config: LmConfig,
    encodings: tuple[Encoding, ...],
    swaps: Sequence[str],
    task: Task,
    documents: Iterable[np.ndarray],
    lengths: Sequence[int],
) -> None:
    """Checks the model of a run, as trained and with each swap, where a user's class is among its
    encodings: on the first tokens of the text, or on samples of the task, at each length.

    Raises:
        Refused: numbers are not finite, depend on later tokens, or on how a text is cut.
    """
    made = [encodings, *(swap(encodings, spec) for spec in swaps)]
    if not any(map(is_users, {e for members in made for e in members})):
        return
    first = itertools.islice(itertools.chain.from_iterable(documents), max(lengths))
    text = stream = np.fromiter(first, np.int32)
    try:
        for n in (n for n in lengths if task.has(n)):
            if task.reads_text:
                text = np.resize(stream, n)
                texts = np.stack([text, np.roll(text, n // 2 + 1)])
            else:
                texts = np.asarray(drawn(task, np.int32(n), n, 2).tokens)
                text = texts[0]
            for members in made:
                if any(map(is_users, members)):
                    check_reads(config, members, texts)
        for members in made:
            for e in filter(is_users, members):  # with those whose positions it gets
                check_parts([m for m in members if m is e or overrides(m, "positions")], text)
    except ValueError as error:
        raise Refused(str(error)) from error


def check_reads(
    config: LmConfig, encodings: Sequence[Encoding], texts: Int[np.ndarray, "2 L"]
) -> None:
    """ValueError unless the rows of a text are finite, and in a causal model stay as they are where
    the tokens after them are replaced by a second text. Parameters of encodings have noise
    added, since some are drawn so that they have no effect.
    """
    (text, other), length = texts, texts.shape[1]
    made = tuple(e.at(length) for e in encodings)
    if any((limit := e.limit()) is not None and limit < length for e in made):
        return  # nothing is scored there either
    changes = {"mlp": 1, "tie_embeddings": True, "embed_std": 1.0, "dtype": "float32", "memory": 0}
    config = dataclasses.replace(config, dropout=0.0, **changes)
    with running(_hooks(encodings)):
        graphdef, initial = _model(config, encodings)
        for params in (_noisy(initial, encodings), initial):
            rows = functools.partial(_rows, params, graphdef=graphdef, encodings=made)
            whole = np.asarray(rows(text))
            if np.isfinite(whole).all():
                break
        else:
            raise Fault(ENDLESS)
        middle, cuts = length // 2, min(max(CUTS[0], 2**14 // length), CUTS[1])
        for cut in range(middle, min(middle + cuts, length)) if config.causal else ():
            replaced = rows(np.where(np.arange(length) < cut, text, other))
            if not np.allclose(replaced[:cut], whole[:cut], NEAR, NEAR):
                raise Fault(LATER)


def check_parts(encodings: Sequence[Encoding], text: Int[np.ndarray, "L"]) -> None:
    """ValueError unless one layer gives the same rows by blocks of keys, and in a causal model for
    a shorter text and from a cache, the last token alone.
    """
    limits = [limit for e in encodings if (limit := e.limit()) is not None]
    text = np.resize(text, min([PART, *limits]))
    if len(text) < 2:
        return
    with running(_hooks(encodings)):
        for e in encodings:
            _check_distances(e)
        made = tuple(e.at(len(text)) for e in _in_one_layer(encodings))
        config = model_of(made[0].dims)
        blockwise, params = _model(dataclasses.replace(config, attention="blockwise"), made)
        dense, _ = _model(dataclasses.replace(config, attention="dense"), made)
        whole, blocks, pieces = _forms(
            _noisy(params, made), text, graphdefs=(blockwise, dense), encodings=made
        )
        for part, words in ((blocks, BLOCKS), (pieces, PARTS)):
            if not np.allclose(part, whole[:, : part.shape[1]], CLOSE, CLOSE, equal_nan=True):
                raise Fault(words)


def without_gradient(encodings: Sequence[Encoding]) -> list[str]:
    """The parameters of the last of these encodings that no gradient reaches in one layer, on a
    text of its training length (of 512 tokens at most), neither as drawn nor with noise.
    """
    made = _in_one_layer(encodings)
    dims = made[0].dims
    graphdef, initial = _model(model_of(dims), made)
    length = min(dims.train_len, 512)
    tokens = np.arange(length, dtype=np.int32) % min(dims.vocab, 512)
    weights = np.random.default_rng(0).normal(size=(length, dims.model)).astype(np.float32)

    def summed(params):
        return (_rows(params, tokens, graphdef=graphdef, encodings=made) * weights).sum()

    slopes = [jax.grad(summed)(params) for params in (initial, _noisy(initial, made))]
    largest = jax.tree.map(lambda *of: max(np.abs(a).max() for a in of), *slopes)
    return [
        path[-1].key
        for path, slope in jax.tree_util.tree_leaves_with_path(largest)
        if path[0].key in ("shared", "owned") and path[-2].key == len(made) - 1
        if path[-1].key not in made[-1].fixed and not slope
    ]


def _in_one_layer(encodings: Sequence[Encoding]) -> tuple[Encoding, ...]:
    dims = encodings[0].dims._replace(layers=1)
    return tuple(dataclasses.replace(e, dims=dims, layers=":") for e in encodings)


def _check_distances(e: Encoding) -> None:
    # Hooks of the distance are evaluated at distances that occur, from constant_from on once.
    drawn, end = e.init(jax.random.key(0)), e.constant_from()
    params = noisy(drawn, 0) | {name: drawn[name] for name in e.fixed}
    far = jnp.asarray((end or 0) - 1 + 2 ** np.arange(20, dtype=np.int32))
    for hook in (hook for hook in RELATIVE if overrides(e, hook)):
        for n in (far,) if e.dims.causal else (far, -far):
            values, alone = (np.asarray(getattr(e, hook)(params, m)) for m in (n, n[:9]))
            if not np.allclose(values[:, :9], alone, NEAR, NEAR, equal_nan=True):
                raise Fault(ALONE)
            if end is not None and not np.allclose(values, values[:, :1], NEAR, NEAR):
                raise Fault(CONSTANT)


def _hooks(encodings: Sequence[Encoding]) -> list[tuple[Encoding, str]]:
    # Those that may be at fault in a model
    users = [e for e in encodings if is_users(e)] or encodings
    hooks = [(e, hook) for e in users for hook in sites(e) if hook not in ("at", "limit")]
    return hooks or [(users[0], "at")]


def model_of(dims: Dims) -> LmConfig:
    """A model of these sizes."""
    sizes = dims._asdict()
    del sizes["train_len"]
    return LmConfig(**sizes, mlp=1, tie_embeddings=True)


def _model(config: LmConfig, encodings: Sequence[Encoding]) -> tuple[nnx.GraphDef, Any]:
    model = LM(config, encodings, rngs=nnx.Rngs(params=0, encodings=1))
    graphdef, params = nnx.split(model, nnx.Param)
    return graphdef, nnx.to_pure_dict(params)


def _noisy(params: Any, encodings: Sequence[Encoding]) -> Any:
    # With normal noise of a deviation of 0.3 on what encodings learn
    rng = np.random.default_rng(0)

    def moved(path, a):
        if path[0].key not in ("shared", "owned"):
            return a
        if path[-1].key in encodings[path[-2].key].fixed:
            return a
        return a + (0.3 * rng.normal(size=a.shape)).astype(np.float32)

    return jax.tree.map_with_path(moved, params)


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"))
def _rows(params, tokens, *, graphdef, encodings):
    # The rows of a text [L] in the full forward pass
    model = nnx.merge(graphdef, params, copy=True)
    key = jax.random.key(0)
    return model(tokens[None], encodings=encodings, key=key, scan=True, rows=True)[0][0]


@functools.partial(jax.jit, static_argnames=("graphdefs", "encodings"))
def _forms(params, tokens, *, graphdefs, encodings):
    # The rows of a text [L] by dense attention and by blocks; and in a causal model those of its
    # first half and of one token more, which is decoded from a cache
    blockwise, dense = (nnx.merge(graphdef, params, copy=True) for graphdef in graphdefs)
    tokens, length, half = tokens[None], len(tokens), len(tokens) // 2
    pos = positions(encodings, 1, length, length, jax.random.key(0))
    call = {"encodings": encodings, "rows": True}
    whole = dense(tokens, Past.none(1, pos), **call)[0]
    blocks = blockwise(tokens, Past.none(1, pos), **call)[0]
    if not dense.config.causal:
        return whole, blocks, whole
    first, cache = dense(tokens[:, :half], Cache.empty(1, pos), **call)
    more, _ = dense(tokens[:, half : half + 1], cache.grown(length), **call)
    return whole, blocks, jnp.concatenate([first, more], axis=1)
