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
from pe_jax.data.corpus import Corpus
from pe_jax.data.load import load
from pe_jax.encoding import Encoding
from pe_jax.errors import Refused
from pe_jax.evaluation import passes
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.windows import check_room
from pe_jax.model import memory
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.model.parameters import init_params
from pe_jax.record import Parameters
from pe_jax.runs.config import DataConfig, LogConfig, RunConfig
from pe_jax.runs.resources import Resources
from pe_jax.runs.sections import SECTIONS, members_of, section, whole_sections
from pe_jax.runs.warm_start import WarmStart
from pe_jax.spec import hooks
from pe_jax.spec.advice import advice
from pe_jax.spec.parse import Spec, parse, sources
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.training import mesh
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import structure


@dataclasses.dataclass(frozen=True)
class Run:
    """A config with everything checked that can be checked without reading text."""

    config: dict[str, Any]
    label: str
    """Its name in tables: the spec, with the memory it is trained with and the run it starts from.
    """
    id: str
    """The label and a hash of all that decides what one seed learns; the name of its folder. What
    is evaluated, and how many seeds there are, is no part of it.
    """
    encodings: tuple[Encoding, ...]
    lm: LmConfig
    train: TrainConfig
    eval: EvalConfig
    data: DataConfig
    run: RunConfig
    log: LogConfig
    resources: Resources
    start: WarmStart | None = None
    """The run whose parameters it starts from."""
    advice: tuple[str, ...] = ()
    """What is doubtful about its encodings (spec/advice.py)."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """From a dictionary with the sections pe, lm, train, eval, data, run, log and resources, of
        which all but `pe` may be left out; {"pe": "rope"} is {"pe": {"spec": "rope"}}. ValueError,
        TypeError or OSError, as of a tokenizer.json that is not there, for what cannot be run.
        """
        config = whole_sections(config)
        spec, fields = members_of(config["pe"])
        sections = {name: section(name, config.get(name, {})) for name in SECTIONS}
        lm, train, data, run = (sections[name] for name in ("lm", "train", "data", "run"))
        members = parse(spec).with_fields(fields)
        whole = {"pe": members.section() | {"spec": spec}}
        whole |= {name: vars(section) for name, section in sections.items()}
        _check_predicts(lm)
        _check_mesh(run, train)
        vocab = max(lm.vocab, tokenizer.vocabulary(data.tokenizer))
        lm = sections["lm"] = dataclasses.replace(lm, vocab=vocab)
        evaluation = sections["eval"] = sections["eval"].resolved(train.length, lm.memory)
        encodings = members.encodings(lm.dims(train.length))
        _check_hooks(members, evaluation.swaps, lm, train)
        _check_memory(lm, encodings, train)
        passes.check(encodings, evaluation, train.length)
        start = None
        if train.init_from:
            start = WarmStart.of(train, lm, spec, encodings, run.seeds)
        name = _label(members, lm, start)
        trained_by = {
            "pe": members.section(),
            "lm": vars(lm),
            "train": _training(train, start),
            "data": vars(data),
            "vmap_seeds": run.vmap_seeds,
            "sources": sources(spec) | tokenizer.sources(data.tokenizer),
        }
        return cls(
            config=whole,
            label=name,
            id=run_id(name, trained_by),
            encodings=encodings,
            **sections,
            start=start,
            advice=tuple(advice(encodings, [member.id for member in members])),
        )

    def at_rate(self, rate: float, seeds: Sequence[int]) -> Run:
        """The same run of these seeds at one of its train.rates."""
        train = self.config["train"] | {"rate": rate, "rates": ()}
        seeds_of = self.config["run"] | {"seeds": tuple(seeds), "choose_seeds": ()}
        return Run.of(self.config | {"train": train, "run": seeds_of})

    def parameters(self) -> Parameters:
        """How many numbers one seed learns."""
        return _parameters(self.lm, self.encodings)

    def load(self) -> tokenizer.Tokens:
        """The text of training in tokens; Refused if it lacks what training and, unless eval.source
        names other text, evaluation ask for.
        """
        try:
            corpus = load(self.data.source, self.data.data_dir)
            tokens = tokenizer.tokenize(corpus, self.data.tokenizer)
            if self.start:
                self.start.check(tokens.tokenizer)
            self._check_batches(tokens.splits["train"])
            if not self.eval.source:
                check_room(tokens.splits[self.eval.split], self.eval)
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error
        return tokens

    def load_scored(self, tokens_of: tokenizer.Tokenizer, trained_on: str) -> tokenizer.Tokens:
        """The text that is evaluated, in the tokens of training; Refused if it is too short. Its
        overlap is measured with the training text, whose hash is `trained_on`, if that is there.
        """
        try:
            corpus = load(self.eval.source or self.data.source, self.data.data_dir)
            seen = self._training_text(trained_on) if self.eval.source else corpus
            tokens = tokenizer.cut(corpus, tokens_of, seen)
            check_room(tokens.splits[self.eval.split], self.eval)
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error
        return tokens

    def _training_text(self, hash: str) -> Corpus | None:
        """The text of training; None where it is gone, or has changed since."""
        try:
            corpus = load(self.data.source, self.data.data_dir)
        except (ValueError, OSError):
            return None
        return corpus if corpus.hash == hash else None

    def _check_batches(self, documents: Sequence[np.ndarray]) -> None:
        """ValueError if the training text is shorter than a batch."""
        batches.batches(documents, self.train.length, self.train.batch, self.run.seeds[0])


@functools.cache  # a sweep of a thousand learning rates has one model
def _parameters(lm: LmConfig, encodings: tuple[Encoding, ...]) -> Parameters:
    """How many numbers one seed of this model learns."""
    _, shapes = structure(lm, encodings)
    sizes = {name: sum(a.size for a in jax.tree.leaves(part)) for name, part in shapes.items()}
    encoding = sizes.pop("shared", 0) + sizes.pop("owned", 0)
    for e in encodings:  # of whose parameters some may be fixed: drawn, and not learned
        shared, owned = jax.eval_shape(functools.partial(init_params, e), jax.random.key(0))
        drawn = (shared, *owned.values())
        encoding -= sum(part[name].size for part in drawn for name in e.fixed if name in part)
    return Parameters(total=sum(sizes.values()) + encoding, encoding=encoding)


def run_id(label: str, identity: Mapping[str, Any]) -> str:
    """The label as a file name, "-" and the first 8 digits of the SHA-256 of `identity`."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", label.rpartition("/")[2]).strip("_")[:60]
    return f"{name}-{sha256(canonical(identity))[:8]}"


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
    mesh.check(run.mesh, len(run.groups(run.seeds)[0]), train.batch)


def _check_hooks(members: Spec, swaps: Sequence[str], lm: LmConfig, train: TrainConfig) -> None:
    """ValueError for a wrong hook of a user's own encoding, also of one that is swapped in."""
    for spec in (members, *map(parse, swaps)):
        names = [member.name for member in spec]
        hooks.check(spec.encodings(lm.dims(train.length)), names, DTYPES[lm.dtype])


def _check_memory(lm: LmConfig, encodings: Sequence[Encoding], train: TrainConfig) -> None:
    """ValueError unless the encodings can be trained with the segment memory of lm.memory."""
    if lm.memory:
        memory.check(encodings, lm.memory, train.length)


def _label(members: Spec, lm: LmConfig, start: WarmStart | None) -> str:
    """Run.label."""
    name = str(members)
    if lm.memory:
        name = f"{name} trained with memory {lm.memory}"
    return f"{name} from {start.label}" if start else name


def _training(train: TrainConfig, start: WarmStart | None) -> dict[str, Any]:
    """What of section `train` decides what a seed learns. Rates that are chosen among may grow."""
    parts = {name: value for name, value in vars(train).items() if name != "remat"}
    parts |= {"rate": None, "rates": "chosen"} if train.rates else {}
    # what the parent is, wherever it lies
    return parts | ({"init_from": start.identity} if start else {})
