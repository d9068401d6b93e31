"""The hooks of a user's own encodings, traced before a run begins. What raises, or gives something
else than the contract says, is told with the encoding, the hook, the shapes and the line.

Inside attention a wrong shape would be an error that names none of these, or be broadcast into a
wrong answer. Tracing computes nothing; `init` alone is called. The encodings of the table are
traced by the tests alone.

Axes: L sequence, T queries, S keys, N distances, H heads, K head size, D model size, J any size.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct as Shape

from pe_jax.encoding import RELATIVE, Encoding, overrides
from pe_jax.encodings import ENCODINGS
from pe_jax.errors import first_line, last_line

FACTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("limit", "highest_position", "trained_from", "constant_from"),
        (lambda value: value is None or isinstance(value, int), "an integer or None"),
    ),
    "reach": (
        lambda value: (
            value is None
            or isinstance(value, tuple | list)
            and [type(part) for part in value] == [int, int]
        ),
        "two integers, (window, sinks), or None",
    ),
}


class Site(NamedTuple):
    """What a hook gets, and what it must give."""

    hook: str
    arguments: tuple[Any, ...]
    axes: tuple[str, ...]
    """The axes of each array that it gives, as in "H T S"."""
    kind: Any = jnp.floating
    """What its dtype must be."""
    broadcast: bool = False
    """Whether what broadcasts to these axes will do."""


def check(encodings: Sequence[Encoding], names: Sequence[str], dtype: Any) -> None:
    """ValueError for the first wrong hook of the members of a spec that are of a user's own class.
    `names` are what to call the members; `dtype` is that of activations.
    """
    pos: Any = jnp.int32
    for encoding, name in zip(encodings, names, strict=True):
        if type(encoding) not in ENCODINGS.values():
            check_hooks(encoding, name, pos, dtype)
        if overrides(encoding, "positions"):
            pos = _Hooks(encoding, name, 2, 2, pos, dtype).positions().dtype


def check_hooks(
    encoding: Encoding, name: str, pos: Any = jnp.int32, dtype: Any = jnp.float32
) -> None:
    """ValueError for the first wrong hook of an encoding; `pos` is the dtype of the positions that
    it gets. Hooks are traced at two lengths, so that no shape is right by chance.
    """
    most = encoding.dims.train_len
    for keys, queries in ((most, most), (max(1, most - 1), max(1, most // 2))):
        _Hooks(encoding, name, keys, queries, pos, dtype).check()


@dataclasses.dataclass
class _Hooks:
    """The hooks of an encoding for S keys, the last T of which are queries."""

    encoding: Encoding
    name: str
    S: int
    T: int
    pos: Any
    dtype: Any

    def __post_init__(self):
        at = self._called("at", lambda: self.encoding.at(self.S))
        if not isinstance(at, Encoding):
            raise self._wrong("at", repr(at), "an encoding")
        self.encoding, dims = at, at.dims
        self.sizes = {"T": self.T, "S": self.S, "L": self.S, "N": self.T + self.S - 1}
        self.sizes |= {"H": dims.heads, "K": dims.head, "D": dims.model}

    def check(self) -> None:
        for hook, (right, words) in FACTS.items():
            value = self._called(hook, getattr(self.encoding, hook))
            if not right(value):
                raise self._wrong(hook, repr(value), words)
        drawn = self._called("init", lambda: self.encoding.init(jax.random.key(0)))
        entries = drawn.values() if isinstance(drawn, dict) else (None,)
        if any(getattr(a, "dtype", None) != jnp.float32 for a in entries):
            raise self._wrong("init", _described(drawn), "a dictionary of float32 arrays")
        if isinstance(fixed := self.encoding.fixed, str):
            raise ValueError(f"{self.name}: fixed must be a tuple of names, as in ({fixed!r},)")
        if unknown := sorted({*fixed} - drawn.keys()):
            wanted = f"{', '.join(unknown)}, which `fixed` names"
            raise self._wrong("init", ", ".join(drawn) or "no entries", wanted)
        params = jax.tree.map(lambda a: Shape(a.shape, a.dtype), drawn)
        self.positions()
        coords = self._coords(params)
        for site in self._sites(params, coords):
            if overrides(self.encoding, site.hook):
                self._check(site, self._traced(site.hook, *site.arguments))

    def positions(self) -> Any:
        """The shape and dtype of what `positions` gives."""
        for train in (True, False):
            arguments = self._of("L", jnp.int32), self._of("L", self.pos), jax.random.key(0)
            moved = self._traced("positions", *arguments, train=train)
            self._check(Site("positions", (), ("L",), jnp.number), moved)
        return moved

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
                raise self._wrong(
                    "locate", _described(coords), f"arrays [L, ...] = [{self.S}, ...]"
                )
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
        return self._called(hook, lambda: jax.eval_shape(function, *arguments))

    def _called(self, hook: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # the code is the user's
            raise ValueError(
                f"{self.name}: {hook} raised {type(error).__name__}: {first_line(error)} "
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

    def _wrong(self, hook: str, found: str, wanted: str) -> ValueError:
        return ValueError(
            f"{self.name}: {hook} must give {wanted}, got {found} ({place(self.encoding, hook)})"
        )


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

    def text(a: Any) -> Any:
        return _Text(f"{a.dtype}{list(a.shape)}") if hasattr(a, "dtype") else a

    return str(jax.tree.map(text, found))


class _Text(str):
    """Text that stands in a tree without quotes."""

    __repr__ = str.__str__
