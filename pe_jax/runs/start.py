"""Where training starts that does not start at random: at the parameters of the parent that
train.init_from names, a finished run or a pretrained model (parents.py). The optimizer, the
learning rate and the order of the batches begin anew.

Parameters are matched by name and shape. A parameter of an encoding is named by its section of the
config, as in `pe.t5.table` or `pe.transformer_xl.layers.1.r`, and not by its place in the spec. A
member that the other spec does not have takes over the parameters of one of its family
(compose/swap.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from pe_jax import record
from pe_jax.compose.parse import Member, defaults, parse
from pe_jax.compose.swap import kin
from pe_jax.data.tokenizer import Tokenizer
from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.runs.parents import ParentModel, Shapes, listed, parent_of
from pe_jax.storage.checkpoints import flat
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import State, structure


@dataclasses.dataclass(frozen=True)
class Start:
    """A parent, and which of its parameters a model takes over."""

    parent: ParentModel
    taken: dict[str, str]
    """{path of a parameter here: its path in the parent}."""
    new: tuple[str, ...]
    """Names of the parameters here that are drawn at random, as in any run."""
    dropped: tuple[str, ...]
    """Names of the parent's parameters that have no place here."""

    @classmethod
    def of(
        cls,
        train: TrainConfig,
        lm: LmConfig,
        spec: str,
        encodings: Sequence[Encoding],
        seeds: Sequence[int],
    ) -> Start | None:
        """What `train` asks for; None where train.init_from is "". ValueError if the parent cannot
        serve, would lose parameters that train.init_drop does not give up, or lacks parameters of a
        run of no steps.
        """
        if not train.init_from:
            return None
        parent = parent_of(train.init_from, lm, seeds)
        ours = {path: leaf.shape for path, leaf in flat(structure(lm, encodings)[1]).items()}
        match = Match.of(ours, spec, parent.shapes, parent.spec)
        if match.new and not train.steps:
            raise ValueError(
                f"{parent.place} lacks {listed(match.new)}, and train.steps=0 trains nothing: name "
                "the encodings that it has, or give train.steps"
            )
        dropped = match.dropped(parent.place, spec, parent.lm, lm, train.init_drop)
        return cls(parent, match.taken, match.new, dropped)

    def check(self, tokens: Tokenizer) -> None:
        """ValueError if the embeddings that are taken over are those of other tokens."""
        if "embedding" in self.taken:
            self.parent.check_tokens(tokens.describe())

    def __call__(self, state: State, seeds: Sequence[int]) -> State:
        """`state`, that before the first step, with the parent's parameters of these seeds in it.
        Refused if they are damaged or gone.
        """
        theirs = self.parent.read(seeds)
        return state | {"params": self._filled(state["params"], theirs)}

    def models(
        self, lm: LmConfig, encodings: Sequence[Encoding], seeds: Sequence[int], dtype: str
    ) -> dict[int, Any]:
        """The parameters of a run of no steps, by seed, stored in `dtype`. Refused as above."""
        like = structure(lm, encodings)[1]
        return {seed: self._filled(like, self.parent.read_one(seed, dtype)) for seed in seeds}

    def _filled(self, tree: Any, theirs: Mapping[str, jax.Array]) -> Any:
        """The tree of parameters with what is taken in its places."""

        def place(path, leaf):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            return theirs[self.taken[name]] if name in self.taken else leaf

        return jax.tree.map_with_path(place, tree)

    @property
    def label(self) -> str:
        """The parent's label, for names of runs that start from it."""
        return self.parent.label

    @property
    def identity(self) -> dict[str, Any]:
        """What of the parent decides the numbers of a run that starts from it, wherever it lies."""
        return self.parent.identity

    def about(self) -> record.Parent:
        """The parent, as the record of a run holds it."""
        return dataclasses.replace(self.parent.about(), new=self.new, dropped=self.dropped)

    def summary(self) -> str:
        """What is taken over, as a line for people."""
        return (
            f"starting from {self.parent.in_words}: {len(self.taken)} arrays of its parameters; "
            f"new: {listed(self.new)}; dropped: {listed(self.dropped)}"
        )


@dataclasses.dataclass(frozen=True)
class Match:
    """How the parameters of a model ("here") are taken from another model's ("there")."""

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
        """Matches the parameters of a model with the encodings of `spec` to those of another."""
        members, their_members = parse(spec).members, parse(their_spec).members
        heirs = _heirs(members, their_members)
        here = _named(ours, [member.id for member in members])
        there = _named(theirs, [heirs.get(member.id, member.id) for member in their_members])
        both = here.keys() & there.keys()
        shapes = {name: (theirs[there[name]], ours[here[name]]) for name in sorted(both)}
        unfit = {name: pair for name, pair in shapes.items() if pair[0] != pair[1]}
        taken = {here[name]: there[name] for name in both.difference(unfit)}
        new = sorted(name for name in here if here[name] not in taken)
        return cls(taken, tuple(new), unfit, tuple(sorted(there.keys() - both)))

    def dropped(
        self, place: str, spec: str, before: Mapping[str, Any], lm: LmConfig, drop: bool
    ) -> tuple[str, ...]:
        """Names of the parameters there that have no place here. ValueError if there are any and
        `drop` does not give them up; `before` is the section `lm` of the model at `place`.
        """
        if self.unfit and not drop:
            raise ValueError(self._why_unfit(place, spec, before, lm))
        if self.lost and not drop:
            raise ValueError(
                f"{place} has {listed(self.lost)}, which would be lost: no parameter here has "
                "that name; name its encoding in the spec too, or allow it by "
                "--config.train.init_drop=True"
            )
        return (*self.unfit, *self.lost)

    def _why_unfit(self, place: str, spec: str, before: Mapping[str, Any], lm: LmConfig) -> str:
        """Why parameters of one name and two shapes cannot be taken over, and what can be done.
        `before` is the section `lm` of the model at `place`.
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
            f"{name} is {list(theirs)} in {place} and {list(ours)} here{more}: {remedy}, "
            "or let it begin anew by --config.train.init_drop=True"
        )


def _heirs(members: Sequence[Member], theirs: Sequence[Member]) -> dict[str, str]:
    """{id of a member of the other spec: id of the one that takes over its parameters}: the member
    of the same id, else the first of its family that has not taken over another's.
    """
    ids = {member.id for member in members}
    heirs = {other.id: other.id for other in theirs if other.id in ids}
    for other in theirs:
        for member in members:
            taken = other.id in heirs or member.id in heirs.values()
            if not taken and kin(member.cls, other.cls):
                heirs[other.id] = member.id
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
