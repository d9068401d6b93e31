"""The layers that an encoding acts in: the Python slice of a spec, such as ":", "::2" or "-1:"."""

from __future__ import annotations

import ast
import operator

from pe_jax.encoding import Encoding


def layers_of(encoding: Encoding) -> range:
    """The layers it acts in, counted from 0. ValueError if its field `layers` is no slice, or holds
    none of the model's layers.
    """
    layers = range(encoding.dims.layers)[_slice(encoding.layers)]
    if not layers:
        raise ValueError(
            f"{type(encoding).__name__} acts in no layer: the model has {encoding.dims.layers}, "
            f"layers is {encoding.layers!r}"
        )
    return layers


def active(encoding: Encoding, layer: int) -> bool:
    """Whether the encoding acts in `layer`, counted from 0."""
    return layer in layers_of(encoding)


def _slice(text: str) -> slice:
    try:
        (subscript,) = ast.parse(f"_[{text}]").body
        part = subscript.value.slice  # type: ignore[attr-defined]
        ends = [
            e and operator.index(ast.literal_eval(e)) for e in (part.lower, part.upper, part.step)
        ]
        return slice(*ends)
    except (SyntaxError, ValueError, TypeError, AttributeError):
        raise ValueError(
            f"layers must be a slice such as ':', '::2' or '-1:', got {text!r}"
        ) from None
