"""Hooks of pairs inside a kernel: the program of a hook for one pair, evaluated on a tile.

A kernel computes with two-dimensional tiles [queries, keys]. `bias`, `gate` and `far` are traced
for one pair, and each number in an array of that program, such as the hidden layer of an MLP,
becomes a tile: a column [queries, 1] if it depends on the query alone, a row [1, keys] on the key,
[1, 1] for a parameter. An array is a NumPy array of tiles: functions act on each tile, and reshape,
transpose and slice move whole tiles, at no cost.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import (
    ClosedJaxpr,  # pyright: ignore[reportPrivateImportUsage]  # an alias from jax 0.12 on
    Literal,
)

MOST = 8192
"""Operations on tiles of a hook or its gradient: more take long to compile, and are better done as
products of matrices.
"""

ELEMENTWISE = frozenset(
    "abs add add_any and atan2 cbrt ceil clamp convert_element_type cos cosh div eq erf exp exp2 "
    "expm1 floor ge gt integer_pow is_finite le log log1p logistic lt max min mul ne neg not or "
    "pow rem round rsqrt select_n sin sinh sqrt square sub tan tanh xor".split()
)
INNER = "jaxpr", "call_jaxpr", "fun_jaxpr"
"""The parameters of primitives that hold a called program."""
CALLS = frozenset(
    "checkpoint closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr jit "
    "pjit remat remat2".split()
)
REDUCED = {
    "reduce_sum": operator.add,
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
    "reduce_prod": operator.mul,
}

Tiles = np.ndarray  # of objects: tiles, or NumPy numbers for constants


class NotPointwise(Exception):
    """A program that cannot be evaluated on tiles, with the reason."""


def evaluate(program: ClosedJaxpr, *arguments: Tiles) -> list[Tiles]:
    """The results of a program of one pair, for all pairs of a tile. NotPointwise for an operation
    that is neither elementwise nor a move of numbers, and beyond MOST operations.
    """
    return _Evaluation().run(program, arguments)


def operations(program: ClosedJaxpr, *shapes: Any) -> int:
    """How many `evaluate` makes for arguments of these shapes. NotPointwise as there."""
    evaluation = _Evaluation()

    def run(tiles):
        arguments = zip(shapes, tiles, strict=True)
        evaluation.run(program, [filled(a.shape, itertools.repeat(tile)) for a, tile in arguments])

    jax.eval_shape(run, [jax.ShapeDtypeStruct((1, 1), a.dtype) for a in shapes])
    return evaluation.made


def filled(shape: Sequence[int], values: Any) -> Tiles:
    """An array of the values in row-major order."""
    out = np.empty(shape, object)
    for place, value in zip(np.ndindex(*shape), values, strict=False):
        out[place] = value
    return out


def constants(array: Any) -> Tiles:
    """The numbers of an array."""
    array = np.asarray(array)
    return filled(array.shape, (array[place] for place in np.ndindex(*array.shape)))


class _Evaluation:
    def __init__(self):
        self.made = 0

    def run(self, program: ClosedJaxpr, arguments: Sequence[Tiles]) -> list[Tiles]:
        jaxpr = program.jaxpr
        values: dict[Any, Tiles] = dict(zip(jaxpr.invars, arguments, strict=True))
        values |= zip(jaxpr.constvars, map(constants, program.consts), strict=True)

        def read(atom):
            return constants(atom.val) if isinstance(atom, Literal) else values[atom]

        for equation in jaxpr.eqns:
            results = self._equation(equation, [read(atom) for atom in equation.invars])
            values |= zip(equation.outvars, results, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, xs: list[Tiles]) -> list[Tiles]:
        primitive, params = equation.primitive, equation.params
        name = primitive.name
        if name in ELEMENTWISE:
            bind = functools.partial(primitive.bind, **params)
            return [self._each(bind, *xs)]
        if name == "sign":  # Mosaic's own asks which TPU it is for
            return [self._each(lambda x: (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype), *xs)]
        if name in CALLS:
            inner = next(params[key] for key in INNER if key in params)
            closed = inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ())
            return self.run(closed, xs)
        if name == "scan":
            return self._scan(equation, xs)
        if name == "dot_general":
            return [self._product(params["dimension_numbers"], *xs)]
        if name in REDUCED:
            return [self._reduced(REDUCED[name], xs[0], params["axes"])]
        if name == "iota":
            with jax.ensure_compile_time_eval():
                return [constants(primitive.bind(**params))]
        if name == "split":
            ends = np.cumsum(params["sizes"])[:-1]
            return np.split(xs[0], ends, params["axis"])
        if name in MOVES:
            return [MOVES[name](params, *xs)]
        raise NotPointwise(f"{name} is no function of one pair's numbers")

    # The function of each tile.
    def _each(self, function: Callable, *xs: Tiles) -> Tiles:
        wide = np.broadcast_arrays(*xs)
        self._made(wide[0].size)
        places = np.ndindex(*wide[0].shape)
        return filled(wide[0].shape, (_of_tiles(function, [x[p] for x in wide]) for p in places))

    # Sums, products or extremes along axes.
    def _reduced(self, function: Callable, x: Tiles, axes: Sequence[int]) -> Tiles:
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        shape = [x.shape[axis] for axis in kept]
        rows = x.transpose(*axes, *kept).reshape(-1, *shape)
        return functools.reduce(
            functools.partial(self._each, function), (rows[n, ...] for n in range(len(rows)))
        )

    # Sums of products, tile by tile: no matrix product is worth it for axes this short.
    def _product(self, dimensions: Any, a: Tiles, b: Tiles) -> Tiles:
        (sum_a, sum_b), (batch_a, batch_b) = dimensions
        free_a = [i for i in range(a.ndim) if i not in (*sum_a, *batch_a)]
        free_b = [i for i in range(b.ndim) if i not in (*sum_b, *batch_b)]
        batch = [a.shape[i] for i in batch_a]
        rows, columns = ([x.shape[i] for i in free] for x, free in ((a, free_a), (b, free_b)))
        a = a.transpose(*sum_a, *batch_a, *free_a).reshape(-1, *batch, *rows, *[1] * len(columns))
        b = b.transpose(*sum_b, *batch_b, *free_b).reshape(-1, *batch, *[1] * len(rows), *columns)
        return self._reduced(operator.add, self._each(operator.mul, a, b), (0,))

    # A loop, unrolled. Its inputs are constants, then the carry, then arrays with an axis of steps.
    def _scan(self, equation: Any, xs: list[Tiles]) -> list[Tiles]:
        params, inner = equation.params, equation.params["jaxpr"].jaxpr
        carried = sum(map(_same_rank, equation.outvars, inner.outvars))
        fixed = sum(map(_same_rank, equation.invars, inner.invars)) - carried
        along = xs[fixed + carried :]
        xs, carry = xs[:fixed], xs[fixed : fixed + carried]
        steps = list(range(params["length"]))[:: -1 if params["reverse"] else 1]
        outs: dict[int, list[Tiles]] = {}
        for step in steps:
            results = self.run(params["jaxpr"], [*xs, *carry, *(x[step, ...] for x in along)])
            carry, outs[step] = results[:carried], results[carried:]
        return [*carry, *(np.stack(y) for y in zip(*(outs[s] for s in sorted(outs)), strict=True))]

    def _made(self, count: int) -> None:
        self.made += count
        if self.made > MOST:
            raise NotPointwise(f"more than {MOST} operations for one pair")


def _same_rank(a: Any, b: Any) -> bool:
    return len(a.aval.shape) == len(b.aval.shape)


# The function of tiles, columns, rows and numbers, broadcast to the same shape.
def _of_tiles(function: Callable, xs: Sequence[Any]) -> Any:
    if all(isinstance(x, np.generic) for x in xs):
        with jax.ensure_compile_time_eval():
            return np.asarray(function(*xs))[()]
    shape = np.broadcast_shapes(*map(np.shape, xs))
    return function(*(x if np.shape(x) == shape else jnp.broadcast_to(x, shape) for x in xs))


def _broadcast(params: Any, x: Tiles, *_: Any) -> Tiles:
    shape = [1] * len(params["shape"])
    for axis, target in enumerate(params["broadcast_dimensions"]):
        shape[target] = x.shape[axis]
    return np.broadcast_to(x.reshape(shape), params["shape"])


def _pad(params: Any, x: Tiles, value: Tiles) -> Tiles:
    low, high, between = zip(*params["padding_config"], strict=True)
    if min(*low, *high, 0) < 0:
        raise NotPointwise("pad by less than nothing")
    shape = [
        int(before + size + max(0, size - 1) * gap + after)
        for before, size, gap, after in zip(low, x.shape, between, high, strict=True)
    ]
    out = filled(shape, itertools.repeat(value[()]))
    out[
        tuple(slice(a, n - b, g + 1) for a, b, g, n in zip(low, high, between, shape, strict=True))
    ] = x
    return out


def _slice(params: Any, x: Tiles) -> Tiles:
    strides = params["strides"] or (1,) * x.ndim
    cuts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(itertools.starmap(slice, cuts))]


MOVES: dict[str, Callable[..., Tiles]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda params, *xs: np.concatenate(xs, params["dimension"]),
    "copy": lambda params, x: x,
    "expand_dims": lambda params, x: np.expand_dims(x, params["dimensions"]),
    "pad": _pad,
    "reshape": lambda params, x: x.reshape(params["new_sizes"]),
    "rev": lambda params, x: np.flip(x, params["dimensions"]),
    "slice": _slice,
    "squeeze": lambda params, x: x.squeeze(tuple(params["dimensions"])),
    "stop_gradient": lambda params, x: x,
    "transpose": lambda params, x: x.transpose(params["permutation"]),
}
"""Primitives that move numbers, as functions of their parameters and arrays."""
