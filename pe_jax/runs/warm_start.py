"""Training that starts from the parameters of another run, whose folder `train.init_from` names.

That run must be finished. Parameters are matched by name and shape (matching.py), each seed's with
the same seed's. The optimizer, the learning rate and the order of the batches begin anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from pe_jax import errors, record
from pe_jax.data.tokenizer import BYTES, Tokenizer
from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.reason import divergence
from pe_jax.runs import layout
from pe_jax.runs.matching import Match, Shapes, listed, summary, taking
from pe_jax.storage import hashes, records
from pe_jax.storage.arrays import flat
from pe_jax.storage.hashes import canonical
from pe_jax.storage.paths import expanded
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import State, structure

if TYPE_CHECKING:
    from pe_jax.storage.checkpoints import Checkpoints


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """A finished run, the parent, and which of its parameters a model takes over."""

    folder: Path
    parent: record.Result
    digest: str
    """SHA-256 of the parameters of the seeds that it began with."""
    taken: dict[str, str]
    """{path of a parameter here: its path there}."""
    new: tuple[str, ...]
    """Names of the parameters here that are drawn at random, as in any run."""
    dropped: tuple[str, ...]
    """Names of the parameters there that have no place here."""

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
        _check_seeds(folder, parent, seeds)
        _check_heads(folder, parent, lm)
        theirs, digest = _stored(folder, parent)
        ours = {path: leaf.shape for path, leaf in flat(structure(lm, encodings)[1]).items()}
        match = Match.of(ours, spec, theirs, parent.config["pe"]["spec"])
        before = parent.config["lm"] | {"vocab": theirs["embedding"][0]}
        dropped = match.dropped(str(folder), spec, before, lm, train.init_drop)
        return cls(folder, parent, digest, match.taken, match.new, dropped)

    def check(self, tokens: Tokenizer) -> None:
        """ValueError if the embeddings that are taken over are those of other tokens."""
        there, here = self.parent.tokenizer, tokens.describe()
        if "embedding" in self.taken and there.sha256 != here.sha256:
            own = f"file:{self.folder / 'tokenizer.json'}" if there.sha256 else BYTES.spec
            raise ValueError(
                f"{self.folder} has learned other tokens ({there.spec}) than "
                f"data.tokenizer={here.spec} gives here: use --config.data.tokenizer={own}"
            )

    def __call__(self, state: State, seeds: Sequence[int]) -> State:
        """`state`, that before the first step, with the parent's parameters of these seeds in it.
        Refused if a checkpoint of the parent is damaged or gone.
        """
        rows = self._rows(seeds)

        def read(path: str) -> jax.Array:
            return jnp.stack([rows[seed][f"params.{path}"] for seed in seeds])

        return taking(state, self.taken, read)

    def _rows(self, seeds: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The parent's parameters of each seed, by name, without the axis of seeds."""
        rows = {}
        for members in layout.trained_groups(self.folder):
            if not set(members) & set(seeds):
                continue
            try:
                arrays = _checkpoints(self.folder, members).load(self.parent.train.steps)
            except ValueError as error:
                raise errors.Refused(str(error)) from error
            for row, seed in enumerate(members):
                params = {n: a for n, a in arrays.items() if n.startswith("params.")}
                rows[seed] = {n: a[row] for n, a in params.items()}
        return rows

    @property
    def label(self) -> str:
        """The parent's."""
        return self.parent.label

    @property
    def identity(self) -> dict[str, str]:
        """What of the parent decides the numbers of a run that starts from it, wherever it lies."""
        return {"id": self.parent.id, "parameters": self.digest}

    def about(self) -> record.Parent:
        """The parent, as the record of a run holds it."""
        return record.Parent(
            id=self.parent.id,
            parameters=self.digest,
            label=self.label,
            config=hashes.sha256(canonical(self.parent.config)),
            commit=self.parent.commit,
            new=self.new,
            dropped=self.dropped,
        )

    def summary(self) -> str:
        """What is taken over, as a line for people."""
        return summary(self.parent.id, self.taken, self.new, self.dropped)


def _finished(init_from: str) -> tuple[Path, record.Result]:
    """The folder of a finished run, and its result. ValueError if it is none."""
    folder = Path(expanded(init_from, "train.init_from"))
    try:
        if result := records.read(record.Result, folder / "result.json"):
            return layout.of_one_rate(folder), result
    except errors.Refused as error:
        raise ValueError(str(error)) from error
    if (folder / "config.json").exists():
        raise ValueError(f"{folder} has not finished: run it to its end, then start from it")
    inside = folder if folder.is_dir() else folder.parent
    runs = sorted(path.parent.name for path in inside.glob("*/result.json"))
    near = errors.nearest(folder.name, runs, 3)
    has = f" {inside} has {listed(runs)}." if runs else ""
    raise ValueError(
        f"train.init_from={init_from} is no run's folder, <workdir>/<run id>{near}{has}"
    )


def _check_seeds(folder: Path, parent: record.Result, seeds: Sequence[int]) -> None:
    """ValueError unless the parent has every seed, and none of them has diverged."""
    lacking = [seed for seed in seeds if seed not in parent.seeds]
    if lacking:
        raise ValueError(
            f"{folder} has the seeds {listed(parent.seeds)}, not {listed(lacking)}: each seed "
            "starts from the same seed, so set run.seeds to some of them"
        )
    if told := divergence({s: at for s, at in parent.diverged.items() if s in seeds}):
        raise ValueError(f"{folder} has no model to start from: {told}; leave these seeds out")


def _check_heads(folder: Path, parent: record.Result, lm: LmConfig) -> None:
    """ValueError unless the parent has as many heads, which the shapes do not show."""
    heads = parent.config["lm"].get("heads", lm.heads)
    if heads != lm.heads:
        raise ValueError(
            f"lm.heads is {heads} in {folder} and {lm.heads} here: its heads would be cut "
            "apart; make them equal"
        )


def _stored(folder: Path, parent: record.Result) -> tuple[Shapes, str]:
    """(shapes of one seed's parameters by path, digest of those of the seeds that it began with) of
    the final checkpoint. Seeds that come later do not change what starts from it.
    """
    first = layout.trained_groups(folder)[0]
    arrays, written = _checkpoints(folder, first).describe(parent.train.steps)
    names = [name for name in arrays if name.startswith("params.")]
    shapes = {name.removeprefix("params."): arrays[name].shape[1:] for name in names}
    digests = {name: written[name] for name in names}
    return shapes, hashes.sha256(canonical({"-".join(map(str, first)): digests}))


def _checkpoints(folder: Path, group: Sequence[int]) -> Checkpoints:
    from pe_jax.storage.checkpoints import Checkpoints  # Orbax, which few runs need to be planned

    return Checkpoints(layout.checkpoints(folder, group), read_only=True)
