"""What one run is: its config in sections, each with its defaults, all of it checked. execute.py
carries it out.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from pe_jax.data import batches, tokenizer
from pe_jax.data.load import load
from pe_jax.encoding import Encoding
from pe_jax.errors import Refused, nearest
from pe_jax.evaluation import passes
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.windows import check_room
from pe_jax.model import memory
from pe_jax.model.config import LmConfig
from pe_jax.model.parameters import init_params
from pe_jax.record import Parameters, canonical
from pe_jax.runs.config import DataConfig, LogConfig, RunConfig
from pe_jax.runs.warm_start import WarmStart
from pe_jax.spec.advice import advice
from pe_jax.spec.parse import identity, label, make, parse, sources
from pe_jax.storage.hashes import sha256
from pe_jax.training import mesh
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import structure

SECTIONS = {
    "lm": LmConfig,
    "train": TrainConfig,
    "eval": EvalConfig,
    "data": DataConfig,
    "run": RunConfig,
    "log": LogConfig,
}
"""Beside these a config has the section `pe`: the spec of the encodings, and for each member its
fields.
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """A config with everything checked that can be checked without reading text."""

    config: dict[str, Any]
    label: str
    """Its name in tables: the spec, with the memory it is trained with and the run it starts from.
    """
    id: str
    """The label and a hash of all that decides the run's numbers; the name of its folder."""
    encodings: tuple[Encoding, ...]
    lm: LmConfig
    train: TrainConfig
    eval: EvalConfig
    data: DataConfig
    run: RunConfig
    log: LogConfig
    start: WarmStart | None = None
    """The run whose parameters it starts from."""
    advice: tuple[str, ...] = ()
    """What is doubtful about its encodings (spec/advice.py)."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """From a dictionary with the sections pe, lm, train, eval, data, run and log, of which all
        but `pe` may be left out; {"pe": "rope"} is {"pe": {"spec": "rope"}}. ValueError, TypeError
        or OSError, as of a tokenizer.json that is not there, for what cannot be run.
        """
        config = _normal(config)
        spec, fields = _members(config["pe"])
        sections = {name: _section(name, config.get(name, {})) for name in SECTIONS}
        lm, train, data, run = (sections[name] for name in ("lm", "train", "data", "run"))
        _check_predicts(lm)
        _check_mesh(run, train)
        vocab = max(lm.vocab, tokenizer.vocabulary(data.tokenizer))
        lm = sections["lm"] = dataclasses.replace(lm, vocab=vocab)
        evaluation = sections["eval"] = sections["eval"].resolved(train.length, lm.memory)
        encodings = make(spec, lm.dims(train.length), fields)
        _check_memory(lm, encodings, train)
        passes.check(encodings, evaluation, train.length)
        start = None
        if train.init_from:
            start = WarmStart.of(train, lm, spec, encodings, run.seeds)
        name = _label(spec, fields, lm, start)
        files = sources("+".join((spec, *evaluation.swaps))) | tokenizer.sources(data.tokenizer)
        return cls(
            config=config,
            label=name,
            id=run_id(name, _identity(config, files, start)),
            encodings=encodings,
            **sections,
            start=start,
            advice=tuple(advice(encodings, [member.id for member in parse(spec)])),
        )

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Seeds that train in one program."""
        return self.run.groups

    def parameters(self) -> Parameters:
        """How many numbers one seed learns."""
        _, shapes = structure(self.lm, self.encodings)
        sizes = {name: sum(a.size for a in jax.tree.leaves(part)) for name, part in shapes.items()}
        encoding = sizes.pop("shared", 0) + sizes.pop("owned", 0)
        for e in self.encodings:  # of whose parameters some may be fixed: drawn, and not learned
            shared, owned = jax.eval_shape(functools.partial(init_params, e), jax.random.key(0))
            drawn = (shared, *owned.values())
            encoding -= sum(part[name].size for part in drawn for name in e.fixed if name in part)
        return Parameters(total=sum(sizes.values()) + encoding, encoding=encoding)

    def load(self) -> tokenizer.Tokens:
        """The corpus in tokens; Refused if it lacks what training and evaluation ask for."""
        try:
            corpus = load(self.data.source, self.data.data_dir)
            tokens = tokenizer.tokenize(corpus, self.data.tokenizer)
            if self.start:
                self.start.check(tokens.tokenizer)
            self._check_batches(tokens.splits["train"])
            check_room(tokens.splits[self.eval.split], self.eval)
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error
        return tokens

    def _check_batches(self, documents: Sequence[np.ndarray]) -> None:
        """ValueError if the training text is shorter than a batch."""
        batches.batches(documents, self.train.length, self.train.batch, self.run.seeds[0])


def run_id(label: str, identity: Mapping[str, Any]) -> str:
    """The label as a file name, "-" and the first 8 digits of the SHA-256 of `identity`."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", label.rpartition("/")[2]).strip("_")[:60]
    return f"{name}-{sha256(canonical(identity))[:8]}"


def _normal(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with `pe` as a section. ValueError for a section that is unknown or no dictionary,
    and without pe.spec.
    """
    _check_known("the config", config, ["pe", *SECTIONS])
    pe = config.get("pe", {})
    config = {**config, "pe": {"spec": pe} if isinstance(pe, str) else pe}
    for name, section in config.items():
        if not isinstance(section, Mapping):
            raise ValueError(
                f"config.{name} must be a section, a dictionary of fields, got {section!r}"
            )
    if not config["pe"].get("spec"):
        raise ValueError(
            "the config has no pe.spec, which names the encodings; see configs/base.py"
        )
    return config


def _section(name: str, values: Mapping[str, Any]) -> Any:
    """A section as its dataclass, which checks it; lists, as JSON has them, become tuples."""
    kind = SECTIONS[name]
    _check_known(f"config.{name}", values, [field.name for field in dataclasses.fields(kind)])
    return kind(**_tuples(values))


def _members(section: Mapping[str, Any]) -> tuple[str, dict[str, dict[str, Any]]]:
    """The spec of the section `pe`, and the fields that it sets, by the member's id."""
    fields = {id: values for id, values in section.items() if id != "spec"}
    for id, values in fields.items():
        if not isinstance(values, Mapping):
            raise ValueError(
                f"config.pe.{id} must be a section, a dictionary of fields, got {values!r}"
            )
    return section["spec"], {id: _tuples(values) for id, values in fields.items()}


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with lists as tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}


def _check_known(where: str, given: Mapping[str, Any], names: list[str]) -> None:
    """ValueError for a name in `given` that is not among `names`, with the nearest one."""
    for name in given:
        if name not in names:
            raise ValueError(
                f"{where} has no {name!r}{nearest(name, names)} It has {', '.join(names)}."
            )


def _check_predicts(lm: LmConfig) -> None:
    """ValueError unless the model can be trained to predict the next byte."""
    if lm.vocab < 256:
        raise ValueError(f"lm.vocab must be at least 256, since text is bytes, got {lm.vocab}")
    if not lm.causal:
        raise ValueError(
            "lm.causal=False would let a language model see what it predicts; use True"
        )


def _check_mesh(run: RunConfig, train: TrainConfig) -> None:
    """ValueError unless the devices can share out the seeds of one program and a batch."""
    mesh.check(run.mesh, len(run.groups[0]), train.batch)


def _check_memory(lm: LmConfig, encodings: Sequence[Encoding], train: TrainConfig) -> None:
    """ValueError unless the encodings can be trained with the segment memory of lm.memory."""
    if lm.memory:
        memory.check(encodings, lm.memory, train.length)


def _label(
    spec: str, fields: Mapping[str, Mapping[str, Any]], lm: LmConfig, start: WarmStart | None
) -> str:
    """Run.label."""
    name = label(spec, fields)
    if lm.memory:
        name = f"{name} trained with memory {lm.memory}"
    return f"{name} from {start.label}" if start else name


def _identity(config: Mapping[str, Any], files: Mapping[str, str], start: WarmStart | None):
    """What a run's id is made of: its config without what changes no number, and the hashes of the
    files that it names.
    """
    parts = {k: v for k, v in config.items() if k != "log"} | {"sources": files}
    parts["pe"] = identity(config["pe"])
    parts["run"] = {k: v for k, v in config.get("run", {}).items() if k != "mesh"}
    if start:  # what the parent is, wherever it lies
        parts["train"] = config["train"] | {"init_from": start.identity}
    return parts
