"""How a spec such as "randomized+rope(base=500000.0)[::2]" becomes a tuple of encodings.

A spec is a sum of members, applied in order. A member is a name of the table (pe_jax/encodings) or
a class of your own, `dir/file.py:Class`, then optionally fields that differ from their defaults in
parentheses, then optionally the layers it acts in as a slice in brackets.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from pe_jax.advice import kin
from pe_jax.encoding import Dims, Encoding
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.nope import NoPE
from pe_jax.fields import described, fits, literals
from pe_jax.own_class import own_class


@dataclasses.dataclass(frozen=True)
class Member:
    """One term of a spec."""

    id: str
    """Its section in a config: the table's name or the class name, numbered from the second use
    on.
    """
    name: str
    cls: type[Encoding]
    fields: dict[str, Any]

    def with_fields(self, fields: Mapping[str, Any]) -> Member:
        """These fields on top of its own. ValueError for one that is unknown, with the nearest
        name, or of another type than its annotation says.
        """
        known, hints = defaults(self.cls), typing.get_type_hints(self.cls)
        for field, value in fields.items():
            if field not in known:
                near = difflib.get_close_matches(field, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                raise ValueError(
                    f"{self.name} has no field {field!r}{hint} It has {', '.join(known)}."
                )
            if not fits(value, hints[field]):
                raise ValueError(
                    f"{self.name}'s {field} is {described(hints[field])}, got {value!r}"
                )
        return dataclasses.replace(self, fields={**self.fields, **fields})

    def __str__(self) -> str:
        changed = {f: v for f, v in self.fields.items() if v != defaults(self.cls)[f]}
        layers = changed.pop("layers", ":")
        inside = ",".join(f"{field}={value!r}" for field, value in changed.items())
        return (
            self.name + (f"({inside})" if inside else "") + (f"[{layers}]" if layers != ":" else "")
        )


def defaults(cls: type[Encoding]) -> dict[str, Any]:
    """The fields that a user may set, with their defaults."""
    return {f.name: f.default for f in dataclasses.fields(cls) if f.name != "dims"}


def parse(spec: str) -> tuple[Member, ...]:
    """The members of a spec, in order. ValueError, with the nearest names, for what it cannot
    read.
    """
    members, seen = [], {}
    for text in re.split(r"\+(?![^(\[]*[)\]])", spec.replace(" ", "")):
        match = re.fullmatch(r"([^(\[]+)(\(.*\))?(\[[^\]]*\])?", text)
        if not match:
            raise ValueError(
                f"cannot read {text!r} in the encoding {spec!r}: "
                "a member is name(field=value)[layers]"
            )
        name, inside, layers = match.groups()
        cls = _find(name)
        stem = cls.__name__ if ":" in name else name
        seen[stem] = seen.get(stem, 0) + 1
        fields = literals(inside or "()", text) | ({"layers": layers[1:-1]} if layers else {})
        member = Member(stem if seen[stem] == 1 else f"{stem}_{seen[stem]}", name, cls, {})
        members.append(member.with_fields(fields))
    return tuple(members)


def make(
    spec: str, dims: Dims, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Encoding, ...]:
    """The encodings of a spec for a model of `dims`; `overrides` maps a member's id to fields.

    >>> make("learned+t5", dims, {"t5": {"buckets": 16}})
    """
    members = parse(spec)
    ids = [member.id for member in members]
    if unknown := sorted(set(overrides or {}) - set(ids)):
        raise ValueError(
            f"{spec!r} has the members {', '.join(ids)}; there is no {', '.join(unknown)}"
        )
    members = [member.with_fields((overrides or {}).get(member.id, {})) for member in members]
    return tuple(member.cls(dims, **member.fields) for member in members)


def label(spec: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The spec with the fields that differ from their defaults: what tables show."""
    return "+".join(str(m.with_fields((overrides or {}).get(m.id, {}))) for m in parse(spec))


def swap(encodings: tuple[Encoding, ...], spec: str) -> tuple[Encoding, ...]:
    """The encodings with those of `spec` swapped in, over the same parameters.

    Each replaces the one member whose class it subclasses, and keeps those of its fields that the
    spec does not set, or is appended if it subclasses none. Two candidates are an error, and so is
    one that needs parameters which are not there, or that would be appended and do again what a
    member does (pi beside xpos).
    """
    out = list(encodings)
    for member in parse(spec):
        new = member.cls(encodings[0].dims, **member.fields)
        places = [i for i, e in enumerate(out) if type(e) is not NoPE and isinstance(new, type(e))]
        if len(places) > 1:
            raise ValueError(
                f"{spec!r} could replace {len(places)} members of this model: no swap is clear"
            )
        old = out[places[0]] if places else None
        if old:
            shared = [name for name in defaults(type(old)) if name not in member.fields]
            new = dataclasses.replace(new, **{name: getattr(old, name) for name in shared})
        drawn, there = _drawn(new), _drawn(old) if old else {}
        if drawn.items() - there.items():
            raise ValueError(
                f"{spec!r} needs parameters ({', '.join(drawn)}) that this model does not "
                "have: no swap"
            )
        if old:
            out[places[0]] = new
        elif doubled := [type(e).__name__ for e in out if kin(new, e)]:
            raise ValueError(
                f"{spec!r} would do a second time what this model's {doubled[0]} does: no swap"
            )
        else:
            out.append(new)
    return tuple(out)


def _drawn(encoding: Encoding) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of its parameters."""
    return jax.eval_shape(lambda: encoding.init(jax.random.key(0)))


def sources(spec: str) -> dict[str, str]:
    """SHA-256 of each file outside the package that a spec names: part of a run's identity."""
    paths = [m.name.rpartition(":")[0] for m in parse(spec) if ":" in m.name]
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def _find(name: str) -> type[Encoding]:
    if ":" in name:
        return own_class(*name.rsplit(":", 1))
    if name in ENCODINGS:
        return ENCODINGS[name]
    near = difflib.get_close_matches(name, ENCODINGS, 1)
    raise ValueError(
        f"unknown encoding {name!r}{f'; did you mean {near[0]!r}?' if near else '.'} "
        f"Known: {', '.join(sorted(ENCODINGS))}, or your own as dir/file.py:Class."
    )
