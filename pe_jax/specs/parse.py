"""Reads a spec such as "randomized+rope(base=500000.0)[::2]" and makes encodings of it.

A spec is a sum of members, applied in order. A member is a name of the table
(pe_jax/encodings/__init__.py) or a class of your own, `dir/file.py:Class`; then optionally, in
parentheses, the fields that differ from their defaults; then optionally, in brackets, the layers it
acts in, as Python slices or numbers: [::2], [-1:], [0,3,5:]. After an encoding that overrides
`embed`, as in learned[-1:], brackets also mean where="layers": it acts on the input of each of
these layers, and not once on the model's input.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pe_jax import contract, terms
from pe_jax.encoding import Dims, Encoding, mixes, overrides, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.errors import nearest
from pe_jax.fields import as_annotated, check_value, hints

BESIDE_MIXERS = {"at", "limit", "positions", "embed", "mix"}
"""The hooks of members that may act in a layer without attention."""


@dataclasses.dataclass(frozen=True)
class Member:
    """One term of a spec."""

    id: str
    """The name of its section in a config: that of the table or of the class, from its second use
    in a spec on with a number: rope, rope_2.
    """
    name: str
    """As the spec has it: a name of the table, or file:class."""
    cls: type[Encoding]
    fields: dict[str, Any] = dataclasses.field(hash=False)
    """The fields that were set; the others are at their defaults."""

    def with_fields(self, fields: Mapping[str, Any]) -> Member:
        """The member with these fields set too, in the order of its class. ValueError for a field
        that is unknown, with the nearest name, or whose value does not fit its annotation.
        """
        known, annotations, every = defaults(self.cls), hints(self.cls), dict(self.fields)
        for field, value in fields.items():
            if field not in known:
                more = f"{nearest(field, known)} It has {', '.join(known)}."
                raise ValueError(f"{self.name} has no field {field!r}{more}")
            check_value(value, hint := annotations[field], f"{self.name}'s {field}")
            every[field] = as_annotated(value, hint)
        return dataclasses.replace(self, fields={f: every[f] for f in known if f in every})

    def encoding(self, dims: Dims) -> Encoding:
        """The encoding for a model of `dims`. ValueError if the model has none of its layers."""
        made = self.cls(dims, **self.fields)
        layers_of(made)
        return made

    def __str__(self) -> str:
        changed = {f: v for f, v in self.fields.items() if v != defaults(self.cls)[f]}
        layers, where = changed.pop("layers", ":"), changed.pop("where", "input")
        if where == "layers" and layers == ":":
            layers = "0:"
        inside = ",".join(f"{field}={value!r}" for field, value in changed.items())
        return self.name + f"({inside})" * bool(inside) + f"[{layers}]" * (layers != ":")


@dataclasses.dataclass(frozen=True)
class Spec:
    """The members of a spec, in order. Its string is what tables show, and parses to it again."""

    members: tuple[Member, ...]

    @classmethod
    def of(cls, members: Iterable[tuple[str, type[Encoding], Mapping[str, Any]]]) -> Spec:
        """The spec of members of these names, classes and fields. ValueError as `with_fields`."""
        made, uses = [], collections.Counter()
        for name, kind, fields in members:
            stem = kind.__name__ if ":" in name else name
            uses[stem] += 1
            id = stem if uses[stem] == 1 else f"{stem}_{uses[stem]}"
            made.append(Member(id, name, kind, {}).with_fields(fields))
        return cls(tuple(made))

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __str__(self) -> str:
        return "+".join(map(str, self.members))

    def with_fields(self, sections: Mapping[str, Mapping[str, Any]]) -> Spec:
        """The spec with the fields that a config sets, by the members' ids. ValueError for an id
        that no member has, and for what `Member.with_fields` refuses.
        """
        ids = [member.id for member in self]
        if unknown := sorted(set(sections) - set(ids)):
            raise ValueError(
                f"{str(self)!r} has the members {', '.join(ids)}; there is no {', '.join(unknown)}"
            )
        return Spec(tuple(member.with_fields(sections.get(member.id, {})) for member in self))

    def section(self) -> dict[str, Any]:
        """The section `pe` of a config: the spec, and every field of each member by its id."""
        fields = {member.id: defaults(member.cls) | member.fields for member in self}
        return {"spec": str(self), **fields}

    def encodings(self, dims: Dims) -> tuple[Encoding, ...]:
        """The encodings for a model of `dims`."""
        encodings = tuple(member.encoding(dims) for member in self)
        check_members(encodings, [member.id for member in self])
        return encodings


def check_members(encodings: Sequence[Encoding], names: Sequence[str]) -> None:
    """ValueError unless each can serve the positions of the others and act in its layers."""
    every = list(zip(encodings, names, strict=True))
    movers = [(e.highest_position() or 0, name) for e, name in every if overrides(e, "positions")]
    for encoding, name in every:
        if not movers or overrides(encoding, "positions"):
            continue
        (highest, whose), limit = movers[0], encoding.at(encoding.dims.train_len).limit()
        if limit is not None and limit <= highest:
            raise ValueError(
                f"{name} serves the positions 0 .. {limit - 1}, and {whose} hands on positions to "
                f"{highest} or more: give {name} room for them, or lower the positions of {whose}"
            )
        if encoding.from_zero:
            raise ValueError(
                f"{name} takes positions for places in the text, and {whose} moves them: drop one"
            )
    for layer in range(encodings[0].dims.layers):
        check_layer([e for e in encodings if active(e, layer)])


def check_layer(encodings: Sequence[Encoding]) -> None:
    """ValueError unless the encodings can act in one layer."""
    alone = {
        ("normalize", "sink"): "replace the softmax",
        ("far",): "move far pairs",
        ("positions",): "move positions",
    }
    for hooks, effect in alone.items():
        members = [e for e in encodings if any(overrides(e, hook) for hook in hooks)]
        if len(members) > 1:
            names = " and ".join(type(e).__name__ for e in members)
            raise ValueError(f"only one encoding may {effect}, got {names}")
    mixers = [type(e).__name__ for e in encodings if mixes(e)]
    others = [type(e).__name__ for e in encodings if mixes(e) or {*sites(e)} - BESIDE_MIXERS]
    if mixers and len(others) > 1:
        raise ValueError(
            f"{' and '.join(others)} act in one layer, where {mixers[0]} takes the place of "
            "attention: give each its own layers, as in gated_delta[::2]+rope[1::2]"
        )


def defaults(cls: type[Encoding]) -> dict[str, Any]:
    """The fields that a user may set, with their defaults. `where` is one of them only if the class
    overrides `embed`.
    """
    fixed = {"dims"} if cls.embed is not Encoding.embed else {"dims", "where"}
    given = (f for f in dataclasses.fields(cls) if f.init and f.name not in fixed)
    return {f.name: as_annotated(f.default, hints(cls)[f.name]) for f in given}


def parse(text: str) -> Spec:
    """The spec of a text. ValueError if it cannot be read, and for unknown names."""
    parts, members = terms.members(text), []
    for part in parts:
        name, fields, layers = terms.Term.of(part)
        cls = _find(name)
        if layers is not None:
            if given := fields.keys() & {"layers", "where"}:
                raise ValueError(f"{part!r} has {' and '.join(given)} and brackets: drop one")
            fields |= {"layers": layers}
            fields |= {"where": "layers"} if "where" in defaults(cls) else {}
        members.append((name, cls, fields))
    return Spec.of(members)


def make(
    spec: str, dims: Dims, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Encoding, ...]:
    """The encodings of a spec, one for each member, for a model of `dims`; `overrides` maps a
    member's id to fields. ValueError for an unreadable spec, an unknown name or field, with the
    nearest ones, and a value that an encoding does not allow.

    >>> make("learned+t5", dims, {"t5": {"buckets": 16}})
    """
    return parse(spec).with_fields(overrides or {}).encodings(dims)


def sources(*specs: str) -> dict[str, str]:
    """SHA-256 of the users' files that the specs name, as of `contract.sources`."""
    return contract.sources(*(member.name for spec in specs for member in parse(spec)))


def _find(name: str) -> type[Encoding]:
    if ":" in name:
        return contract.own(name, Encoding)
    if name in ENCODINGS:
        return ENCODINGS[name]
    more = "`pe-jax list encodings` prints all; your own are dir/file.py:Class."
    raise ValueError(f"unknown encoding {name!r}{nearest(name, ENCODINGS, 3)} {more}")


def layers_of(encoding: Encoding) -> list[int]:
    """The layers it acts in, counted from 0, ascending. ValueError if its field `layers` holds no
    slices or numbers, or one of these has none of the model's layers.
    """
    every = range(encoding.dims.layers)
    parts = [every[part] for part in _slices(encoding.layers)]
    layers = [layer for layer in every if any(layer in part for part in parts)]
    if not all(parts):
        name, count = type(encoding).__name__, encoding.dims.layers
        rule = f"each part of {name}'s layers must name some of 0 .. {count - 1}"
        raise ValueError(f"{rule}, got {encoding.layers!r}")
    return layers


def active(encoding: Encoding, layer: int) -> bool:
    """Whether the encoding acts in `layer`, counted from 0."""
    return layer in layers_of(encoding)


def _slices(text: str) -> list[slice]:
    try:
        parts = [part.split(":") for part in text.split(",")]
        ends: Any = [[int(end) if end.strip() else None for end in part] for part in parts]
        if set(text) - set("0123456789:,- ") or any(end[2:] == [0] for end in ends):
            raise ValueError
        return [slice(*e) if e[1:] else slice(e[0], e[0] + 1 or None) for e in ends]
    except (ValueError, TypeError):
        wanted = "slices or numbers with commas between, as '::2' or '0,3'"
        raise ValueError(f"layers must be {wanted}, got {text!r}") from None
