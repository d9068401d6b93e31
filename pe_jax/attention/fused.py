"""Fused attention: the formulas of the package (`__init__.py`) in Pallas kernels for a TPU or a
GPU, forward and backward, that write neither logits nor weights to memory.

A query block goes along the key blocks that it sees, with an online softmax. Inside, tile by tile,
are computed

    relative_bias, relative_gate  numbers at the T + S distances of consecutive positions: a tile
                                  reads 2 x block of them and lays them out along its diagonals
    bias, gate, far               the hook's own program for one pair of tokens (pointwise.py)
    reach, causality, padding     a mask from indices; tiles without a visible pair are left out

and by XLA before it `scale`, `qk`, `locate` and the relative hooks. The backward pass (Dao, 2023;
arXiv:2307.08691) keeps the log of each softmax's denominator, recomputes the weights, and gives JAX
the gradients of the kernel's inputs: queries, keys and values, numbers at each distance, parameters
and coordinates of pairs' hooks.

    p_ij = exp(s_ij - lse_i)         the softmax's weights
    w_ij = p_ij c_ij                 after the gates c
    dw   = do v^T,  dc = p dw,  ds = p (c dw - delta),  delta_i = do_i . o_i
    dq   = ds k,  dk = ds^T q,  dv = w^T do

A `sink` b multiplies the output by e^lse / (e^b + e^lse) after the kernel; the gradient of lse is
taken off delta.

Products are of the dtype of q, k and v, sums and softmax float32. `o` in delta is rounded to v's
dtype: in bfloat16 a gradient that is a small difference of large sums, as of FIRE's MLP, is several
times less exact than dense attention's. Not served (`refusal`): hooks that read or replace logits,
vectors at distances, and programs of pairs that are not pointwise or, on a GPU, large. TPU and GPU
differ in the loop over blocks, the layout of diagonals and sums over programs (`_Tpu`, `_Gpu`).

Axes: T queries, S keys, H heads, G heads of one program, J components of the dot product, V of the
values, n of either, B tokens of a block, W padded distances, C numbers of a coordinate.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plgpu
from jax.extend.core import ClosedJaxpr  # pyright: ignore[reportPrivateImportUsage]
from jax.ref import addupdate
from jaxtyping import Array, Bool, Float, Int, Shaped

from pe_jax.attention import pointwise
from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import prepare
from pe_jax.attention.relative import Tables
from pe_jax.attention.rows import ABSENT, Rows, visible_pairs
from pe_jax.encoding import HIDDEN, overrides

Target = Literal["tpu", "gpu"]
Side = Literal["q", "k"]
"""Queries, or keys with values: the first letter of the names of their arrays."""
PAIRS = "bias", "gate", "far"
REFUSED = "normalize", "logits", "relative_keys", "relative_queries", "relative_values"
TABLES = "relative_bias", "relative_gate"
ROWS = "q", "q_far", "k", "k_far", "k_value"
"""The vectors of tokens."""
ALL = slice(None)
ATTENTION = "attention"
"""The name in policies of jax.checkpoint of queries, keys and values and the kernel's results."""


def refusal(pe: Bound, queries: Rows, keys: Rows, heads: int, target: Target = "tpu") -> str:
    """Why the kernel cannot serve these encodings; "" if it can.

    Queries must be the last rows of the keys, whose indices are consecutive or absent: a full
    forward pass, without a memory or a cache.
    """
    if hooks := [hook for hook in REFUSED if pe.has(hook)]:
        return f"{hooks[0]} has no form for tiles"
    if (tables := [hook for hook in TABLES if pe.has(hook)]) and not pe.contiguous:
        return f"{tables[0]} needs consecutive positions"
    try:
        pairs = _Pairs.of(pe, queries, keys, heads)
    except pointwise.NotPointwise as why:
        return f"a hook of pairs is not pointwise: {why}"
    many = target == "gpu" and pairs and heads * pairs.operations > pointwise.MOST
    return "a hook of pairs, compiled for each head, is too large" if many else ""


def attend_fused(
    pe: Bound,
    q: Float[Array, "T H K"],
    k: Float[Array, "S H K"],
    v: Float[Array, "S H K"],
    queries: Rows,
    keys: Rows,
    target: Target,
    block: int | None = None,
    interpret: bool = False,
) -> Float[Array, "T H K"]:
    """As `dense.attend`, in memory O(T + S) with gradients, where `refusal` is empty. `block` is
    the number of tokens in a block; `interpret` runs the kernel of the target on a CPU.
    """
    all_queries, all_keys = prepare(pe, q, k, v, queries, keys)
    pairs = _Pairs.of(pe, queries, keys, q.shape[1])
    kind = {"tpu": _Tpu, "gpu": _Gpu}[target]
    block = block or kind.block(len(k), v.shape[-1], bool(pairs))
    plan = _Plan(block, len(q), len(k), q.shape[1], pe.causal, pe.reach, pairs, kind, interpret)
    dtype = jnp.result_type(all_queries.rotated, all_keys.rotated)
    tables = Tables.of(pe, queries.pos, keys.pos).of_hook if pe.contiguous else {}
    vectors = {
        "q": all_queries.rotated,
        "k": all_keys.rotated,
        "q_far": all_queries.far,
        "k_far": all_keys.far,
    }
    given = {name: plan.vectors(a.astype(dtype)) for name, a in vectors.items() if a is not None}
    given["k_value"] = plan.vectors(v)
    given |= {hook: plan.table(table) for hook, table in tables.items()}
    fixed = {
        "q_idx": plan.row(queries.idx, constant_values=ABSENT),
        "k_idx": plan.row(keys.idx, constant_values=ABSENT),
    }
    for name, leaf in pairs.arrays.items() if pairs else ():
        rows = leaf[None] if name == "numbers" else plan.row(leaf)
        (given if _floats(leaf) else fixed)[name] = rows
    out, lse = _differentiable(plan)(given, fixed)
    if (sink := pe.sink()) is not None:
        out = out * jax.nn.sigmoid(lse - sink[:, None, None])
    return jnp.moveaxis(out, -1, 0)[: len(q), :, : v.shape[-1]].astype(v.dtype)


def _floats(a: Any) -> bool:
    return jnp.issubdtype(a.dtype, jnp.floating)


class _Pairs(NamedTuple):
    # The hooks of pairs of all encodings, as programs for one pair of tokens.
    # `forward` maps the leaves of the parameters and of the query's and the key's coordinates that
    # a hook reads to the results of the hooks, [H] each. `backward` also gets the cotangents of the
    # results, and returns those of the arguments that are floats, in `operations` on tiles.

    names: tuple[str, ...]
    """Of the results, as in PAIRS. "far" is 1 or 0, and has no gradient."""
    arrays: dict[str, Array]
    """Inputs of the kernel: coordinates, [L, ...], and all parameters, "numbers" [P]."""
    arguments: tuple[tuple[str, Any], ...]
    """Of each argument the name of its array, its shape and dtype."""
    forward: ClosedJaxpr
    backward: ClosedJaxpr
    operations: int

    @classmethod
    def of(cls, pe: Bound, queries: Rows, keys: Rows, heads: int) -> _Pairs | None:
        """None without such a hook; NotPointwise if one cannot run on tiles."""
        members = [
            i for i, e in enumerate(pe.encodings) if any(overrides(e, name) for name in PAIRS)
        ]
        if not members:
            return None
        every = pe.params, queries.coords, keys.coords
        leaves, tree = jax.tree.flatten(tuple(tuple(each[i] for i in members) for each in every))
        params = len(jax.tree.leaves([pe.params[i] for i in members]))
        tokens = (len(leaves) - params) // 2
        places = ["numbers"] * params + [f"{x}_coord{n}" for x in "qk" for n in range(tokens)]
        shapes = tuple((a.shape[n >= params :], a.dtype) for n, a in enumerate(leaves))
        encodings = tuple(pe.encodings[i] for i in members)
        used, *programs = _programs(encodings, pe.causal, heads, tree, shapes)
        arrays = {places[n]: leaves[n] for n in used if n >= params}
        if numbers := [leaves[n].ravel() for n in used if n < params]:
            arrays["numbers"] = jnp.concatenate(numbers)
        names = tuple(name for name in PAIRS if pe.has(name))
        arguments = tuple((places[n], jax.ShapeDtypeStruct(*shapes[n])) for n in used)
        return cls(names, arrays, arguments, *programs)


# (which leaves are read, `_Pairs.forward`, `_Pairs.backward`, `_Pairs.operations`).
@functools.lru_cache(maxsize=256)
def _programs(encodings: Any, causal: bool, heads: int, tree: Any, shapes: Any) -> Any:
    structs = list(itertools.starmap(jax.ShapeDtypeStruct, shapes))
    names = [name for name in PAIRS if any(overrides(e, name) for e in encodings)]

    def hooks(*leaves):
        params, *coords = jax.tree.unflatten(tree, leaves)
        pe = Bound(params, encodings, causal=causal)
        rows = [jax.tree.map(lambda a: a[None], c) for c in coords]
        given = [getattr(pe, name)(*rows) for name in names]
        return [jnp.broadcast_to(a, (heads, 1, 1))[:, 0, 0].astype(jnp.float32) for a in given]

    jaxpr = jax.make_jaxpr(hooks)(*structs).jaxpr
    read = [v for equation in jaxpr.eqns for v in equation.invars] + jaxpr.outvars
    used = [n for n, v in enumerate(jaxpr.invars) if any(v is other for other in read)]

    def forward(*arguments):
        leaves = [jnp.zeros(a.shape, a.dtype) for a in structs]
        for n, argument in zip(used, arguments, strict=True):
            leaves[n] = argument
        return hooks(*leaves)

    def backward(*arguments):
        arguments, slopes = arguments[: len(used)], arguments[len(used) :]
        floats = [n for n, a in enumerate(arguments) if _floats(a)]

        def of_floats(*some):
            replaced = dict(zip(floats, some, strict=True))
            return forward(*(replaced.get(n, a) for n, a in enumerate(arguments)))

        return jax.vjp(of_floats, *(arguments[n] for n in floats))[1](list(slopes))

    given = [structs[n] for n in used]
    slopes = [jax.ShapeDtypeStruct((heads,), jnp.float32)] * len(names)
    programs = jax.make_jaxpr(forward)(*given), jax.make_jaxpr(backward)(*given, *slopes)
    pointwise.operations(programs[0], *given)
    return used, *programs, pointwise.operations(programs[1], *given, *slopes)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """The static part of a call: how arrays are padded, and which blocks meet."""

    block: int
    queries: int
    keys: int
    heads: int
    causal: bool
    reach: tuple[tuple[int, int], ...]
    pairs: _Pairs | None
    target: type[_Tpu] | type[_Gpu]
    interpret: bool

    def blocks(self, side: Side) -> int:
        return pl.cdiv(self.queries if side == "q" else self.keys, self.block)

    @property
    def group(self) -> int:
        """G: all heads with a hook of pairs, whose program has the results of all."""
        return self.heads if self.pairs else 1

    # The shape of a number of each token of a block.
    def line(self, side: Side) -> tuple[int, int]:
        return (1, self.block) if side == "q" else (self.block, 1)

    # What goes into the kernel, padded to whole blocks.

    def vectors(self, a: Float[Array, "L H n"]) -> Float[Array, "H wide padded"]:
        """Tokens last; for a GPU with a power of two of components."""
        L, _, n = a.shape
        wide = self.target.components(n)
        return jnp.pad(jnp.moveaxis(a, 0, -1), [(0, 0), (0, wide - n), (0, -L % self.block)])

    def row(self, a: Shaped[Array, "L *n"], **fill: Any) -> Shaped[Array, "C padded"]:
        """Tokens last, and all other axes as one."""
        L = a.shape[0]
        rows = jnp.moveaxis(a.reshape(L, math.prod(a.shape[1:])), 0, -1)
        return jnp.pad(rows, [(0, 0), (0, -L % self.block)], **fill or {"mode": "edge"})

    def table(self, a: Float[Array, "H N"]) -> Float[Array, "H 1 W"]:
        """`relative.Tables` reversed: query t and key j have column t + S' - 1 - j of S' padded."""
        first = self.blocks("k") * self.block + self.queries - 1 - a.shape[1]
        last = self.blocks("q") * self.block - self.queries + 1
        a = jnp.broadcast_to(a.astype(jnp.float32), (self.heads, a.shape[1]))
        return jnp.pad(a[:, ::-1], [(0, 0), (first, last)])[:, None]

    # Which blocks meet, by their numbers. Query t is at the place of key S - T + t.

    def keys_of(self, i: Any) -> tuple[Any, Any]:
        """The first and the last key block that the window of a query block overlaps."""
        begin = self.keys - self.queries + i * self.block
        end = begin + self.block - 1
        window, last = self._window, self.blocks("k") - 1
        low = self._block_of(jnp.maximum(begin - window + 1, 0)) if window else 0 * i
        far = end if self.causal else end + window - 1 if window else self.keys
        return low, jnp.minimum(self._block_of(far), last)

    def queries_of(self, j: Any) -> tuple[Any, Any]:
        """The first and the last query block that sees anything of a key block."""
        begin = j * self.block - (self.keys - self.queries)
        window, last = self._window, self.blocks("q") - 1
        near = begin if self.causal else begin - window + 1 if window else 0 * j
        low = self._block_of(jnp.maximum(near, 0))
        if not window:
            return low, 0 * j + last
        high = jnp.minimum(self._block_of(begin + self.block + window - 2), last)
        sink = j < self._first
        return low if self.causal else jnp.where(sink, 0, low), jnp.where(sink, last, high)

    def visit(self, side: Side, number: Any, step: Any) -> tuple[Any, Any, Any]:
        """(query block, key block, whether to visit this tile) at a step; sinks come first."""
        if side == "k":
            low, high = self.queries_of(number)
            i = jnp.clip(low + step, 0, self.blocks("q") - 1)
            return i, number, low + step <= high
        low, high = self.keys_of(number)
        near = low + step - self._first
        if not self._first:
            return number, jnp.minimum(near, high), near <= high
        far = (step < low) if self.causal else (step < low) | (step > high)
        first = step < self._first
        j = jnp.where(first, step, jnp.minimum(near, high))
        return number, j, jnp.where(first, far, near <= high)

    def steps(self, side: Side, number: Any) -> Any:
        """How many steps a block of a side takes."""
        low, high = self.keys_of(number) if side == "q" else self.queries_of(number)
        return high - low + 1 + (self._first if side == "q" else 0)

    def most_steps(self, side: Side) -> int:
        with jax.ensure_compile_time_eval():
            return max(1, int(jnp.max(self.steps(side, jnp.arange(self.blocks(side))))))

    # Its block's number; by a shift, since Mosaic has no division that rounds down.
    def _block_of(self, token: Any) -> Any:
        return token >> (self.block.bit_length() - 1)

    # The narrowest window; 0: none. A pair that it hides is one of its sinks.
    @property
    def _window(self) -> int:
        return min((window for window, _ in self.reach), default=0)

    # The blocks of the sinks.
    @property
    def _first(self) -> int:
        most = max((sinks for _, sinks in self.reach), default=0)
        return min(pl.cdiv(most, self.block), self.blocks("k"))


class _Kernel(NamedTuple):
    # One of the three programs: a loop over the blocks of a side, and for each of them over the
    # blocks of the other side that it meets.

    side: Side
    arrays: dict[str, Any]
    outputs: dict[str, Any]
    """Shapes of arrays with a part for each block of the side."""
    sums: dict[str, Any]
    """Shapes of sums over all programs of a group of heads."""
    of_head: dict[str, tuple[tuple[int, ...], float]]
    """The state of a head in the inner loop: shapes and initial values."""
    of_tokens: dict[str, int]
    """The state that the heads share: numbers of each token of the block, 0 at first."""
    step: Callable[..., tuple[dict[int, dict[str, Array]], dict[str, list]]]
    """step(tile, sums, {head: state}, shared) -> the states after one more tile"""
    finish: Callable[..., None]
    """finish(out, {head: state}, shared) writes the outputs."""


class _Tile:
    """One query block with one key block, inside a kernel."""

    def __init__(self, plan: _Plan, refs: dict[str, Any], i: Any, j: Any, at: Any, more: Any):
        self.plan, self.refs, self.i, self.j, self.at, self.more = plan, refs, i, j, at, more
        self.target: Any = plan.target

    # The first of the tile's 2 B columns in a table.
    @property
    def start(self) -> Any:
        start = (self.plan.blocks("k") - 1 - self.j + self.i) * self.plan.block
        return pl.multiple_of(start, self.plan.block)

    def vectors(self, name: str, head: int) -> Float[Array, "n B"]:
        return self.refs[name][head, :, self.at[name[0]]]

    # The dot products: "" of near pairs, "_far" of far ones.
    def dot(self, kind: str, head: int) -> Float[Array, "B B"]:
        return _product(self.vectors(f"k{kind}", head), self.vectors(f"q{kind}", head), (0, 0))

    # A number of each token, to be broadcast: [1, B] of queries, [B, 1] of keys.
    def numbers(self, name: str, head: int) -> Array:
        ref, at = self.refs[name], self.at[name[0]]
        row = ref[head : head + 1, at] if len(ref.shape) == 2 else ref[head, :, at]
        return row if name[0] == "q" else self.target.turned(row)

    @functools.cached_property
    def seen(self) -> Bool[Array, "B B"]:
        i, j = self.numbers("q_idx", 0), self.numbers("k_idx", 0)
        return visible_pairs(self.plan.causal, self.plan.reach, i, j) & self.more

    # The tile of each head from each hook of pairs.
    @functools.cached_property
    def hooks(self) -> dict[str, Any]:
        pairs = self.plan.pairs
        if pairs is None:
            return {}
        results = pointwise.evaluate(pairs.forward, *self._arguments(pairs))
        return dict(zip(pairs.names, results, strict=True))

    def logits(self, head: int) -> Float[Array, "B B"]:
        s = self.dot("", head)
        if "far" in self.hooks:
            s = jnp.where(self.hooks["far"][head] > 0, self.dot("_far", head), s)
        if "relative_bias" in self.refs:
            s += self.laid_out("relative_bias", head)
        return s + self.hooks["bias"][head] if "bias" in self.hooks else s

    # The gradient of the dot products, by the kinds of `dot`.
    def slopes_of_products(self, head: int, slope: Float[Array, "B B"]) -> dict[str, Any]:
        if "far" not in self.hooks:
            return {"": slope}
        far = self.hooks["far"][head] > 0
        return {"": jnp.where(far, 0.0, slope), "_far": jnp.where(far, slope, 0.0)}

    def gate_of_table(self, head: int) -> Any:
        return self.laid_out("relative_gate", head) if "relative_gate" in self.refs else 1.0

    def gate_of_hook(self, head: int) -> Any:
        return self.hooks["gate"][head] if "gate" in self.hooks else 1.0

    def gate(self, head: int) -> Any:
        return self.gate_of_table(head) * self.gate_of_hook(head)

    # The numbers of a table, one for each pair.
    def laid_out(self, name: str, head: int) -> Float[Array, "B B"]:
        return self.target.laid_out(self.refs[name], head, self.start, self.plan.block)

    # The gradients of the arguments of hooks of pairs: by the name of an array a tile for each of
    # its numbers.
    def hooks_slopes(self, slopes: dict[int, tuple[Array, Array, Array]]) -> dict[str, list]:
        pairs = self.plan.pairs
        assert pairs

        def cotangent(name, head):
            if head not in slopes or name == "far":
                return np.float32(0)
            _, of_logits, of_gates = slopes[head]
            return of_logits if name == "bias" else of_gates * self.gate_of_table(head)

        heads = range(self.plan.heads)
        given = [
            pointwise.filled((len(heads),), (cotangent(n, g) for g in heads)) for n in pairs.names
        ]
        results = iter(pointwise.evaluate(pairs.backward, *self._arguments(pairs), *given))
        tiles: dict[str, list] = {}
        for name, shape in pairs.arguments:
            if _floats(shape):
                tiles.setdefault(name, []).extend(next(results).ravel())
        return tiles

    def _arguments(self, pairs: _Pairs) -> Iterator[pointwise.Tiles]:
        numbers = itertools.count()
        for name, shape in pairs.arguments:
            count = math.prod(shape.shape)
            if name == "numbers":
                ref = self.refs[name]
                values = [self.target.number(ref, next(numbers)) for _ in range(count)]
            else:
                values = [self.numbers(name, c) for c in range(count)]
            yield pointwise.filled(shape.shape, values)


# A product of matrices along these axes, float32.
def _product(a: Array, b: Array, axes: tuple[int, int]) -> Float[Array, "B n"]:
    return jax.lax.dot_general(
        a, b, (((axes[0],), (axes[1],)), ((), ())), preferred_element_type=jnp.float32
    )


# The kernel, (output, lse), with its gradient, as a function of the arrays that have one and of the
# others.
def _differentiable(plan: _Plan) -> Callable:
    @jax.custom_vjp
    def attend(given, fixed):
        out = _forward(plan, given | fixed)
        return out["q_out"], out["q_lse"]

    def forward(given, fixed):
        out = _forward(plan, given | fixed)
        vectors = {name: a for name, a in given.items() if name in ROWS}
        vectors, out = checkpoint_name((vectors, out), ATTENTION)
        return (out["q_out"], out["q_lse"]), (given | vectors, fixed, out)

    def backward(residuals, slopes):
        (given, fixed, out), (slope, of_lse) = residuals, slopes
        delta = (slope.astype(jnp.float32) * out["q_out"].astype(jnp.float32)).sum(1)
        arrays = given | fixed | {"q_slope": slope, "q_lse": out["q_lse"]}
        arrays["q_delta"] = delta[:, None] - of_lse
        slopes = _gradients(plan, "q", arrays) | _gradients(plan, "k", arrays)
        return {name: slopes[name].astype(a.dtype) for name, a in given.items()}, None

    attend.defvjp(forward, backward)
    return attend


# The output, [H, T', V], and the logarithm of the softmax's denominator, [H, 1, T'].
def _forward(plan: _Plan, arrays: dict[str, Any]) -> dict[str, Array]:
    H, width, _ = arrays["k_value"].shape
    tokens, B = arrays["q"].shape[-1], plan.block

    def step(tile, sums, states, shared):
        return {head: one(tile, head, **state) for head, state in states.items()}, shared

    def one(tile, head, top, total, out):
        s = jnp.where(tile.seen, tile.logits(head), HIDDEN)
        new = jnp.maximum(top, s.max(0, keepdims=True))
        w, rescale = jnp.where(tile.seen, jnp.exp(s - new), 0.0), jnp.exp(top - new)
        total = total * rescale + w.sum(0, keepdims=True)
        v, w = tile.vectors("k_value", head), w * tile.gate(head)
        out = out * rescale + _product(v, w.astype(v.dtype), (1, 0))
        return {"top": new, "total": total, "out": out}

    def finish(out, states, shared):
        for head, state in states.items():
            total = jnp.where(state["total"] > 0, state["total"], 1.0)
            out["q_out"][head] = (state["out"] / total).astype(out["q_out"].dtype)
            out["q_lse"][head] = state["top"] + jnp.log(total)

    outputs = {
        "q_out": jax.ShapeDtypeStruct((H, width, tokens), arrays["k_value"].dtype),
        "q_lse": jax.ShapeDtypeStruct((H, 1, tokens), jnp.float32),
    }
    of_head = {"top": ((1, B), HIDDEN / 2), "total": ((1, B), 0.0), "out": ((width, B), 0.0)}
    return plan.target.run(plan, _Kernel("q", arrays, outputs, {}, of_head, {}, step, finish))


# Of one head in one tile, [B, B]: w, ds and dc.
def _slopes(tile: _Tile, head: int) -> tuple[Array, Array, Array]:
    p = jnp.where(tile.seen, jnp.exp(tile.logits(head) - tile.numbers("q_lse", head)), 0.0)
    do = tile.vectors("q_slope", head)
    dw = _product(tile.vectors("k_value", head), do, (0, 0))
    gate = tile.gate(head)
    return p * gate, p * (dw * gate - tile.numbers("q_delta", head)), p * dw


# The gradients of one side's vectors and coordinates. The queries' program also adds up the
# gradients of tables and parameters.
def _gradients(plan: _Plan, side: Side, arrays: dict[str, Any]) -> dict[str, Array]:
    other, axis = ("k", 0) if side == "q" else ("q", 1)
    vectors = [name for name in ROWS if name[0] == side and name in arrays]
    coords = [name for name in arrays if name.startswith(f"{side}_coord") and _floats(arrays[name])]
    summed = (*TABLES, "numbers") if side == "q" else ()

    def step(tile, sums, states, shared):
        slopes = {head: _slopes(tile, head) for head in states}
        states = {
            head: add_head(tile, sums, head, slopes[head], state) for head, state in states.items()
        }
        if coords or "numbers" in sums:
            of_hooks = tile.hooks_slopes(slopes)
            if "numbers" in sums:
                plan.target.add_numbers(sums["numbers"], of_hooks["numbers"], plan.block)
            shared = {
                name: [
                    old + _whole(x, plan.block).sum(axis, keepdims=True)
                    for old, x in zip(shared[name], of_hooks[name], strict=True)
                ]
                for name in coords
            }
        return states, shared

    def add_head(tile, sums, head, slopes, state):
        state, (weights, of_logits, of_gates) = dict(state), slopes
        for kind, slope in tile.slopes_of_products(head, of_logits).items():
            met = tile.vectors(f"{other}{kind}", head)
            state[f"{side}{kind}"] += _product(met, slope.astype(met.dtype), (1, axis))
        if side == "k":
            do = tile.vectors("q_slope", head)
            state["k_value"] += _product(do, weights.astype(do.dtype), (1, 1))
        if "relative_bias" in sums:
            plan.target.add_diagonals(sums["relative_bias"], head, tile.start, of_logits)
        if "relative_gate" in sums:
            slope = of_gates * tile.gate_of_hook(head)
            plan.target.add_diagonals(sums["relative_gate"], head, tile.start, slope)
        return state

    def finish(out, states, shared):
        for head, state in states.items():
            for name, slope in state.items():
                out[name][head] = slope.astype(out[name].dtype)
        for name, lines in shared.items():
            for c, line in enumerate(lines):
                row = line if side == "q" else plan.target.turned(line)
                out[name][c : c + 1, :] = row.astype(out[name].dtype)

    kernel = _Kernel(
        side,
        arrays,
        {n: jax.ShapeDtypeStruct(arrays[n].shape, arrays[n].dtype) for n in (*vectors, *coords)},
        {n: jax.ShapeDtypeStruct(arrays[n].shape, jnp.float32) for n in summed if n in arrays},
        {name: ((arrays[name].shape[1], plan.block), 0.0) for name in vectors},
        {name: arrays[name].shape[0] for name in coords},
        step,
        finish,
    )
    return plan.target.run(plan, kernel)


# A tile of what may be a column, a row or a number.
def _whole(x: Any, block: int) -> Float[Array, "B B"]:
    return jnp.broadcast_to(x, (block, block))


# The part of an array for a program: G heads, and of a side in `blocks` one block of tokens, whose
# number the function there gives for the program's place in the grid.
def _spec(plan: _Plan, name: str, array: Any, blocks: dict[str, Callable]) -> pl.BlockSpec:
    shape, number = list(array.shape), blocks.get(name[0])
    if len(shape) == 3:
        shape[0] = plan.group
    if number:
        shape[-1] = plan.block

    def index(head, *place):
        tokens = number(*place) if number else 0
        return (0, tokens) if len(shape) == 2 else (head, 0, tokens)

    return pl.BlockSpec(tuple(shape), index)


class _Tpu:
    # Mosaic: the grid is over tiles, with the state in scratch memory. Programs run one after
    # another, so that a sum over programs is an output of all of them.

    @staticmethod
    def block(keys: int, components: int, wide: bool) -> int:
        # By the memory of a core: a hook of pairs keeps many tiles.
        return 128 if wide else min(512, max(128, pl.next_power_of_2(keys)))

    @staticmethod
    def components(count: int) -> int:
        return count

    @staticmethod
    def turned(row: Array) -> Array:
        return row.T

    @staticmethod
    def number(ref: Any, n: int) -> Float[Array, "1 1"]:
        return ref[:, n : n + 1]

    @staticmethod
    def add_numbers(ref: Any, tiles: list, block: int) -> None:
        place = jax.lax.broadcasted_iota(jnp.int32, ref.shape, 1)
        total = jnp.zeros(ref.shape, jnp.float32)
        for n, tile in enumerate(tiles):
            if not isinstance(tile, np.generic) or tile:
                tile = _whole(tile, block).sum(0, keepdims=True).sum(1, keepdims=True)
                total = jnp.where(place == n, tile, total)
        ref[...] += total

    @staticmethod
    def laid_out(ref: Any, head: int, start: Any, block: int) -> Float[Array, "B B"]:
        # of row r the columns from start + B - 1 - r on: each row is rolled by one more
        wide = jnp.broadcast_to(ref[head, :, pl.ds(start, 2 * block)], (block, 2 * block))
        return pltpu.roll(wide, block + 1, 1, stride=1, stride_axis=0)[:, :block]

    @staticmethod
    def add_diagonals(ref: Any, head: int, start: Any, tile: Float[Array, "B B"]) -> None:
        # the transpose of `laid_out`: bit by bit, since a roll by stride goes one way only
        block = len(tile)
        wide = jnp.concatenate([tile, jnp.zeros_like(tile)], axis=1)
        shift = block - 1 - jax.lax.broadcasted_iota(jnp.int32, wide.shape, 0)
        for bit in range((block - 1).bit_length()):
            wide = jnp.where((shift >> bit) & 1 == 1, pltpu.roll(wide, 2**bit, 1), wide)
        ref[head, :, pl.ds(start, 2 * block)] += wide.sum(0, keepdims=True)

    @staticmethod
    def run(plan: _Plan, kernel: _Kernel) -> dict[str, Array]:
        side, steps = kernel.side, plan.most_steps(kernel.side)
        blocks = {
            "q": lambda number, step: plan.visit(side, number, step)[0],
            "k": lambda number, step: plan.visit(side, number, step)[1],
        }

        def program(arrays, out, of_head, of_tokens):
            number, step = pl.program_id(1), pl.program_id(2)
            i, j, more = plan.visit(side, number, step)
            sums = {name: out[name] for name in kernel.sums}
            lines = jax.tree.leaves(of_tokens)

            def carried():
                heads = range(plan.group)
                states = {head: {n: ref[head] for n, ref in of_head.items()} for head in heads}
                return states, jax.tree.map(lambda ref: ref[...], of_tokens)

            @pl.when(step == 0)
            def _():
                for name, ref in of_head.items():
                    ref[...] = jnp.full_like(ref, kernel.of_head[name][1])
                for ref in lines:
                    ref[...] = jnp.zeros_like(ref)

            @pl.when((step == 0) & (number == 0))
            def _():
                for ref in sums.values():
                    ref[...] = jnp.zeros_like(ref)

            @pl.when(more)
            def _():
                tile = _Tile(plan, arrays, i, j, {"q": ALL, "k": ALL}, True)
                states, shared = kernel.step(tile, sums, *carried())
                for head, state in states.items():
                    for name, value in state.items():
                        of_head[name][head] = value
                for ref, value in zip(lines, jax.tree.leaves(shared), strict=True):
                    ref[...] = value

            @pl.when(step == steps - 1)
            def _():
                kernel.finish(out, *carried())

        outputs = kernel.outputs | kernel.sums
        line = pltpu.VMEM(plan.line(side), jnp.float32)
        scratch = (
            {n: pltpu.VMEM((plan.group, *s), jnp.float32) for n, (s, _) in kernel.of_head.items()},
            {name: [line] * count for name, count in kernel.of_tokens.items()},
        )
        return pl.pallas_call(
            program,
            grid=(plan.heads // plan.group, plan.blocks(side), steps),
            in_specs=[{name: _spec(plan, name, a, blocks) for name, a in kernel.arrays.items()}],
            out_specs={name: _spec(plan, name, a, blocks) for name, a in outputs.items()},
            out_shape=outputs,
            scratch_shapes=scratch,
            interpret=plan.interpret,
        )(kernel.arrays)


class _Gpu:
    # Triton: the grid is over the blocks of a side, with a loop over the other side's blocks in
    # each program. Programs run at once, so that sums over programs are atomic additions. From JAX
    # 0.12 on, Pallas warns that it will give up Triton.

    @staticmethod
    def block(keys: int, components: int, wide: bool) -> int:
        # By the registers and the shared memory of a program.
        return 32 if wide or components > 64 else 64

    @staticmethod
    def components(count: int) -> int:
        return max(16, pl.next_power_of_2(count))

    @staticmethod
    def turned(row: Array) -> Array:
        return row.reshape(row.shape[::-1])

    @staticmethod
    def number(ref: Any, n: int) -> Float[Array, ""]:
        return ref[0, n]

    @staticmethod
    def add_numbers(ref: Any, tiles: list, block: int) -> None:
        for n, tile in enumerate(tiles):
            if not isinstance(tile, np.generic) or tile:
                addupdate(ref, (0, n), _whole(tile, block).sum())

    @staticmethod
    def laid_out(ref: Any, head: int, start: Any, block: int) -> Float[Array, "B B"]:
        return ref[head, 0, _columns(start, block)]

    @staticmethod
    def add_diagonals(ref: Any, head: int, start: Any, tile: Float[Array, "B B"]) -> None:
        addupdate(ref, (head, 0, _columns(start, len(tile))), tile)

    @staticmethod
    def run(plan: _Plan, kernel: _Kernel) -> dict[str, Array]:
        side, B = kernel.side, plan.block

        def program(zeros, arrays, sums, out):
            del zeros  # the sums, which begin as them
            number, line = pl.program_id(1), jnp.zeros(plan.line(side), jnp.float32)
            shared = {name: [line] * count for name, count in kernel.of_tokens.items()}

            def along(step, carried):
                i, j, more = plan.visit(side, number, step)
                met = pl.ds(pl.multiple_of((j if side == "q" else i) * B, B), B)
                tile = _Tile(plan, arrays, i, j, {"q": met, "k": met, side: ALL}, more)
                return kernel.step(tile, sums, *carried)

            for head in range(plan.group):
                state = {n: jnp.full(s, x, jnp.float32) for n, (s, x) in kernel.of_head.items()}
                carried = {head: state}, shared
                carried = jax.lax.fori_loop(0, plan.steps(side, number), along, carried)
                kernel.finish(out, *carried)
                shared = carried[1]

        zeros = {name: jnp.zeros(a.shape, a.dtype) for name, a in kernel.sums.items()}
        specs = [
            {name: _spec(plan, name, a, {side: lambda number: number}) for name, a in part.items()}
            for part in (kernel.sums, kernel.arrays, kernel.sums, kernel.outputs)
        ]
        sums, out = pl.pallas_call(
            program,
            grid=(plan.heads // plan.group, plan.blocks(side)),
            in_specs=specs[:2],
            out_specs=specs[2:],
            out_shape=[kernel.sums, kernel.outputs],
            input_output_aliases={n: n for n in range(len(zeros))},
            compiler_params=None
            if plan.interpret
            else plgpu.CompilerParams(num_warps=4, num_stages=2),
            interpret=plan.interpret,
        )(zeros, kernel.arrays)
        return sums | out


# The column of each pair of a tile in a table.
def _columns(start: Any, block: int) -> Int[Array, "B B"]:
    row, column = (jax.lax.broadcasted_iota(jnp.int32, (block, block), a) for a in (0, 1))
    return start + block - 1 - row + column
