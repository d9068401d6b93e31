"""The hooks of an encoding, traced: nothing is computed but `init`. Inside attention a wrong shape
would be an error that names no hook, or be broadcast into a wrong answer.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct as Shape

from pe_jax.encoding import HOOKS, Encoding, overrides
from pe_jax.encodings import ENCODINGS
from pe_jax.errors import first_line, last_line

CALLBACKS = ("pure_callback", "io_callback", "debug_callback")
"""Primitives that call Python while a program runs. jax.debug.print is none of them: it shows
numbers, and can neither read nor change any."""
INPUTS = {"x": "L D", "tokens": "L", "pos": "L", "q": "T H K", "k": "S H K", "logits": "H T S"}
INPUTS |= {"n": "N", "q_pos": "T", "k_pos": "S"}
OUTPUTS = {
    "positions": "L",
    "embed": "L D",
    "scale": "T H",
    "qk": "T H J, S H J",
    "far": "T S",
    "far_positions": "T, S",
    "relative_bias": "H N",
    "relative_keys": "H N K",
    "relative_queries": "H N K",
    "relative_gate": "H N",
    "relative_values": "H N K",
    "bias": "H T S",
    "logits": "H T S",
    "normalize": "H T S",
    "gate": "H T S",
}
"""The axes of the arrays that hooks get and return: L sequence, T queries, S keys, N distances, H
heads, K head size, D model size, J any size."""
NUMBERS = ("positions", "far_positions")
BROADCAST = ("scale", "bias", "gate")
"""Hooks that return numbers of any kind, and those that may return what broadcasts."""


def check_members(encodings: Sequence[Encoding], dtype: Any) -> None:
    """`check_hooks` of the members of a spec that are of a user's own class. `dtype` is that of
    activations.
    """
    pos: Any = jnp.int32
    for encoding in encodings:
        if is_users(encoding):
            check_hooks(encoding, pos, dtype)
        if overrides(encoding, "positions"):
            tokens, places = Shape((2,), jnp.int32), Shape((2,), pos)
            move = functools.partial(encoding.positions, key=jax.random.key(0), train=True)
            pos = jax.eval_shape(move, tokens, places).dtype


def is_users(encoding: Encoding) -> bool:
    """Whether it is of a user's own class."""
    return type(encoding) not in ENCODINGS.values()


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
    _check_at(encoding, most, most, pos, dtype)
    _check_at(encoding, max(1, most - 1), max(1, most // 2), pos, dtype)


def _check_at(encoding: Encoding, S: int, T: int, pos: Any, dtype: Any) -> None:
    with _calling(encoding, "at"):
        at = encoding.at(S)
    if not isinstance(at, Encoding):
        raise _wrong(encoding, "at", at, "an encoding")
    encoding, dims = at, at.dims
    sizes = {"T": T, "S": S, "L": S, "N": T + S - 1}
    sizes |= {"H": dims.heads, "K": dims.head, "D": dims.model}
    with _calling(encoding, "init"):
        drawn = encoding.init(jax.random.key(0))
    entries = drawn.values() if isinstance(drawn, dict) else (None,)
    if any(getattr(a, "dtype", None) != jnp.float32 for a in entries):
        raise _wrong(encoding, "init", drawn, "a dictionary of float32 arrays")
    if unknown := sorted({*encoding.fixed} - drawn.keys()):
        raise _wrong(encoding, "init", [*drawn], f"{', '.join(unknown)}, which `fixed` names")
    kinds = dict.fromkeys(("x", "q", "k"), dtype) | {"logits": jnp.float32, "tokens": jnp.int32}
    inputs: dict[str, Any] = {
        name: Shape(tuple(sizes[axis] for axis in axes.split()), kinds.get(name, pos))
        for name, axes in INPUTS.items()
    }
    inputs |= {"params": jax.tree.map(lambda a: Shape(a.shape, a.dtype), drawn)}
    inputs |= {"key": jax.random.key(0)}
    if overrides(encoding, "locate"):
        inputs |= _located(encoding, inputs | {"x": Shape((S, dims.model), jnp.float32)}, S, T)
    for hook, axes in OUTPUTS.items():
        if overrides(encoding, hook) and not (hook == "far_positions" and "before" in inputs):
            for train in (True, False) if hook == "positions" else (False,):
                found = _traced(encoding, hook, inputs | {"train": train})
                _check_arrays(encoding, hook, axes.split(", "), sizes, found)


def _located(encoding: Encoding, inputs: dict[str, Any], S: int, T: int) -> dict[str, Any]:
    """What hooks get as coordinates, from `locate` at the start of a sequence and going on."""
    before = None
    for _ in range(2):
        coords = _traced(encoding, "locate", inputs | {"before": before})
        leaves = jax.tree.leaves(coords)
        if not leaves or any(leaf.shape[:1] != (S,) for leaf in leaves):
            raise _wrong(encoding, "locate", coords, f"arrays [L, ...] = [{S}, ...]")
        before = jax.tree.map(lambda a: Shape(a.shape[1:], a.dtype), coords)
    queries = jax.tree.map(lambda a: Shape((T, *a.shape[1:]), a.dtype), coords)
    return {"q_pos": queries, "k_pos": coords, "before": before}


def _check_arrays(
    encoding: Encoding, hook: str, wanted: list[str], sizes: dict[str, int], found: Any
) -> None:
    arrays = found if isinstance(found, tuple) else (found,)
    kind = jnp.number if hook in NUMBERS else jnp.bool_ if hook == "far" else jnp.floating
    sizes = sizes | {"J": (getattr(arrays[0], "shape", ()) or (0,))[-1]}
    shapes = [tuple(sizes[axis] for axis in axes.split()) for axes in wanted]
    if len(arrays) != len(shapes) or not all(
        isinstance(array, Shape)
        and (array.shape == shape or hook in BROADCAST and _broadcasts(array.shape, shape))
        and jnp.issubdtype(array.dtype, kind)
        and array.dtype.itemsize <= 4
        for array, shape in zip(arrays, shapes, strict=True)
    ):
        words = {jnp.floating: "floats", jnp.bool_: "booleans"}.get(kind, "numbers")
        each = [
            f"[{axes.replace(' ', ', ')}] = {[*shape]}"
            for axes, shape in zip(wanted, shapes, strict=True)
        ]
        broadcast = ", or what broadcasts to it" * (hook in BROADCAST)
        raise _wrong(encoding, hook, found, f"{words} {' and '.join(each)}{broadcast}")


def _traced(encoding: Encoding, hook: str, inputs: dict[str, Any]) -> Any:
    """The shapes and dtypes of what a hook returns."""
    arguments = {name: inputs[name] for name in HOOKS[hook][1:]}
    train = {"train": arguments.pop("train")} if "train" in arguments else {}
    function = functools.partial(getattr(encoding, hook), **train)
    with _calling(encoding, hook):
        jaxpr, shapes = jax.make_jaxpr(lambda given: function(**given), return_shape=True)(
            arguments
        )
    refuse_callbacks(jaxpr, f"{type(encoding).__name__}: {hook}")
    return shapes


def refuse_callbacks(jaxpr: Any, name: str) -> None:
    """ValueError if the program of a hook calls Python, inside nested programs too."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in CALLBACKS:
            raise ValueError(
                f"{name} calls Python while the program runs ({eqn.primitive.name}), which may "
                "read anything and differ from run to run: compute it with jax.numpy"
            )
        nested = jax.tree.leaves([*eqn.params.values()], is_leaf=lambda p: hasattr(p, "eqns"))
        for inner in nested:
            if hasattr(inner, "eqns"):
                refuse_callbacks(inner, name)


@contextlib.contextmanager
def _calling(encoding: Encoding, hook: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the code is the user's
        raise ValueError(
            f"{type(encoding).__name__}: {hook} raised {type(error).__name__}: {first_line(error)} "
            f"({place(encoding, hook, error)})"
        ) from error


def _wrong(encoding: Encoding, hook: str, found: Any, wanted: str) -> ValueError:
    arrays = jax.tree.map(
        lambda a: f"{a.dtype}{list(a.shape)}" if hasattr(a, "dtype") else a, found
    )
    said = f"{wanted}, got {arrays}".replace("'", "")
    return ValueError(
        f"{type(encoding).__name__}: {hook} must give {said} ({place(encoding, hook)})"
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
    with contextlib.suppress(ValueError):
        return np.broadcast_shapes(shape, wanted) == wanted
    return False
