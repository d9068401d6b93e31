"""Initialise from a checkpoint (`train.init_from`): of a finished run, or of a pretrained model.
Optimizer, learning rate and the order of the batches begin anew.

Parameters are matched by name and shape. A parameter of an encoding is named by its section of the
config, as in `pe.t5.table`, not by its place in the spec.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax.data.tokenizer import BYTES, Tokenizer, named
from pe_jax.encoding import Encoding
from pe_jax.errors import Refused, nearest
from pe_jax.model.config import LmConfig, stored
from pe_jax.pretrained.load import load
from pe_jax.pretrained.source import KINDS, Source
from pe_jax.record import Parent, Result, Vocabulary, divergence, few
from pe_jax.runs.folder import Folder
from pe_jax.specs.parse import parse
from pe_jax.storage.checkpoints import Checkpoints, flat
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.paths import expanded
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import State, structure

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of one seed's parameters, by their paths in the model."""


@dataclasses.dataclass(frozen=True)
class InitFrom:
    """A checkpoint, and the parameters that a model takes over from it."""

    model: Folder | Source
    """A finished run, in which each seed starts from the same seed; or a pretrained model, from
    which all seeds start."""
    place: str
    """Its path, or hf:DIR or gguf:PATH."""
    spec: str
    """Its encodings."""
    record: Parent
    """The part `parent` of a record."""
    steps: int = 0
    """Training steps of a run."""
    tokens: Vocabulary | None = None
    """The tokenizer of a run."""
    taken: dict[str, str] = dataclasses.field(default_factory=dict)
    """{path of a parameter here: its path in the checkpoint}; others are drawn at random."""

    @classmethod
    def of(
        cls,
        train: TrainConfig,
        lm: LmConfig,
        spec: str,
        encodings: Sequence[Encoding],
        seeds: Sequence[int],
    ) -> InitFrom | None:
        """None where train.init_from is "". ValueError if the checkpoint cannot serve, or has
        parameters without a place in the model, or lacks parameters of a run of no steps.
        """
        if not train.init_from:
            return None
        if is_pretrained(train.init_from):
            checkpoint, theirs = _of_pretrained(train.init_from)
        else:
            checkpoint, theirs = _of_run(train.init_from, lm, seeds)
        ours = {path: leaf.shape for path, leaf in flat(structure(lm, encodings)[1]).items()}
        here, there = _paths_by_name(ours, spec), _paths_by_name(theirs, checkpoint.spec)
        new = sorted(here.keys() - there.keys())
        if lost := sorted(n for n in there if n not in here or ours[here[n]] != theirs[there[n]]):
            shape = list(ours[here[lost[0]]]) if lost[0] in here else "none"
            raise ValueError(
                f"{checkpoint.place} has {few(lost)}, which have no place here: {lost[0]} has "
                f"the shape {list(theirs[there[lost[0]]])} there and {shape} here; make section lm "
                "and the encodings equal"
            )
        if new and not train.steps:
            raise ValueError(
                f"{checkpoint.place} lacks {few(new)}, and train.steps=0 trains nothing: name "
                "the encodings that it has, or give train.steps"
            )
        parent = dataclasses.replace(checkpoint.record, new=tuple(new))
        taken = {here[name]: there[name] for name in sorted(there)}
        return dataclasses.replace(checkpoint, record=parent, taken=taken)

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's id that says what it starts from: the same wherever this lies."""
        if isinstance(self.model, Source):
            return {"pretrained": self.record.parameters}
        return {"id": self.record.id, "parameters": self.record.parameters}

    def read(self, seeds: Sequence[int], dtype: str) -> dict[int, dict[str, jax.Array]]:
        """The parameters by seed and path, stored in `dtype`. Refused if damaged or gone."""
        try:
            if isinstance(self.model, Source):
                model = load(self.place, dtype)
                if model.files != self.record.files:
                    raise Refused(f"{self.place} has changed: give the same command again")
                return dict.fromkeys(seeds, flat(model.params))
            rows = {}
            for group in self.model.groups(seeds):
                checkpoints = Checkpoints(self.model.checkpoints(group), read_only=True)
                arrays = checkpoints.load(self.steps)
                for row, seed in enumerate(group):
                    rows[seed] = {
                        path: stored(arrays[f"params.{path}"][row], dtype)
                        for path in self.taken.values()
                    }
            return rows
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error

    def check_tokens(self, tokens: Tokenizer) -> None:
        """ValueError if embeddings are taken over that belong to other tokens."""
        if "embedding" not in self.taken:
            return
        place = remedy = self.place
        theirs, ours = self.tokens or named(place).describe(), tokens.describe()
        if self.tokens:
            remedy = f"file:{place}/tokenizer.json" if theirs.sha256 else BYTES.spec
        if theirs.sha256 != ours.sha256:
            raise ValueError(
                f"{place} has learned other tokens ({theirs.spec}) than data.tokenizer={ours.spec} "
                f"gives here: use --config.data.tokenizer={remedy}"
            )

    def __call__(self, state: State, seeds: Sequence[int]) -> State:
        """The state before the first step, with the checkpoint's parameters of these seeds in it.
        Refused if they are damaged or gone.
        """
        rows = self.read(seeds, "float32")
        theirs = jax.tree.map(lambda *arrays: jnp.stack(arrays), *(rows[seed] for seed in seeds))
        return state | {"params": self._filled(state["params"], theirs)}

    def models(
        self, lm: LmConfig, encodings: Sequence[Encoding], seeds: Sequence[int], dtype: str
    ) -> dict[int, Any]:
        """The parameters of a run of no steps, by seed, stored in `dtype`. Refused as above."""
        like = structure(lm, encodings)[1]
        theirs = self.read(seeds, dtype)
        return {seed: self._filled(like, theirs[seed]) for seed in seeds}

    def _filled(self, tree: Any, theirs: Mapping[str, jax.Array]) -> Any:
        leaves = [
            theirs[self.taken[name]] if name in self.taken else leaf
            for name, leaf in flat(tree).items()
        ]
        return jax.tree.unflatten(jax.tree.structure(tree), leaves)

    def summary(self) -> str:
        """The parameters that are taken over and new, in a line."""
        return (
            f"starting from {self.record.id} with {self.spec}: "
            f"{len(self.taken)} arrays of its parameters; new: {few(self.record.new) or 'none'}"
        )


def _of_run(init_from: str, lm: LmConfig, seeds: Sequence[int]) -> tuple[InitFrom, Shapes]:
    # ValueError unless the run has finished, with a model of each seed; Refused if it is damaged
    folder = Folder(Path(expanded(init_from, "train.init_from")))
    result = folder.result()
    if result is None:
        runs = [path.parent.name for path in folder.path.parent.glob("*/result.json")]
        raise ValueError(
            f"train.init_from={init_from} is no folder of a finished run, <workdir>/<run id>"
            f"{nearest(folder.path.name, runs, 3)}"
        )
    if not result.train.steps:
        source = result.config["train"]["init_from"]
        raise ValueError(f"{folder.path} has scores alone, of the model {source}: start from that")
    if lacking := [seed for seed in seeds if seed not in result.seeds]:
        raise ValueError(
            f"{folder.path} has the seeds {few(result.seeds)}, not {few(lacking)}: each seed "
            "starts from the same seed, so set run.seeds to some of them"
        )
    if gone := {seed: at for seed, at in result.diverged.items() if seed in seeds}:
        raise ValueError(
            f"{folder.path} has no model to start from: {divergence(gone)}; leave these seeds out"
        )
    if (heads := result.config["lm"].get("heads", lm.heads)) != lm.heads:
        raise ValueError(  # which the shapes do not show
            f"lm.heads is {heads} in {folder.path} and {lm.heads} here: its heads would be cut "
            "apart; make them equal"
        )
    shapes, parameters = _first_program(folder, result)
    parent = Parent(
        id=result.id,
        parameters=parameters,
        label=result.label,
        config=sha256(canonical(result.config)),
        commit=result.commit,
    )
    spec, steps = result.config["pe"]["spec"], result.train.steps
    made = InitFrom(folder, str(folder.path), spec, parent, steps, result.tokenizer)
    return made, shapes


def _of_pretrained(text: str) -> tuple[InitFrom, Shapes]:
    # ValueError or FileNotFoundError as of `Source.of`
    source = Source.of(text)
    about = source.about
    arrays = flat(structure(about.lm, about.encodings)[1])
    shapes = {path: leaf.shape for path, leaf in arrays.items()}
    parent = Parent(
        id=source.name,
        parameters=sha256(canonical(sorted(source.digests.values()))),
        label=f"{about.family} {_rounded(sum(map(math.prod, shapes.values())))}",
        config=sha256(repr(about)),
        commit="",
        source=source.text,
        files=source.digests,
    )
    return InitFrom(source, source.text, str(about.spec), parent), shapes


def is_pretrained(init_from: Any) -> bool:
    """Whether train.init_from names a pretrained model, as hf:... or gguf:..., and not a run."""
    return isinstance(init_from, str) and init_from.startswith(tuple(f"{kind}:" for kind in KINDS))


def _paths_by_name(paths: Iterable[str], spec: str) -> dict[str, str]:
    # In a path an encoding is an index, as in shared.0.table; in a name the id of its member.
    ids = [member.id for member in parse(spec)]

    def name(path: str) -> str:
        match path.split("."):
            case ["shared", i, *rest]:
                return ".".join(["pe", ids[int(i)], *rest])
            case ["owned", layer, i, *rest]:
                return ".".join(["pe", ids[int(i)], "layers", layer, *rest])
        return path

    return {name(path): path for path in paths}


def _first_program(folder: Folder, result: Result) -> tuple[Shapes, str]:
    # (shapes of one seed's parameters, their digest) of the first program with a model. Programs
    # of seeds that were added later come last: they change neither.
    begun, steps = {*(folder.begun() or result).seeds}, result.train.steps
    groups = sorted(folder.begun_groups, key=lambda seeds: not {*seeds} & begun)
    whole = (seeds for seeds in groups if {*seeds} - {*result.diverged})
    first = next((seeds for seeds in whole if folder.last_step(seeds) >= steps), None)
    if first is None:
        raise ValueError(f"{folder.path} has no checkpoints: run it again, in another folder")
    arrays, digests = Checkpoints(folder.checkpoints(first), read_only=True).describe(steps)
    names = [name for name in arrays if name.startswith("params.")]
    shapes = {name.removeprefix("params."): arrays[name].shape[1:] for name in names}
    of_params = {folder.checkpoints(first).name: {name: digests[name] for name in names}}
    return shapes, sha256(canonical(of_params))


def _rounded(count: float) -> str:
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{name}"
    return f"{count:g}"
