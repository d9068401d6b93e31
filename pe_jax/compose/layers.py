"""The layers that an encoding acts in: in a spec Python slices or numbers, with commas between,
such as ":", "::2", "-1:" or "0,3,5:".
"""

from __future__ import annotations

import ast
import operator

from pe_jax.encoding import Encoding


def layers_of(encoding: Encoding) -> list[int]:
    """The layers it acts in, counted from 0, ascending. ValueError if its field `layers` holds no
    slices or numbers, or none of the model's layers.
    """
    every = range(encoding.dims.layers)
    parts = [every[part] for part in _slices(encoding.layers)]
    layers = [layer for layer in every if any(layer in part for part in parts)]
    if not layers:
        raise ValueError(
            f"{type(encoding).__name__} acts in no layer: the model has {encoding.dims.layers}, "
            f"layers is {encoding.layers!r}"
        )
    return layers


def active(encoding: Encoding, layer: int) -> bool:
    """Whether the encoding acts in `layer`, counted from 0."""
    return layer in layers_of(encoding)


def _slices(text: str) -> list[slice]:
    try:
        (subscript,) = ast.parse(f"_[{text}]").body
        inside = subscript.value.slice  # type: ignore[attr-defined]
        return [_slice(part) for part in getattr(inside, "elts", [inside])]
    except (SyntaxError, ValueError, TypeError, AttributeError):
        raise ValueError(
            "layers must be slices or numbers with commas between, such as ':', '::2', '-1:' or "
            f"'0,3', got {text!r}"
        ) from None


def _slice(part: ast.expr) -> slice:
    """The slice that a slice or a number of the text stands for. TypeError if it is neither."""
    if isinstance(part, ast.Slice):
        ends = part.lower, part.upper, part.step
        return slice(*(end and operator.index(ast.literal_eval(end)) for end in ends))
    number = operator.index(ast.literal_eval(part))
    return slice(number, number + 1 or None)
