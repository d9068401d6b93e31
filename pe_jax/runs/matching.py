"""Which parameters of one model another one takes over: those of the same name and shape.

What belongs to an encoding goes by its section of the config, as in `pe.t5.table` or
`pe.transformer_xl.layers.1.r`, and not by its place in the spec. A member that the other spec does
not have takes over from one of its family.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pe_jax.model.config import LmConfig
from pe_jax.spec.parse import Member, defaults, parse
from pe_jax.spec.swap import kin

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of one seed's parameters, by their path in the model."""


@dataclasses.dataclass(frozen=True)
class Match:
    """The parameters of a model here and of one there."""

    taken: dict[str, str]
    """{path of a parameter here: its path there}."""
    new: tuple[str, ...]
    """Names of the parameters here that are not taken over."""
    unfit: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
    """{name: (shape there, shape here)} of those that have one name and two shapes."""
    lost: tuple[str, ...]
    """Names of the parameters there that no parameter here has."""

    @classmethod
    def of(cls, ours: Shapes, spec: str, theirs: Shapes, their_spec: str) -> Match:
        """Of the parameters of a model with the encodings of `spec`, and of the other model."""
        members, before = parse(spec).members, parse(their_spec).members
        heirs = _heirs(members, before)
        here = _named(ours, [member.id for member in members])
        there = _named(theirs, [heirs.get(member.id, member.id) for member in before])
        both = here.keys() & there.keys()
        shapes = {name: (theirs[there[name]], ours[here[name]]) for name in sorted(both)}
        unfit = {name: pair for name, pair in shapes.items() if pair[0] != pair[1]}
        taken = {here[name]: there[name] for name in both.difference(unfit)}
        new = sorted(name for name in here if here[name] not in taken)
        return cls(taken, tuple(new), unfit, tuple(sorted(there.keys() - both)))

    def why_unfit(self, folder: str, spec: str, before: Mapping[str, Any], lm: LmConfig) -> str:
        """Why parameters of one name and two shapes cannot be taken over, and what can be done.
        `before` is the section `lm` of the model in `folder`.
        """
        name, (theirs, ours) = next(iter(self.unfit.items()))
        more = f" (and {len(self.unfit) - 1} more)" if len(self.unfit) > 1 else ""
        changed = [
            f"lm.{field} is {before[field]} there and {value} here"
            for field, value in dataclasses.asdict(lm).items()
            if before.get(field, value) != value
        ]
        remedy = f"{listed(changed)}: make them equal" if changed else "take another encoding"
        if name.startswith("pe."):
            id = name.split(".")[1]
            fields = defaults(next(member.cls for member in parse(spec) if member.id == id))
            own = listed(field for field in fields if field not in ("layers", "where", "per_layer"))
            remedy = f"set a field of pe.{id} ({own}) so that it fits, or take another encoding"
        return (
            f"{name} is {list(theirs)} in {folder} and {list(ours)} here{more}: {remedy}, "
            "or let it begin anew by --config.train.init_drop=True"
        )


def listed(items: Iterable[Any]) -> str:
    """ "a, b, c"; the first eight of many."""
    items = list(map(str, items))
    more = f" and {len(items) - 8} more" if len(items) > 8 else ""
    return (", ".join(items[:8]) or "none") + more


def _heirs(members: Sequence[Member], before: Sequence[Member]) -> dict[str, str]:
    """{id of a member before: id of the one that takes over its parameters}."""
    heirs = {b.id: m.id for b in before for m in members if m.id == b.id}
    for b in before:
        for m in members:
            if kin(m.cls, b.cls) and b.id not in heirs and m.id not in heirs.values():
                heirs[b.id] = m.id
    return heirs


def _named(paths: Iterable[str], ids: Sequence[str]) -> dict[str, str]:
    """{name: path}. The model has lists of its encodings' parameters, `shared.0.table`; their names
    have the ids of the members instead, `pe.t5.table`.
    """

    def name(path: str) -> str:
        match path.split("."):
            case ["shared", i, *rest]:
                return ".".join(["pe", ids[int(i)], *rest])
            case ["owned", layer, i, *rest]:
                return ".".join(["pe", ids[int(i)], "layers", layer, *rest])
        return path

    return {name(path): path for path in paths}
