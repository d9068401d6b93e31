"""The parent of a run, a finished run or a pretrained model that train.init_from names: the run's
training starts from its parameters, and not at random. The optimizer, the learning rate and the
order of the batches begin anew.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax import record
from pe_jax.data.tokenizer import BYTES, Tokenizer, named
from pe_jax.encoding import Encoding
from pe_jax.encodings.dynamic_ntk import DynamicNTK
from pe_jax.encodings.scaled import Scaled
from pe_jax.errors import Refused, nearest
from pe_jax.model.config import LmConfig, stored
from pe_jax.pretrained.config import Described
from pe_jax.pretrained.load import load
from pe_jax.pretrained.source import KINDS, Source
from pe_jax.record import divergence
from pe_jax.runs.config import DataConfig, RunConfig, members_of
from pe_jax.runs.folder import Folder
from pe_jax.specs.parse import Member, defaults, layers_of, parse
from pe_jax.specs.swap import kin
from pe_jax.storage.checkpoints import Checkpoints, flat
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.paths import expanded
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
        """None where train.init_from is "". ValueError if the parent cannot serve, would lose
        parameters that train.init_drop does not give up, or lacks parameters of a run of no steps.
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
        dropped = match.dropped(parent, spec, lm, train.init_drop)
        return cls(parent, match.taken, match.new, dropped)

    def check(self, tokens: Tokenizer) -> None:
        """ValueError if embeddings are taken over that belong to other tokens."""
        if "embedding" in self.taken:
            self.parent.check_tokens(tokens.describe())

    def __call__(self, state: State, seeds: Sequence[int]) -> State:
        """The state before the first step, with the parent's parameters of these seeds in it.
        Refused if they are damaged or gone.
        """
        rows = self.parent.read(seeds, "float32")
        theirs = jax.tree.map(lambda *arrays: jnp.stack(arrays), *(rows[seed] for seed in seeds))
        return state | {"params": self._filled(state["params"], theirs)}

    def models(
        self, lm: LmConfig, encodings: Sequence[Encoding], seeds: Sequence[int], dtype: str
    ) -> dict[int, Any]:
        """The parameters of a run of no steps, by seed, stored in `dtype`. Refused as above."""
        like = structure(lm, encodings)[1]
        theirs = self.parent.read(seeds, dtype)
        return {seed: self._filled(like, theirs[seed]) for seed in seeds}

    def _filled(self, tree: Any, theirs: Mapping[str, jax.Array]) -> Any:
        """The tree of parameters with the parent's in the places of those that are taken over."""
        leaves = [
            theirs[self.taken[name]] if name in self.taken else leaf
            for name, leaf in flat(tree).items()
        ]
        return jax.tree.unflatten(jax.tree.structure(tree), leaves)

    def about(self) -> record.Parent:
        """The parent, as the record of a run holds it."""
        return self.parent.about(self.new, self.dropped)

    def summary(self) -> str:
        """What is taken over, as a line for people."""
        return (
            f"starting from {self.parent.in_words}: {len(self.taken)} arrays of its parameters; "
            f"new: {listed(self.new)}; dropped: {listed(self.dropped)}"
        )


# Configs that name a pretrained model


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config in sections, completed by the pretrained model of its train.init_from; without one
    it stays as it is. Fields that the config leaves at their defaults get the model's values:

    - section `lm`, the shape; ValueError for a field of it that is set to another value;
    - data.tokenizer;
    - of a member of the spec, the fields that it shares with the model's encoding of its family, as
      in a swap, and the `length` of a scaling, which is the model's training length. What the spec
      itself sets, as in "rope(base=10000.0)", stays;
    - of a run of no steps, the training length; and it gets one seed.
    """
    train = config.get("train", {})
    source = train.get("init_from")
    if not is_pretrained(source):
        return {**config}
    there = Source.of(source)
    data = config.get("data", {})
    if data.get("tokenizer", DataConfig.tokenizer) == DataConfig.tokenizer:
        data = {**data, "tokenizer": source}
    lm = {**config.get("lm", {}), **_lm_fields(config.get("lm", {}), there)}
    whole = {**config, "lm": lm, "data": data, "pe": _pe_section(config["pe"], there)}
    if train.get("steps") == 0:
        run, counted_from = config.get("run", {}), config.get("eval", {}).get("reference")
        length = train.get("length")
        # Beside an eval.reference the default length is meant: `Run.pretrained(trained=64)`.
        if length is None or (length == TrainConfig.length and not counted_from):
            whole["train"] = {**train, "length": there.about.length}
        if tuple(run.get("seeds", RunConfig.seeds)) == RunConfig.seeds:
            whole["run"] = {**run, "seeds": (0,)}
    return whole


def _lm_fields(given: Mapping[str, Any], there: Source) -> dict[str, Any]:
    """The fields of section `lm` that the model decides. ValueError where `given` changes one."""
    free = "dropout", "dtype", "attention", "memory"  # these the model leaves to the config
    own = {name: value for name, value in vars(there.about.lm).items() if name not in free}
    usual = vars(LmConfig())
    for name, value in own.items():
        if given.get(name, value) not in (value, usual[name]):
            raise ValueError(
                f"lm.{name} is {value!r} in {there.text}, got {given[name]!r}: leave it out, since "
                "the shape of a pretrained model is its own"
            )
    return own


def _pe_section(section: Mapping[str, Any], there: Source) -> dict[str, Any]:
    """Section `pe`, completed by the fields of the model's encodings."""
    spec, given = members_of(section)
    filled = {}
    for member in parse(spec):
        fields = given.get(member.id, {})
        usual = defaults(member.cls)
        free = {n for n, value in usual.items() if fields.get(n, value) == value} - {*member.fields}
        own = _member_fields(member, there.about)
        filled[member.id] = {**fields, **{name: own[name] for name in own.keys() & free}}
    return {**section, **{id: fields for id, fields in filled.items() if fields}}


def _member_fields(member: Member, about: Described) -> dict[str, Any]:
    """The fields that the model gives to a member of the spec: those of its own encoding of the
    family, of several the one that acts in all the layers that the spec names, or the first.
    ValueError if there are several and the spec names no layers.
    """
    length = {"length": about.length} if issubclass(member.cls, Scaled | DynamicNTK) else {}
    olds = [old for old in about.spec if kin(member.cls, old.cls)]
    if len(olds) > 1:
        if "layers" not in member.fields:
            raise ValueError(
                f"{member.id!r} could be any of {len(olds)} members of the model's "
                f"{str(about.spec)!r}: name its layers, as in that spec, or all of them by [:]"
            )
        dims = about.lm.dims(about.length)
        here = {*layers_of(member.encoding(dims))}
        olds = [old for old in olds if here <= {*layers_of(old.encoding(dims))}] or olds
    return length | (olds[0].fields if olds else {})


# Parents


def parent_of(init_from: str, lm: LmConfig, seeds: Sequence[int]) -> ParentModel:
    """The parent that train.init_from names, for models of these seeds. ValueError if it cannot
    serve; FileNotFoundError for a pretrained model that is not there.
    """
    if is_pretrained(init_from):
        return PretrainedModel.of(Source.of(init_from))
    folder, result = _finished_run(init_from)
    _check_seeds(folder, result, seeds)
    _check_heads(folder, result, lm)
    return FinishedRun.of(folder, result)


def is_pretrained(init_from: Any) -> bool:
    """Whether train.init_from names a pretrained model, as hf:... or gguf:..., and not a run."""
    return isinstance(init_from, str) and init_from.startswith(tuple(f"{kind}:" for kind in KINDS))


@dataclasses.dataclass(frozen=True)
class _Parent:
    """A model that a run starts from, before its parameters are read."""

    place: str
    """Where it lies, for messages."""
    name: str
    """The id of the run, or the name of the pretrained model's folder or file."""
    label: str
    """The run's, or family and size, "llama 135M", wherever the model lies."""
    spec: str
    """Its encodings."""
    lm: dict[str, Any]
    """Its section `lm`, with the number of tokens that its embeddings have."""
    shapes: Shapes
    """The shapes of one seed's parameters."""


@dataclasses.dataclass(frozen=True)
class FinishedRun(_Parent):
    """A finished run: each seed starts from the same seed's parameters."""

    folder: Folder
    result: record.Result
    parameters: str
    """A digest of its first program's parameters."""

    @classmethod
    def of(cls, folder: Folder, result: record.Result) -> FinishedRun:
        shapes, parameters = _first_program(folder, result)
        return cls(
            place=str(folder.path),
            name=result.id,
            label=result.label,
            spec=result.config["pe"]["spec"],
            lm=result.config["lm"] | {"vocab": shapes["embedding"][0]},
            shapes=shapes,
            folder=folder,
            result=result,
            parameters=parameters,
        )

    @property
    def in_words(self) -> str:
        """The parent in a line for people."""
        return self.name

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's id that says what it starts from: the same wherever this lies."""
        return {"id": self.name, "parameters": self.parameters}

    def check_tokens(self, tokens: record.Vocabulary) -> None:
        """ValueError if its embeddings belong to other tokens."""
        theirs = self.result.tokenizer
        if theirs.sha256 != tokens.sha256:
            remedy = f"file:{self.folder.path / 'tokenizer.json'}" if theirs.sha256 else BYTES.spec
            raise ValueError(
                f"{self.place} has learned other tokens ({theirs.spec}) than "
                f"data.tokenizer={tokens.spec} gives here: use --config.data.tokenizer={remedy}"
            )

    def read(self, seeds: Sequence[int], dtype: str) -> dict[int, dict[str, jax.Array]]:
        """Its parameters by seed and path, stored in `dtype`. Refused if damaged or gone."""
        rows = {}
        for members in self.folder.begun_groups:
            if not set(members) & set(seeds):
                continue
            try:
                arrays = _checkpoints(self.folder, members).load(self.result.train.steps)
            except (ValueError, OSError) as error:
                raise Refused(str(error)) from error
            for row, seed in enumerate(members):
                rows[seed] = {
                    path: stored(arrays[f"params.{path}"][row], dtype) for path in self.shapes
                }
        return rows

    def about(self, new: tuple[str, ...], dropped: tuple[str, ...]) -> record.Parent:
        """The parent, as the record of a run holds it."""
        return record.Parent(
            id=self.name,
            parameters=self.parameters,
            label=self.label,
            config=sha256(canonical(self.result.config)),
            commit=self.result.commit,
            new=new,
            dropped=dropped,
        )


def _first_program(folder: Folder, result: record.Result) -> tuple[Shapes, str]:
    """(shapes of one seed's parameters by path, digest of the parameters) of the program of the
    lowest seeds that have a model, at its end, of those that the run began with if there is one.
    Later programs change neither.
    """
    gone, steps = {*result.diverged}, result.train.steps
    begun = {*(folder.begun() or result).seeds}
    theirs = (  # not of a program that has begun since, or of a seed that was left out
        seeds
        for seeds in sorted(folder.begun_groups, key=lambda seeds: not {*seeds} & begun)
        if {*seeds} - gone
        and ({*seeds} & {*result.seeds} or steps in _checkpoints(folder, seeds).steps)
    )
    if (first := next(theirs, None)) is None:
        raise ValueError(f"{folder.path} has no checkpoints: run it again, in another folder")
    arrays, digests = _checkpoints(folder, first).describe(steps)
    names = [name for name in arrays if name.startswith("params.")]
    shapes = {name.removeprefix("params."): arrays[name].shape[1:] for name in names}
    of_params = {"-".join(map(str, first)): {name: digests[name] for name in names}}
    return shapes, sha256(canonical(of_params))


def _checkpoints(folder: Folder, group: Sequence[int]) -> Checkpoints:
    return Checkpoints(folder.checkpoints(group), read_only=True)


def _finished_run(init_from: str) -> tuple[Folder, record.Result]:
    """The folder of a finished run, and its result. ValueError if there is none."""
    folder = Folder(Path(expanded(init_from, "train.init_from")))
    try:
        result = folder.result()
    except Refused as error:
        raise ValueError(str(error)) from error
    path = folder.path
    if result and not result.train.steps:
        source = result.config["train"]["init_from"]
        raise ValueError(f"{path} has scores alone, of the model {source}: start from that")
    if result:
        return folder.of_one_rate(), result
    if any((path / name).exists() for name in ("config.json", "queued.json")):
        raise ValueError(f"{path} has not finished: run it to its end, then start from it")
    inside = path if path.is_dir() else path.parent
    runs = sorted(result.parent.name for result in inside.glob("*/result.json"))
    near = nearest(path.name, runs, 3)
    has = f" {inside} has {listed(runs)}." if runs else ""
    raise ValueError(
        f"train.init_from={init_from} is no run's folder, <workdir>/<run id>{near}{has}"
    )


def _check_seeds(folder: Folder, parent: record.Result, seeds: Sequence[int]) -> None:
    """ValueError unless the parent has every seed, and none of them has diverged."""
    lacking = [seed for seed in seeds if seed not in parent.seeds]
    if lacking:
        raise ValueError(
            f"{folder.path} has the seeds {listed(parent.seeds)}, not {listed(lacking)}: each seed "
            "starts from the same seed, so set run.seeds to some of them"
        )
    if told := divergence({s: at for s, at in parent.diverged.items() if s in seeds}):
        raise ValueError(f"{folder.path} has no model to start from: {told}; leave these seeds out")


def _check_heads(folder: Folder, parent: record.Result, lm: LmConfig) -> None:
    """ValueError unless the parent has as many heads, which the shapes do not show."""
    heads = parent.config["lm"].get("heads", lm.heads)
    if heads != lm.heads:
        raise ValueError(
            f"lm.heads is {heads} in {folder.path} and {lm.heads} here: its heads would be cut "
            "apart; make them equal"
        )


@dataclasses.dataclass(frozen=True)
class PretrainedModel(_Parent):
    """A pretrained model: every seed starts from the same parameters. Seeds differ in the order of
    the batches, and in parameters that the model does not have.
    """

    source: Source

    @classmethod
    def of(cls, source: Source) -> PretrainedModel:
        about, tree = source.about, _structure_of(source.about)
        count = sum(leaf.size for leaf in jax.tree.leaves(tree))
        return cls(
            place=source.text,
            name=source.name,
            label=f"{about.family} {_rounded(count)}",
            spec=str(about.spec),
            lm=vars(about.lm),
            shapes={path: leaf.shape for path, leaf in flat(tree).items()},
            source=source,
        )

    @property
    def in_words(self) -> str:
        """The parent in a line for people."""
        return f"{self.name} ({self.label} with {self.spec})"

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's id that says what it starts from: the same wherever this lies."""
        return {"pretrained": sha256(canonical(sorted(self.source.digests.values())))}

    def check_tokens(self, tokens: record.Vocabulary) -> None:
        """ValueError if its embeddings belong to other tokens."""
        if tokens.sha256 != named(self.source.text).describe().sha256:
            raise ValueError(
                f"{self.place} has learned other tokens than data.tokenizer={tokens.spec} gives: "
                f"use --config.data.tokenizer={self.place}"
            )

    def read(self, seeds: Sequence[int], dtype: str) -> dict[int, dict[str, jax.Array]]:
        """Its parameters by seed and path, stored in `dtype`. Refused if damaged or gone."""
        try:
            model = load(self.source.text, dtype)
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error
        if model.files != self.source.digests:
            raise Refused(f"{self.place} has changed: give the same command again")
        return dict.fromkeys(seeds, flat(model.params))

    def about(self, new: tuple[str, ...], dropped: tuple[str, ...]) -> record.Parent:
        """The parent, as the record of a run holds it."""
        return record.Parent(
            id=self.name,
            parameters=self.identity["pretrained"],
            label=self.label,
            config=sha256(repr(self.source.about)),
            commit="",
            new=new,
            dropped=dropped,
            source=self.place,
            files=self.source.digests,
        )


@functools.cache
def _structure_of(about: Described) -> Any:
    """The parameters of a pretrained model as a tree of shapes."""
    return structure(about.lm, about.encodings)[1]


def _rounded(count: int) -> str:
    """A number of parameters as people say it: "135M"."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return str(count)


ParentModel = FinishedRun | PretrainedModel


# Matching by name and shape. An encoding's parameter is named by its section of the config, as in
# `pe.t5.table` or `pe.transformer_xl.layers.1.r`, not by its place in the spec. A member that the
# other spec does not have takes over the parameters of one of its family (specs/swap.py).

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of one seed's parameters, by their path in the model."""


@dataclasses.dataclass(frozen=True)
class Match:
    """How the parameters of a model ("here") are taken from another model's ("there")."""

    taken: dict[str, str]
    """{path of a parameter here: its path there}."""
    new: tuple[str, ...]
    """Names of the parameters here that are not taken over."""
    unfit: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
    """{name: (shape there, shape here)} of the parameters of one name and two shapes."""
    lost: tuple[str, ...]
    """Names of the parameters there that no parameter here has."""

    @classmethod
    def of(cls, ours: Shapes, spec: str, theirs: Shapes, their_spec: str) -> Match:
        """Matches the parameters of a model, whose encodings `spec` names, to another's."""
        members, their_members = parse(spec).members, parse(their_spec).members
        heirs = _heirs(members, their_members)
        here = _paths_by_name(ours, [member.id for member in members])
        there = _paths_by_name(
            theirs, [heirs.get(member.id, member.id) for member in their_members]
        )
        both = here.keys() & there.keys()
        shapes = {name: (theirs[there[name]], ours[here[name]]) for name in sorted(both)}
        unfit = {name: pair for name, pair in shapes.items() if pair[0] != pair[1]}
        taken = {here[name]: there[name] for name in both.difference(unfit)}
        new = sorted(name for name in here if here[name] not in taken)
        return cls(taken, tuple(new), unfit, tuple(sorted(there.keys() - both)))

    def dropped(self, parent: ParentModel, spec: str, lm: LmConfig, drop: bool) -> tuple[str, ...]:
        """Names of the parent's parameters that have no place in a model of this spec and section
        `lm`. ValueError if there are any and `drop` does not give them up.
        """
        if self.unfit and not drop:
            raise ValueError(self._why_unfit(parent, spec, lm))
        if self.lost and not drop:
            raise ValueError(
                f"{parent.place} has {listed(self.lost)}, which would be lost: no parameter here "
                "has that name; name its encoding in the spec too, or allow it by "
                "--config.train.init_drop=True"
            )
        return (*self.unfit, *self.lost)

    def _why_unfit(self, parent: ParentModel, spec: str, lm: LmConfig) -> str:
        """Why parameters of one name and two shapes cannot be taken over, and what can be done."""
        before = parent.lm
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
            f"{name} is {list(theirs)} in {parent.place} and {list(ours)} here{more}: {remedy}, "
            "or let it begin anew by --config.train.init_drop=True"
        )


def _heirs(members: Sequence[Member], theirs: Sequence[Member]) -> dict[str, str]:
    """{id of a member of the other spec: id of the member here that takes over its parameters}: the
    member of the same id, else the first of its family that does not take over another's.
    """
    ids = {member.id for member in members}
    heirs = {other.id: other.id for other in theirs if other.id in ids}
    for other in theirs:
        for member in members:
            taken = other.id in heirs or member.id in heirs.values()
            if not taken and kin(member.cls, other.cls):
                heirs[other.id] = member.id
    return heirs


def _paths_by_name(paths: Iterable[str], ids: Sequence[str]) -> dict[str, str]:
    """{name: path} of parameters. In a path an encoding is an index, as in `shared.0.table`; in a
    name it is the id of the member, as in `pe.t5.table`.
    """

    def name(path: str) -> str:
        match path.split("."):
            case ["shared", i, *rest]:
                return ".".join(["pe", ids[int(i)], *rest])
            case ["owned", layer, i, *rest]:
                return ".".join(["pe", ids[int(i)], "layers", layer, *rest])
        return path

    return {name(path): path for path in paths}


def listed(items: Iterable[Any]) -> str:
    """ "a, b, c"; the first eight of many."""
    names = list(map(str, items))
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return (", ".join(names[:8]) or "none") + more
