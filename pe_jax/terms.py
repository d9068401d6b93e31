"""Cuts the text of a spec into members, and a member into name, fields and layers.

A member's name may be a path, which is no Python, but what follows it is: with `_` for the name,
rope(base=5e+5)[::2] is the expression `_(base=5e+5)[::2]`. So Python's own parser does the work,
and tells which "+" and "," separate members and specs, and which stand inside a member.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Term:
    """The parts of a member's text."""

    name: str
    fields: tuple[ast.keyword, ...] | None
    """The name=value pairs in parentheses. None: something else stands there."""
    layers: str | None
    """The text in brackets, without spaces. None: there are no brackets."""

    @classmethod
    def of(cls, text: str, spec: str) -> Term:
        """The parts of `text`, a member of `spec`. ValueError if it is not name(fields)[layers]."""
        name, source = _python(text)
        try:
            node, layers = ast.parse(source, mode="eval").body, None
        except (SyntaxError, ValueError):
            node, layers = None, None
        if isinstance(node, ast.Subscript):
            layers = ast.get_source_segment(source, node.slice)
            node = node.value
        call = ast.Call(node, [], []) if isinstance(node, ast.Name) else node
        if not (name and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError(
                f"cannot read {text!r} in the encoding {spec!r}: "
                "a member is name(field=value)[layers]"
            )
        named = not call.args and all(keyword.arg for keyword in call.keywords)
        fields = tuple(call.keywords) if named else None
        return cls(name, fields, layers and "".join(layers.split()))


def literals(fields: Sequence[ast.keyword] | None, member: str) -> dict[str, Any]:
    """{name: value} of the parsed name=value pairs of a member of a spec.

    ValueError, which names `member`, if a name stands there twice, a value is no Python literal, or
    `fields` is None, which `Term` has where something else than such pairs stood in the
    parentheses.
    """
    names = [str(field.arg) for field in fields or ()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{member!r} has {twice[0]} twice: give the value that is meant")
    try:
        if fields is not None:
            return {str(field.arg): ast.literal_eval(field.value) for field in fields}
    except ValueError:
        pass
    raise ValueError(
        f"cannot read the fields of {member!r}: they are name=value, the values Python literals"
    )


def members(spec: str) -> list[str]:
    """The texts of a spec's members, which are separated by "+"."""
    return list(_cut(spec, "+", _is_python))


def elements(specs: str) -> list[str]:
    """The texts of the specs in a list, which are separated by commas."""

    def is_spec(text: str) -> bool:
        return all(map(_is_python, members(text)))

    return [text for text in _cut(specs, ",", is_spec) if text]


def _cut(text: str, separator: str, is_whole: Callable[[str], bool]) -> Iterator[str]:
    """The parts of a text between the separators, except those inside a part, where what is on the
    left is not yet whole: "rope(base=5e+5)+t5" has the parts "rope(base=5e+5)" and "t5".
    """
    part = None
    for piece in text.split(separator):
        part = piece if part is None else part + separator + piece
        if is_whole(part):
            yield part.strip()
            part = None
    if part is not None:
        yield part.strip()


def _is_python(member: str) -> bool:
    """Whether Python can parse what follows the name."""
    try:
        ast.parse(_python(member)[1])
    except (SyntaxError, ValueError):
        return False
    return True


def _python(member: str) -> tuple[str, str]:
    """(the name of a member, the expression that `_` and what follows the name make)."""
    places = [place for place in map(member.find, "([") if place >= 0]
    end = min(places, default=len(member))
    return member[:end].strip(), "_" + member[end:]
