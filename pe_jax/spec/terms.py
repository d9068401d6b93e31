"""The text of a spec, cut into its members and their parts by Python's own parser.

A member's name may be a path, which is no Python; what stands behind it, fields in parentheses and
layers in brackets, is. With `_` in the place of the name it is an expression: `_(base=5e+5)[::2]`.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator


@dataclasses.dataclass(frozen=True)
class Term:
    """The parts of a member's text."""

    name: str
    fields: tuple[ast.keyword, ...] | None
    """What stands in parentheses, as name=value; None: something else stands there."""
    layers: str | None
    """What stands in brackets; None: there are none."""

    @classmethod
    def of(cls, text: str, spec: str) -> Term:
        """The parts of the text of one of a spec's members. ValueError if it has others."""
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


def members(spec: str) -> list[str]:
    """The texts of a spec's members: the terms of the sum."""
    return list(_cut(spec, "+", _is_python))


def elements(specs: str) -> list[str]:
    """The texts of the specs in a list that is separated by commas."""

    def is_spec(text: str) -> bool:
        return all(map(_is_python, members(text)))

    return [text for text in _cut(specs, ",", is_spec) if text]


def _cut(text: str, separator: str, is_whole: Callable[[str], bool]) -> Iterator[str]:
    """The parts between those separators that do not stand inside a part: of "rope(base=5e+5)+t5"
    "rope(base=5e+5)" and "t5", since "rope(base=5e" is not whole.
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
    """Whether Python can parse what stands behind the name."""
    try:
        ast.parse(_python(member)[1])
    except (SyntaxError, ValueError):
        return False
    return True


def _python(member: str) -> tuple[str, str]:
    """A member's name, and the expression of what stands behind it."""
    places = [place for place in map(member.find, "([") if place >= 0]
    end = min(places, default=len(member))
    return member[:end].strip(), "_" + member[end:]
