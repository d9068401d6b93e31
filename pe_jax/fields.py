"""The fields of an encoding in a spec: read as Python literals, held against their annotations."""

from __future__ import annotations

import ast
import types
import typing
from typing import Any


def literals(text: str, member: str) -> dict[str, Any]:
    """The values of "(name=value,...)"; ValueError, which names the member, for anything else."""
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        return {
            keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg
        }
    except (SyntaxError, ValueError, AssertionError):
        raise ValueError(
            f"cannot read the fields of {member!r}: they are name=value, the values Python literals"
        ) from None


def fits(value: Any, hint: Any) -> bool:
    """Whether a field annotated so may have this value; an integer is a float, True no integer."""
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
    """What an annotation asks for, in words."""
    if typing.get_origin(hint) is typing.Literal:
        return f"one of {', '.join(map(repr, typing.get_args(hint)))}"
    return f"of type {hint.__name__ if isinstance(hint, type) else hint}"
