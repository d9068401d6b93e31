"""The fields of an encoding in a spec: read as Python literals, checked against annotations."""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Sequence
from typing import Any


def literals(fields: Sequence[ast.keyword] | None, member: str) -> dict[str, Any]:
    """{name: value} of the parsed name=value pairs of a member of a spec.

    ValueError, which names `member`, if a value is no Python literal or `fields` is None, which
    `terms.Term` has where something else than such pairs stood in the parentheses.
    """
    try:
        if fields is not None:
            return {str(field.arg): ast.literal_eval(field.value) for field in fields}
    except ValueError:
        pass
    raise ValueError(
        f"cannot read the fields of {member!r}: they are name=value, the values Python literals"
    )


def fits(value: Any, hint: Any) -> bool:
    """Whether a field with the annotation `hint` may have this value.

    Integers are accepted for floats; booleans only for booleans.
    """
    if isinstance(hint, types.UnionType):
        return any(fits(value, kind) for kind in hint.__args__)
    kind = typing.get_origin(hint) or hint
    if kind is typing.Literal:
        return value in typing.get_args(hint)
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool) or kind is bool:
        return type(value) is kind
    return isinstance(value, (int, float) if kind is float else kind)


def described(hint: Any) -> str:
    """What the annotation `hint` asks for, for an error message."""
    if typing.get_origin(hint) is typing.Literal:
        return f"one of {', '.join(map(repr, typing.get_args(hint)))}"
    return f"of type {hint.__name__ if isinstance(hint, type) else hint}"
