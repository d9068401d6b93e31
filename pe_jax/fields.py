"""What the values of a field may be, by its annotation: its type, and a range where it has one of
the names below. Configs and encodings check their fields as they are made.
"""

from __future__ import annotations

import functools
import math
import numbers
import sys
import types
import typing
from typing import Annotated, Any

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
AtLeastTwo = Annotated[int, msgspec.Meta(ge=2)]
Even = Annotated[int, msgspec.Meta(ge=2, multiple_of=2)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
AboveOne = Annotated[float, msgspec.Meta(gt=1)]
AtLeastOne = Annotated[float, msgspec.Meta(ge=1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
BelowOne = Annotated[float, msgspec.Meta(ge=0, lt=1)]

LARGEST = 2**31  # the bound of integers: programs have signed 32-bit numbers
NAMES = {int: "an integer", float: "a finite number", str: "text", bool: "True or False"}
BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}  # of a msgspec.Meta
BOUNDS["multiple_of"] = "a multiple of"


def check(owner: Any, prefix: str) -> None:
    """ValueError for a field of a dataclass instance whose value its annotation does not allow;
    `prefix` stands before the field's name.
    """
    for name, hint in hints(type(owner)).items():
        check_value(getattr(owner, name), hint, f"{prefix}{name}")


def check_value(value: Any, hint: Any, name: str) -> None:
    """ValueError, which names it, if a value is not what its annotation asks for."""
    if not fits(value, hint):
        entries = value if isinstance(value, tuple) else (value,)
        large = any(isinstance(entry, int) and abs(entry) >= LARGEST for entry in entries)
        limit = " and smaller than 2**31" * large
        raise ValueError(f"{name} must be {described(hint)}{limit}, got {value!r}")


def as_annotated(value: Any, hint: Any) -> Any:
    """The value, or an integer for a float as that float: equal runs have one label and one id."""
    kind, parts = _parts(hint)
    if kind is tuple and parts[1:] == (...,) and isinstance(value, tuple):
        return tuple(as_annotated(entry, parts[0]) for entry in value)
    whole = type(value) is int and fits(value, hint) and not fits("", hint)  # text fits Any
    return float(value) if whole and fits(float(value), hint) else value


@functools.cache
def hints(cls: type) -> dict[str, Any]:
    """The annotation of each field of a dataclass that is given to it."""
    known = typing.get_type_hints(cls, include_extras=True)
    given = [name for name, field in cls.__dataclass_fields__.items() if field.init]
    return {name: known[name] for name in given if name in known}


def fits(value: Any, hint: Any) -> bool:
    """Whether a field with the annotation `hint` may have this value.

    Integers are accepted for floats; booleans only for booleans. An annotation of a kind that no
    field of a config or an encoding has allows everything.
    """
    kind, parts = _parts(hint)
    if kind is Annotated:
        try:
            return fits(value, parts[0]) and msgspec.convert(parts[0](value), hint) is not None
        except msgspec.ValidationError:
            return False
    if kind in (types.UnionType, typing.Union):
        return any(fits(value, part) for part in parts)
    if kind is typing.Literal:
        return any(value == known and type(value) is type(known) for known in parts)
    if kind is tuple and parts[1:] == (...,):
        return isinstance(value, tuple) and all(fits(entry, parts[0]) for entry in value)
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool) or kind is bool:
        return type(value) is kind
    if kind is int:
        return isinstance(value, numbers.Integral) and abs(int(value)) < LARGEST
    if kind is float:
        size: Any = abs(value) if isinstance(value, numbers.Real) else math.inf
        return bool(size <= sys.float_info.max)
    return isinstance(value, kind)


@functools.cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    # An annotation without its brackets, and what stands in them
    return typing.get_origin(hint) or hint, typing.get_args(hint)


def described(hint: Any) -> str:
    """An annotation in an error message: "an integer of at least 1"."""
    kind, parts = _parts(hint)
    if kind is Annotated:
        given = {words: getattr(parts[1], name) for name, words in BOUNDS.items()}
        bounds = [f"{words} {bound}" for words, bound in given.items() if bound is not None]
        return f"{described(parts[0])} {' and '.join(bounds)}"
    if kind in (types.UnionType, typing.Union):
        return " or ".join(map(described, parts))
    if kind is typing.Literal:
        return f"one of {', '.join(map(repr, parts))}"
    if kind is tuple and parts[1:] == (...,):
        return f"a tuple, each entry {described(parts[0])}"
    if kind is type(None):
        return "None"
    return NAMES.get(kind) or f"of type {getattr(kind, '__name__', kind)}"
