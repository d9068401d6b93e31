"""The hooks of an encoding, traced: nothing is computed but `init`.

Inside attention a wrong shape would be an error that names no hook, or be broadcast into a wrong
answer.

Axes: L sequence, T queries, S keys, N distances, H heads, K head size, D model size, J any size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct as Shape

from pe_jax.encoding import RELATIVE, Encoding, overrides
from pe_jax.errors import first_line, last_line

CALLBACKS = ("pure_callback", "io_callback", "debug_callback")
"""Primitives that call Python while a program runs. jax.debug.print is none of them: it shows
numbers, and can neither read nor change any."""


class Site(NamedTuple):
    """The arguments of a hook, and the arrays that it must return."""

    hook: str
    arguments: tuple[Any, ...]
    axes: tuple[str, ...]
    """Of each array, as in "H T S"."""
    kind: Any = jnp.floating
    """Of its dtype."""
    broadcast: bool = False
    """Whether an array that broadcasts to these axes is right, too."""


def check_hooks(encoding: Encoding, pos: Any = jnp.int32, dtype: Any = jnp.float32) -> None:
    """Traces every hook that an encoding overrides, at two lengths, so that no shape is right by
    chance.

    Args:
        encoding: for a model of `encoding.dims`.
        pos: the dtype of the positions that it gets.
        dtype: that of activations.

    Raises:
        ValueError: a hook raises, returns another shape or dtype than the contract says, or calls
            Python while the program runs. The message has the line of the file.
    """
    most = encoding.dims.train_len
    for keys, queries in ((most, most), (max(1, most - 1), max(1, most // 2))):
        Traced(encoding, keys, queries, pos, dtype).check()


def refuse_callbacks(jaxpr: Any, name: str) -> None:
    """ValueError if the program of a hook calls Python, inside nested programs too."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in CALLBACKS:
            raise ValueError(
                f"{name} calls Python while the program runs ({eqn.primitive.name}), which may "
                "read anything and differ from run to run: compute it with jax.numpy"
            )
        for inner in jax.tree.leaves([*eqn.params.values()], is_leaf=_is_jaxpr):
            if _is_jaxpr(inner):
                refuse_callbacks(inner, name)


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns")


@dataclasses.dataclass
class Traced:
    """The hooks of an encoding for S keys, the last T of which are queries."""

    encoding: Encoding
    S: int
    T: int
    pos: Any
    dtype: Any

    def __post_init__(self):
        with self._calling("at"):
            at = self.encoding.at(self.S)
        if not isinstance(at, Encoding):
            raise self._wrong("at", repr(at), "an encoding")
        self.encoding, dims = at, at.dims
        self.sizes = {"T": self.T, "S": self.S, "L": self.S, "N": self.T + self.S - 1}
        self.sizes |= {"H": dims.heads, "K": dims.head, "D": dims.model}

    def check(self) -> None:
        self._check_facts()
        with self._calling("init"):
            drawn = self.encoding.init(jax.random.key(0))
        entries = drawn.values() if isinstance(drawn, dict) else (None,)
        if any(getattr(a, "dtype", None) != jnp.float32 for a in entries):
            raise self._wrong("init", _described(drawn), "a dictionary of float32 arrays")
        if isinstance(fixed := self.encoding.fixed, str):
            raise ValueError(f"{self._name}: fixed must be a tuple of names, as in ({fixed!r},)")
        if unknown := sorted({*fixed} - drawn.keys()):
            wanted = f"{', '.join(unknown)}, which `fixed` names"
            raise self._wrong("init", ", ".join(drawn) or "no entries", wanted)
        params = jax.tree.map(lambda a: Shape(a.shape, a.dtype), drawn)
        self.positions()
        for site in self._sites(params, self._coords(params)):
            if overrides(self.encoding, site.hook):
                self._check(site, self._traced(site.hook, *site.arguments))

    def positions(self) -> Any:
        """The shape and dtype of the positions."""
        for train in (True, False):
            arguments = self._of("L", jnp.int32), self._of("L", self.pos), jax.random.key(0)
            moved = self._traced("positions", *arguments, train=train)
            self._check(Site("positions", (), ("L",), jnp.number), moved)
        return moved

    def _check_facts(self) -> None:
        for hook in ("limit", "highest_position", "trained_from", "constant_from"):
            with self._calling(hook):
                value = getattr(self.encoding, hook)()
            if not (value is None or isinstance(value, int)):
                raise self._wrong(hook, repr(value), "an integer or None")
        with self._calling("reach"):
            reach = self.encoding.reach()
        pair = isinstance(reach, tuple | list) and [type(part) for part in reach] == [int, int]
        if not (reach is None or pair):
            raise self._wrong("reach", repr(reach), "two integers, (window, sinks), or None")

    def _coords(self, params: Any) -> Any:
        """The shapes of what `locate` gives for the keys."""
        pos = self._of("L", self.pos)
        if not overrides(self.encoding, "locate"):
            return pos
        x, before = self._of("L D", jnp.float32), None
        for _ in range(2):  # at the start of a sequence, and going on
            coords = self._traced("locate", params, x, pos, before)
            leaves = jax.tree.leaves(coords)
            if not leaves or any(leaf.shape[:1] != (self.S,) for leaf in leaves):
                wanted = f"arrays [L, ...] = [{self.S}, ...]"
                raise self._wrong("locate", _described(coords), wanted)
            before = jax.tree.map(lambda a: Shape(a.shape[1:], a.dtype), coords)
        return coords

    def _sites(self, params: Any, k_pos: Any) -> Iterator[Site]:
        q_pos = jax.tree.map(lambda a: Shape((self.T, *a.shape[1:]), a.dtype), k_pos)
        vectors = self._of("T H K", self.dtype), self._of("S H K", self.dtype)
        logits, n = self._of("H T S", jnp.float32), self._of("N", self.pos)
        x, tokens = self._of("L D", self.dtype), self._of("L", jnp.int32)
        yield Site("embed", (params, x, tokens, self._of("L", self.pos)), ("L D",))
        yield Site("scale", (params, q_pos), ("T H",), broadcast=True)
        yield Site("qk", (params, *vectors, q_pos, k_pos), ("T H J", "S H J"))
        yield Site("far", (q_pos, k_pos), ("T S",), jnp.bool_)
        if not overrides(self.encoding, "locate"):
            yield Site("far_positions", (q_pos, k_pos), ("T", "S"), jnp.number)
        for hook in RELATIVE:
            of_pairs = hook in ("relative_bias", "relative_gate")
            yield Site(hook, (params, n), ("H N" if of_pairs else "H N K",))
        yield Site("bias", (params, q_pos, k_pos), ("H T S",), broadcast=True)
        yield Site("logits", (params, logits, *vectors, q_pos, k_pos), ("H T S",))
        yield Site("normalize", (params, logits), ("H T S",))
        yield Site("gate", (params, q_pos, k_pos), ("H T S",), broadcast=True)

    def _of(self, axes: str, dtype: Any) -> Shape:
        return Shape(tuple(self.sizes[axis] for axis in axes.split()), dtype)

    def _traced(self, hook: str, *arguments: Any, **options: Any) -> Any:
        """The shapes and dtypes of what the hook gives."""
        function = functools.partial(getattr(self.encoding, hook), **options)
        with self._calling(hook):
            jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        refuse_callbacks(jaxpr, f"{self._name}: {hook}")
        return shapes

    @contextlib.contextmanager
    def _calling(self, hook: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the code is the user's
            raise ValueError(
                f"{self._name}: {hook} raised {type(error).__name__}: {first_line(error)} "
                f"({place(self.encoding, hook, error)})"
            ) from error

    def _check(self, site: Site, found: Any) -> None:
        arrays = found if isinstance(found, tuple) else (found,)
        sizes = self.sizes
        if site.hook == "qk" and len(arrays) == 2:
            sizes = sizes | {"J": (getattr(arrays[0], "shape", ()) or (0,))[-1]}
        wanted = [tuple(sizes.get(axis, 0) for axis in axes.split()) for axes in site.axes]
        if len(arrays) != len(wanted) or not all(
            isinstance(array, Shape)
            and (array.shape == shape or site.broadcast and _broadcasts(array.shape, shape))
            and jnp.issubdtype(array.dtype, site.kind)
            and array.dtype.itemsize <= 4
            for array, shape in zip(arrays, wanted, strict=True)
        ):
            kind = {jnp.floating: "floats", jnp.bool_: "booleans"}.get(site.kind, "numbers")
            words = [
                f"[{', '.join(axes.split())}]"
                + f" = [{', '.join(str(sizes.get(axis, axis)) for axis in axes.split())}]"
                for axes in site.axes
            ]
            broadcast = ", or what broadcasts to it" * site.broadcast
            raise self._wrong(
                site.hook, _described(found), f"{kind} {' and '.join(words)}{broadcast}"
            )

    @property
    def _name(self) -> str:
        return type(self.encoding).__name__

    def _wrong(self, hook: str, found: str, wanted: str) -> ValueError:
        where = place(self.encoding, hook)
        return ValueError(f"{self._name}: {hook} must give {wanted}, got {found} ({where})")


def place(encoding: Encoding, hook: str, error: Exception | None = None) -> str:
    """A file and the line in it: of the encoding, where it raised; of the hook, which it may have
    from another class, where that raised or begins.
    """
    code = inspect.unwrap(getattr(type(encoding), hook)).__code__
    own = getattr(sys.modules.get(type(encoding).__module__), "__file__", None)
    for file in (own, code.co_filename):
        if file and error and (line := last_line(file, error)):
            return f"{file}, line {line}"
    return f"{code.co_filename}, line {code.co_firstlineno}"


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def _described(found: Any) -> str:
    """Arrays by dtype and shape, as in float32[3, 64]."""
    arrays = jax.tree.map(
        lambda a: f"{a.dtype}{list(a.shape)}" if hasattr(a, "dtype") else a, found
    )
    return str(arrays).replace("'", "")
