"""Cuts the text of a spec into members, and a member into name, fields and layers.

A member's name may be a path, which is no Python, but what follows it is: with `_` for the name,
rope(base=5e+5)[::2] is the expression `_(base=5e+5)[::2]`, which Python's own parser reads.
"""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple


class Term(NamedTuple):
    """The parts of a member's text."""

    name: str
    fields: dict[str, Any]
    """The name=value pairs in parentheses."""
    layers: str | None
    """The text in brackets, without spaces. None: there are no brackets."""

    @classmethod
    def of(cls, text: str) -> Term:
        """The parts of a member. ValueError if it is not name(fields)[layers], a value is no
        Python literal, or a field stands there twice.
        """
        end = re.search(r"[(\[]|$", text).start()  # pyright: ignore[reportOptionalMemberAccess]
        name, source, layers = text[:end].strip(), "_" + text[end:], None
        try:
            node = ast.parse(source, mode="eval").body
            if isinstance(node, ast.Subscript):
                layers = "".join((ast.get_source_segment(source, node.slice) or "").split())
                node = node.value
            call = ast.Call(node, [], []) if isinstance(node, ast.Name) else node
            if not (name and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                raise ValueError
            names = [word.arg or "" for word in call.keywords]
            values = [ast.literal_eval(word.value) for word in call.keywords]
            if call.args or not all(names):
                raise ValueError
        except (SyntaxError, ValueError, TypeError):
            form = "name(field=value)[layers], the values Python literals"
            raise ValueError(f"cannot read {text!r}: a member is {form}") from None
        if twice := [field for field in names if names.count(field) > 1]:
            raise ValueError(f"{text!r} has {twice[0]} twice: give the value that is meant")
        return cls(name, dict(zip(names, values, strict=True)), layers)


def members(spec: str) -> list[str]:
    """The texts of a spec's members, which are separated by "+"."""
    return _cut(spec, "+")


def elements(specs: str) -> list[str]:
    """The texts of the specs in a list, which are separated by commas."""
    return [text for text in _cut(specs, ",") if text]


def _cut(text: str, separator: str) -> list[str]:
    # The parts between separators that stand in no brackets
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == separator and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
