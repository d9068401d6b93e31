"""Starting from another run: which of its parameters a model takes over, and which begin anew.

`train.init_from` names the folder of a finished run. Parameters are matched by name and shape, each
seed's with the same seed's. What belongs to an encoding goes by its section of the config, as in
`pe.t5.table` or `pe.transformer_xl.layers.1.r`, and not by its place in the spec; a member that the
other spec does not have takes over from one of its family. The optimizer, the learning rate and the
order of the batches begin anew.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax import atomic, errors, hashes, record
from pe_jax.checkpoint import Checkpoints, flat
from pe_jax.encoding import Encoding
from pe_jax.lm_config import LmConfig
from pe_jax.paths import expanded
from pe_jax.spec import Member, defaults, parse
from pe_jax.swaps import kin
from pe_jax.tokenizer import BYTES, Tokenizer
from pe_jax.train import State, TrainConfig, structure

Shapes = dict[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """A finished run, and what a model takes of its parameters."""

    folder: Path
    parent: dict[str, Any]
    """Its result.json."""
    digest: str
    """Of its parameters, all seeds."""
    taken: dict[str, str]
    """{path of a parameter here: its path there}."""
    new: tuple[str, ...]
    """Names of the parameters here that are drawn at random, as in any run."""
    dropped: tuple[str, ...]
    """Names of those there that have no place here."""

    @classmethod
    def of(
        cls,
        train: TrainConfig,
        lm: LmConfig,
        spec: str,
        encodings: Sequence[Encoding],
        seeds: Sequence[int],
    ) -> WarmStart:
        """What `train` asks for. ValueError if the run cannot serve as a start, or would lose
        parameters that train.init_drop does not give up.
        """
        folder, parent = _finished(train.init_from)
        lacking = [seed for seed in seeds if seed not in parent["seeds"]]
        if lacking:
            raise ValueError(
                f"{folder} has the seeds {_list(parent['seeds'])}, not {_list(lacking)}: each seed "
                "starts from the same seed, so set run.seeds to some of them"
            )
        heads = parent["config"]["lm"].get("heads", lm.heads)
        if heads != lm.heads:
            raise ValueError(
                f"lm.heads is {heads} in {folder} and {lm.heads} here: its heads would be cut "
                "apart; make them equal"
            )
        theirs, digest = _stored(folder, parent)
        ours = {path: leaf.shape for path, leaf in flat(structure(lm, encodings)[1]).items()}
        members = parse(spec).members
        before = parse(parent["config"]["pe"]["spec"]).members
        heirs = _heirs(members, before)
        here = _named(ours, [member.id for member in members])
        there = _named(theirs, [heirs.get(member.id, member.id) for member in before])
        both = here.keys() & there.keys()
        unfit = sorted(name for name in both if ours[here[name]] != theirs[there[name]])
        lost = sorted(there.keys() - both)
        if unfit and not train.init_drop:
            shapes = {name: (theirs[there[name]], ours[here[name]]) for name in unfit}
            before_lm = parent["config"]["lm"] | {"vocab": theirs["embedding"][0]}
            raise ValueError(_unfit(folder, shapes, members, before_lm, lm))
        if lost and not train.init_drop:
            raise ValueError(
                f"{folder} has {_list(lost)}, which would be lost: no parameter here has that name;"
                " name its encoding in the spec too, or allow it by --config.train.init_drop=True"
            )
        taken = {here[name]: there[name] for name in both.difference(unfit)}
        new = sorted(name for name in here if here[name] not in taken)
        return cls(folder, parent, digest, taken, tuple(new), (*unfit, *lost))

    def check(self, tokens: Tokenizer) -> None:
        """ValueError if the embeddings that are taken over are those of other tokens."""
        there, here = record.Vocabulary(**self.parent.get("tokenizer", {})), tokens.describe()
        if "embedding" in self.taken and there.sha256 != here.sha256:
            own = f"file:{self.folder / 'tokenizer.json'}" if there.sha256 else BYTES.spec
            raise ValueError(
                f"{self.folder} has learned other tokens ({there.spec}) than "
                f"data.tokenizer={here.spec} gives here: use --config.data.tokenizer={own}"
            )

    def __call__(self, state: State, seeds: Sequence[int]) -> State:
        """The state before the first step, with the other run's parameters in it."""
        rows = self._rows(seeds)

        def place(path, leaf):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            if name not in self.taken:
                return leaf
            return jnp.stack([rows[seed][f"params.{self.taken[name]}"] for seed in seeds])

        return state | {"params": jax.tree.map_with_path(place, state["params"])}

    def _rows(self, seeds: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The arrays of each seed, without the axis of seeds."""
        rows = {}
        for group in self.parent["digests"]:
            members = [int(seed) for seed in group.split("-")]
            if not set(members) & set(seeds):
                continue
            try:
                arrays = _checkpoints(self.folder, group).load(_steps(self.parent))
            except ValueError as error:
                raise errors.Refused(f"{error}: run it again, in another --workdir") from error
            for row, seed in enumerate(members):
                kept = {n: a for n, a in arrays.items() if n.startswith("params.")}
                rows[seed] = {n: a[row] for n, a in kept.items()}
        return rows

    @property
    def label(self) -> str:
        return self.parent["label"]

    @property
    def identity(self) -> dict[str, str]:
        """What decides a run that starts from it, wherever it lies."""
        return {"id": self.parent["id"], "parameters": self.digest}

    def about(self) -> dict[str, Any]:
        """What the record of a run says of its parent."""
        return self.identity | {
            "label": self.label,
            "config": hashes.sha256(record.canonical(self.parent["config"])),
            "commit": self.parent["commit"],
            "new": list(self.new),
            "dropped": list(self.dropped),
        }

    def summary(self) -> str:
        """What is taken over, in a line."""
        return (
            f"starting from {self.parent['id']}: {len(self.taken)} arrays of its parameters; "
            f"new: {_list(self.new)}; dropped: {_list(self.dropped)}"
        )


def _finished(init_from: str) -> tuple[Path, dict[str, Any]]:
    """The folder of a finished run, and its result."""
    folder = Path(expanded(init_from, "train.init_from"))
    try:
        if result := atomic.read(folder / "result.json"):
            return folder, result
    except errors.Refused as error:
        raise ValueError(str(error)) from error
    if (folder / "config.json").exists():
        raise ValueError(f"{folder} has not finished: run it to its end, then start from it")
    inside = folder if folder.is_dir() else folder.parent
    runs = sorted(path.parent.name for path in inside.glob("*/result.json"))
    near = difflib.get_close_matches(folder.name, runs, 3) or runs
    raise ValueError(
        f"train.init_from={init_from} is no run's folder, <workdir>/<run id>"
        + (f"; {inside} has {_list(near)}" if near else "")
    )


def _stored(folder: Path, parent: dict[str, Any]) -> tuple[Shapes, str]:
    """(shapes of one seed's parameters by path, digest of all seeds') of the final checkpoint."""
    shapes, digests = {}, {}
    for group in parent["digests"]:
        found, written = _checkpoints(folder, group).describe(_steps(parent))
        names = [name for name in found if name.startswith("params.")]
        shapes = {name.removeprefix("params."): found[name].shape[1:] for name in names}
        digests[group] = {name: written[name] for name in names}
    return shapes, hashes.sha256(record.canonical(digests))


def _checkpoints(folder: Path, group: str) -> Checkpoints:
    return Checkpoints(folder / "checkpoints" / group, read_only=True)


def _steps(parent: dict[str, Any]) -> int:
    return parent["train"]["steps"]


def _heirs(members: Sequence[Member], before: Sequence[Member]) -> dict[str, str]:
    """{id of a member before: id of the one that takes over its parameters}."""
    heirs = {b.id: m.id for b in before for m in members if m.id == b.id}
    for b in before:
        for m in members:
            if kin(m.cls, b.cls) and b.id not in heirs and m.id not in heirs.values():
                heirs[b.id] = m.id
    return heirs


def _named(paths: Iterable[str], ids: Sequence[str]) -> dict[str, str]:
    """{name: path}, the LM's lists of its encodings' parameters by the ids of its members."""

    def name(path: str) -> str:
        match path.split("."):
            case ["shared", i, *rest]:
                return ".".join(["pe", ids[int(i)], *rest])
            case ["owned", layer, i, *rest]:
                return ".".join(["pe", ids[int(i)], "layers", layer, *rest])
        return path

    return {name(path): path for path in paths}


def _unfit(
    folder: Path,
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]],
    members: Sequence[Member],
    before: dict[str, Any],
    lm: LmConfig,
) -> str:
    """Why parameters of one name but two shapes are refused, and what can be done."""
    name, (theirs, ours) = next(iter(shapes.items()))
    more = f" (and {len(shapes) - 1} more)" if len(shapes) > 1 else ""
    changed = [
        f"lm.{field} is {before[field]} there and {value} here"
        for field, value in dataclasses.asdict(lm).items()
        if before.get(field, value) != value
    ]
    remedy = f"{_list(changed)}: make them equal" if changed else "take another encoding"
    if name.startswith("pe."):
        id = name.split(".")[1]
        fields = defaults(next(member.cls for member in members if member.id == id))
        own = [field for field in fields if field not in ("layers", "where", "per_layer")]
        remedy = f"set a field of pe.{id} ({_list(own)}) so that it fits, or take another encoding"
    return (
        f"{name} is {list(theirs)} in {folder} and {list(ours)} here{more}: {remedy}, "
        "or let it begin anew by --config.train.init_drop=True"
    )


def _list(items: Iterable[Any]) -> str:
    """ "a, b, c"; the first eight of many."""
    items = list(map(str, items))
    more = f" and {len(items) - 8} more" if len(items) > 8 else ""
    return (", ".join(items[:8]) or "none") + more
