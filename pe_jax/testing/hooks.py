"""The hooks of an encoding, traced: nothing is computed but `init`. Inside attention a wrong shape
would be an error that names no hook, or be broadcast into a wrong answer.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
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

# Primitives that call Python while a program runs, as programs are printed. jax.debug.print is none
CALLBACKS = re.compile(r"\b(pure_callback|io_callback|debug_callback)\[")
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
    "sink": "H",
    "gate": "H T S",
}
"""The axes of the arrays that hooks get and return: L sequence, T queries, S keys, N distances, H
heads, K head size, D model size, J any size."""
NUMBERS = ("positions", "far_positions")
BROADCAST = ("scale", "bias", "gate")
"""Hooks that return numbers of any kind, and hooks that may return what broadcasts."""


class Fault(Exception):
    """What a hook does wrong."""


@contextlib.contextmanager
def running(hooks: Sequence[tuple[Encoding, str]]) -> Iterator[None]:
    """Makes a fault, or an error of a user's hook, a ValueError that names the hooks and a line,
    but for a lack of memory, where nothing is scored either.
    """
    try:
        yield
    except Exception as error:  # the code is the user's
        if "RESOURCE_EXHAUSTED" in str(error):
            return
        names = " or ".join(f"{type(encoding).__name__}.{hook}" for encoding, hook in hooks)
        raised = f"raised {type(error).__name__}: {first_line(error)}"
        said = str(error) if isinstance(error, Fault) else raised
        raise ValueError(f"{names} {said} ({place(*hooks[0], error)})") from error


def place(encoding: Encoding, hook: str, error: Exception) -> str:
    """A file and the line in it: of the encoding, where it raised; of the hook, which it may have
    from another class, where that raised or begins.
    """
    code = inspect.unwrap(getattr(type(encoding), hook)).__code__
    own = getattr(sys.modules.get(type(encoding).__module__), "__file__", None)
    for file in (own, code.co_filename):
        if file and (line := last_line(file, error)):
            return f"{file}, line {line}"
    return f"{code.co_filename}, line {code.co_firstlineno}"


def is_users(encoding: Encoding) -> bool:
    """Whether it is of a user's own class."""
    return type(encoding) not in ENCODINGS.values()


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


def check_hooks(encoding: Encoding, pos: Any = jnp.int32, dtype: Any = jnp.float32) -> None:
    """Traces every hook that an encoding overrides, at two lengths, so that no shape is right by
    chance, for positions of dtype `pos` and activations of `dtype`. ValueError, with the line of
    the file, if a hook raises, calls Python while the program runs, or returns another shape or
    dtype than the contract says.
    """
    most = encoding.dims.train_len
    for S, T in ((most, most), (max(1, most - 1), max(1, most // 2))):
        with running([(encoding, "at")]):
            made = encoding.at(S)
            if not isinstance(made, Encoding):
                raise Fault(f"must give an encoding, got {made!r}")
        _check_at(made, S, T, pos, dtype)


def _check_at(encoding: Encoding, S: int, T: int, pos: Any, dtype: Any) -> None:
    dims = encoding.dims
    sizes = {"T": T, "S": S, "L": S, "N": T + S - 1}
    sizes |= {"H": dims.heads, "K": dims.head, "D": dims.model}
    with running([(encoding, "init")]):
        drawn = encoding.init(jax.random.key(0))
        entries = drawn.values() if isinstance(drawn, dict) else (None,)
        if any(getattr(a, "dtype", None) != jnp.float32 for a in entries):
            raise Fault(f"must give a dictionary of float32 arrays, got {_shown(drawn)}")
        if unknown := sorted({*encoding.fixed} - drawn.keys()):
            names = ", ".join(unknown)
            raise Fault(f"must give {names}, which `fixed` names, got {_shown([*drawn])}")
    kinds = dict.fromkeys(("x", "q", "k"), dtype) | {"logits": jnp.float32, "tokens": jnp.int32}
    inputs: dict[str, Any] = {
        name: Shape(tuple(sizes[axis] for axis in axes.split()), kinds.get(name, pos))
        for name, axes in INPUTS.items()
    }
    inputs |= {"params": jax.tree.map(lambda a: Shape(a.shape, a.dtype), drawn)}
    inputs |= {"key": jax.random.key(0)}
    if overrides(encoding, "locate"):
        inputs |= _located(encoding, inputs | {"x": Shape((S, dims.model), jnp.float32)}, S, T)
    if overrides(encoding, "mix"):
        _check_mix(encoding, inputs, sizes)
    for hook, axes in OUTPUTS.items():
        if overrides(encoding, hook) and not (hook == "far_positions" and "before" in inputs):
            for train in (True, False) if hook == "positions" else (False,):
                with running([(encoding, hook)]):
                    output = _traced(encoding, hook, inputs | {"train": train})
                    _check_arrays(hook, axes.split(", "), sizes, output)


def _located(encoding: Encoding, inputs: dict[str, Any], S: int, T: int) -> dict[str, Any]:
    # What hooks get as coordinates, from `locate` at the start of a sequence and going on
    before = None
    for _ in range(2):
        with running([(encoding, "locate")]):
            coords = _traced(encoding, "locate", inputs | {"before": before})
            leaves = jax.tree.leaves(coords)
            if not leaves or any(leaf.shape[:1] != (S,) for leaf in leaves):
                raise Fault(f"must give arrays [L, ...] = [{S}, ...], got {_shown(coords)}")
        before = jax.tree.map(lambda a: Shape(a.shape[1:], a.dtype), coords)
    queries = jax.tree.map(lambda a: Shape((T, *a.shape[1:]), a.dtype), coords)
    return {"q_pos": queries, "k_pos": coords, "before": before}


def _check_mix(encoding: Encoding, inputs: dict[str, Any], sizes: dict[str, int]) -> None:
    # `mix` where a text begins, and going on from its state
    states: list[Any] = [None]
    for _ in range(2):
        with running([(encoding, "mix")]):
            output = _traced(encoding, "mix", inputs | {"state": states[-1]})
            if not isinstance(output, tuple) or len(output) != 2:
                raise Fault(f"must give (y, the state after the last token), got {_shown(output)}")
            _check_arrays("mix", ["L D"], sizes, output[0])
            states.append(output[1])
            if states[1] != states[-1]:
                raise Fault(f"goes on from the state {_shown(states[1])} to {_shown(states[-1])}")


def _traced(encoding: Encoding, hook: str, inputs: dict[str, Any]) -> Any:
    # The shapes and dtypes of what a hook returns
    arguments = {name: inputs[name] for name in HOOKS[hook][1:]}
    train = {"train": arguments.pop("train")} if "train" in arguments else {}
    function = functools.partial(getattr(encoding, hook), **train)
    program, shapes = jax.make_jaxpr(lambda given: function(**given), return_shape=True)(arguments)
    if fault := callback(program):
        raise Fault(fault)
    return shapes


def callback(program: Any) -> str:
    """The fault of a traced program that calls Python while it runs; "" of another."""
    if call := CALLBACKS.search(str(program)):
        return f"calls Python while the program runs ({call[1]}): compute it with jax.numpy"
    return ""


def _check_arrays(hook: str, wanted: list[str], sizes: dict[str, int], output: Any) -> None:
    arrays = output if isinstance(output, tuple) else (output,)
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
        each = " and ".join(
            f"[{axes.replace(' ', ', ')}] = {[*shape]}"
            for axes, shape in zip(wanted, shapes, strict=True)
        )
        broadcast = ", or what broadcasts to it" * (hook in BROADCAST)
        raise Fault(f"must give {words} {each}{broadcast}, got {_shown(output)}")


def _shown(output: Any) -> str:
    arrays = jax.tree.map(
        lambda a: f"{a.dtype}{list(a.shape)}" if hasattr(a, "dtype") else a, output
    )
    return f"{arrays}".replace("'", "")


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    with contextlib.suppress(ValueError):
        return np.broadcast_shapes(shape, wanted) == wanted
    return False
