"""Training that goes on from a pretrained model, hf:DIR or gguf:PATH in `train.init_from`.

The model says what the config leaves at its defaults: its shape (section `lm`), its tokens
(data.tokenizer) and, of a member of the spec that is of the family of one of its own encodings, the
fields that both have, as in a swap; the `length` of a scaling is the length it was trained for. A
field that is set in the spec itself, as in "rope(base=10000.0)", stays as it is.

Every seed starts from the same parameters: seeds differ in the order of the batches, and in
parameters that the model does not have.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax import errors, record
from pe_jax.compose.parse import Member, defaults, parse
from pe_jax.compose.swap import kin
from pe_jax.data.tokenizer import Tokenizer, named
from pe_jax.encoding import Encoding
from pe_jax.encodings.scaled import Scaled
from pe_jax.model.config import LmConfig
from pe_jax.pretrained.config import Described
from pe_jax.pretrained.load import load
from pe_jax.pretrained.source import KINDS, Source
from pe_jax.runs.config import DataConfig
from pe_jax.runs.matching import Match, summary, taking
from pe_jax.runs.sections import members_of
from pe_jax.storage import hashes
from pe_jax.storage.arrays import flat
from pe_jax.storage.hashes import canonical
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import State, structure

FREE = ("dropout", "dtype", "attention", "memory")
"""Fields of section `lm` that a pretrained model does not decide."""


@dataclasses.dataclass(frozen=True)
class FromPretrained:
    """A pretrained model, and which of its parameters a model takes over."""

    source: Source
    taken: dict[str, str]
    """{path of a parameter here: its path there}."""
    new: tuple[str, ...]
    """Names of the parameters here that are drawn at random, as in any run."""
    dropped: tuple[str, ...]
    """Names of the parameters there that have no place here."""

    @classmethod
    def of(
        cls, train: TrainConfig, lm: LmConfig, spec: str, encodings: Sequence[Encoding]
    ) -> FromPretrained:
        """What `train` asks for. ValueError if the model would lose parameters that train.init_drop
        does not give up.
        """
        source = Source.of(train.init_from)
        theirs, ours = (
            {path: leaf.shape for path, leaf in flat(tree).items()}
            for tree in (_shapes(source.about), structure(lm, encodings)[1])
        )
        match = Match.of(ours, spec, theirs, source.about.spec)
        before = vars(source.about.lm)
        dropped = match.dropped(train.init_from, spec, before, lm, train.init_drop)
        return cls(source, match.taken, match.new, dropped)

    def check(self, tokens: Tokenizer) -> None:
        """ValueError if the embeddings that are taken over are those of other tokens."""
        here = tokens.describe()
        if "embedding" in self.taken and here.sha256 != named(self.source.text).describe().sha256:
            raise ValueError(
                f"{self.source.text} has learned other tokens than data.tokenizer={here.spec} "
                f"gives: use --config.data.tokenizer={self.source.text}"
            )

    def __call__(self, state: State, seeds: Sequence[int]) -> State:
        """`state`, that before the first step, with the model's parameters in it for each seed.
        Refused if its weights are damaged or gone.
        """
        try:
            there = load(self.source.text)
        except (ValueError, OSError) as error:
            raise errors.Refused(str(error)) from error
        if there.files != self.source.digests:
            raise errors.Refused(f"{self.source.text} has changed: give the same command again")
        theirs = flat(there.params)

        def read(path: str) -> jax.Array:
            return jnp.stack([theirs[path]] * len(seeds))

        return taking(state, self.taken, read)

    @property
    def label(self) -> str:
        """Its family and size, "llama 135M", wherever it lies."""
        about = self.source.about
        count = sum(leaf.size for leaf in jax.tree.leaves(_shapes(about)))
        return f"{about.family} {_short(count)}"

    @property
    def identity(self) -> dict[str, Any]:
        """What of the model decides the numbers of a run that starts from it."""
        return {"pretrained": hashes.sha256(canonical(sorted(self.source.digests.values())))}

    def about(self) -> record.Parent:
        """The model, as the record of a run holds it."""
        return record.Parent(
            id=self.source.name,
            parameters=self.identity["pretrained"],
            label=self.label,
            config=hashes.sha256(canonical(dataclasses.asdict(self.source.about))),
            commit="",
            new=self.new,
            dropped=self.dropped,
            source=self.source.text,
            files=self.source.digests,
        )

    def summary(self) -> str:
        """What is taken over, as a line for people."""
        model = f"{self.source.name} ({self.label} with {self.source.about.spec})"
        return summary(model, self.taken, self.new, self.dropped)


def is_pretrained(init_from: Any) -> bool:
    """Whether train.init_from names a pretrained model."""
    return isinstance(init_from, str) and init_from.partition(":")[0] in KINDS


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config in sections with what the pretrained model of its train.init_from says; without one
    as it is. ValueError for a field of section `lm` that is set to another value.
    """
    source = config.get("train", {}).get("init_from")
    if not is_pretrained(source):
        return {**config}
    there = Source.of(source)
    data = config.get("data", {})
    if data.get("tokenizer", DataConfig.tokenizer) == DataConfig.tokenizer:
        data = {**data, "tokenizer": source}
    lm = {**config.get("lm", {}), **_shape(config.get("lm", {}), there)}
    return {**config, "lm": lm, "data": data, "pe": _encodings(config["pe"], there)}


def _shape(given: Mapping[str, Any], there: Source) -> dict[str, Any]:
    """The fields of section `lm` that the model decides."""
    own = {name: value for name, value in vars(there.about.lm).items() if name not in FREE}
    usual = vars(LmConfig())
    for name, value in own.items():
        if given.get(name, value) not in (value, usual[name]):
            raise ValueError(
                f"lm.{name} is {value!r} in {there.text}, got {given[name]!r}: leave it out, since "
                "the shape of a pretrained model is its own"
            )
    return own


def _encodings(section: Mapping[str, Any], there: Source) -> dict[str, Any]:
    """Section `pe` with the fields that the model's own encodings give to those of the spec."""
    spec, given = members_of(section)
    filled = {}
    for member in parse(spec):
        fields = given.get(member.id, {})
        usual = defaults(member.cls)
        free = {n for n, value in usual.items() if fields.get(n, value) == value} - {*member.fields}
        own = _said(member, there.about)
        filled[member.id] = {**fields, **{name: own[name] for name in own.keys() & free}}
    return {**section, **{id: fields for id, fields in filled.items() if fields}}


def _said(member: Member, about: Described) -> dict[str, Any]:
    """What the model says of the fields of a member."""
    said = {"length": about.length} if issubclass(member.cls, Scaled) else {}
    old = next((old for old in parse(about.spec) if kin(member.cls, old.cls)), None)
    return said | (old.fields if old else {})


@functools.cache
def _shapes(about: Described) -> Any:
    """The model's parameters as a tree of shapes."""
    encodings = parse(about.spec).encodings(about.lm.dims(about.length))
    return structure(about.lm, encodings)[1]


def _short(count: int) -> str:
    """A number of parameters as people say it: "135M"."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return str(count)
