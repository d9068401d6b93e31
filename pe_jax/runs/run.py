"""What one run is: its config in sections, each with its defaults, all of it checked. execute.py
carries it out.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pe_jax import metric
from pe_jax.compose.advice import advice
from pe_jax.compose.parse import Spec, parse, sources
from pe_jax.data import batches, tokenizer
from pe_jax.data.corpus import SPLITS, Corpus
from pe_jax.data.load import load
from pe_jax.encoding import Encoding
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import plan
from pe_jax.evaluation.windows import windows
from pe_jax.model.config import LmConfig
from pe_jax.model.parameters import learned
from pe_jax.pretrained.source import Source
from pe_jax.record import Parameters, few
from pe_jax.runs import checks
from pe_jax.runs.config import (
    SECTIONS,
    DataConfig,
    LogConfig,
    RunConfig,
    members_of,
    section,
    users_files,
    whole_sections,
    with_tuples,
)
from pe_jax.runs.parents import completed
from pe_jax.runs.resources import Resources
from pe_jax.runs.start import Start
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.task import Task
from pe_jax.tasks import section as tasks
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import model_size


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """What one run is: a config with everything checked that can be checked without reading text,
    made by Run.of. Its repr says what it trains and scores; `config` has every value.
    """

    config: dict[str, Any]
    label: str
    """Its name in tables: the spec, with the memory it is trained with and what it starts from."""
    id: str
    """The label and a hash of all that decides what one seed learns; the name of its folder. What
    is evaluated, and how many seeds there are, is no part of it.
    """
    encodings: tuple[Encoding, ...]
    task: Task
    lm: LmConfig
    train: TrainConfig
    eval: EvalConfig
    data: DataConfig
    run: RunConfig
    log: LogConfig
    resources: Resources
    start: Start | None = None
    """The run or the pretrained model whose parameters it starts from."""
    advice: tuple[str, ...] = ()
    """What is doubtful about its encodings (compose/advice.py)."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """From a dictionary with the sections pe, task, lm, train, eval, data, run, log and
        resources, of which all but `pe` may be left out; {"pe": "rope"} is {"pe": {"spec": "rope"}}
        and {"task": "dyck"} is {"task": {"name": "dyck"}}. ValueError, TypeError or OSError, as of
        a tokenizer.json that is not there, for what cannot be run.
        """
        config = completed(whole_sections(config))
        spec, fields = members_of(config["pe"])
        sections = {name: section(name, config.get(name, {})) for name in SECTIONS}
        lm, train, data, run = (sections[name] for name in ("lm", "train", "data", "run"))
        members = parse(spec).with_fields(fields)
        whole = {"pe": members.section() | {"spec": spec}}
        whole |= {"task": tasks.whole(with_tuples(config["task"]))}
        whole |= {name: vars(section) for name, section in sections.items()}
        task = tasks.make(whole["task"], lm.causal)
        checks.predicts(task, lm, train)
        checks.devices(run, train)
        checks.reference(run, train, task)
        lm = sections["lm"] = dataclasses.replace(lm, vocab=_vocabulary(task, lm, data))
        evaluation = sections["eval"] = sections["eval"].resolved(train.length, lm.memory, task)
        whole["eval"] = whole["eval"] | {"metrics": evaluation.metrics}
        checks.users_metrics(evaluation.metrics, task)
        checks.users_task(task, whole["task"]["name"], train, evaluation.lengths)
        dims = lm.dims(task.size(train.length))
        encodings = members.encodings(dims)
        checks.users_hooks(members, evaluation.swaps, dims, lm)
        checks.parameters(encodings)
        checks.positions(encodings, [member.id for member in members])
        checks.segment_memory(lm, encodings, train)
        plan(encodings, evaluation, train.length, task)  # ValueError for an impossible one
        start = Start.of(train, lm, spec, encodings, run.seeds)
        checks.no_steps(train, evaluation, run)
        name = _label(members, lm, start)
        if start and not train.steps and encodings == parse(start.parent.spec).encodings(dims):
            name = start.parent.name
        trained_by = {
            "pe": members.section(),
            "lm": vars(lm),
            "train": _training(train, start),
            "vmap_seeds": run.vmap_seeds,
            **_learned_from(task, whole),
        }
        return cls(
            config=whole,
            label=name,
            id=run_id(name, trained_by),
            encodings=encodings,
            task=task,
            **sections,
            start=start,
            advice=tuple(advice(encodings, [member.id for member in members])),
        )

    @classmethod
    def pretrained(
        cls, source: str, text: str, evaluation: Mapping[str, Any], trained: int | None = None
    ) -> Run:
        """The run of no steps that scores the pretrained model hf:DIR or gguf:PATH on a text, named
        as in data.source, place by place, with these fields of section `eval`; as if it had been
        `trained` at so many tokens, if not None. Raises as `of`.
        """
        length = {} if trained is None else {"length": trained}
        return cls.of(
            {
                "pe": {"spec": Source.of(source).about.spec},
                "train": {"init_from": source, "steps": 0, **length},
                "eval": {"split": "all", "by": "place", "batch_tokens": 1, **evaluation},
                "data": {"source": text},
            }
        )

    def sources(self) -> dict[str, str]:
        """SHA-256 of each file outside the package that trains or scores the run."""
        return users_files(self.config) | self.scoring_sources()

    def scoring_sources(self) -> dict[str, str]:
        """SHA-256 of each file outside the package that a swap or a metric of the run is in."""
        return sources(*self.eval.swaps) | metric.sources(self.eval.metrics)

    def __repr__(self) -> str:
        task = self.data.source if self.task.reads_text else tasks.described(self.config["task"])
        more = f", swaps {few(self.eval.swaps)}" if self.eval.swaps else ""
        return (
            f"Run {self.id}: {self.label}, {self.parameters().total:,} parameters\n"
            f"  trains {self.train.steps:,} steps at length {self.train.length} on {task}, "
            f"seeds {few(self.run.seeds)}\n"
            f"  scores lengths {few(self.eval.lengths)} by {few(self.eval.metrics)}{more}"
        )

    def at_rate(self, rate: float) -> Run:
        """The same run at one learning rate."""
        train = self.config["train"] | {"rate": rate, "rates": ()}
        return Run.of(self.config | {"train": train})

    def parameters(self) -> Parameters:
        """How many numbers one seed learns."""
        return _parameters(self.lm, self.encodings)

    def load(self) -> tokenizer.Tokens:
        """The text of training in tokens, none where the task draws its samples; Refused if it
        lacks what training and, unless eval.source names other text, evaluation ask for.
        """
        if not self.task.reads_text:
            section = self.config["task"]
            identity = canonical([section, tasks.sources(section)])
            return tokenizer.no_text(tasks.described(section), identity, self.task.vocab())
        try:
            corpus = load(self.data.source, self.data.data_dir)
            seen = corpus if self.train.steps else None  # else nothing is trained on any of it
            tokens = tokenizer.tokenize(corpus, self.data.tokenizer, seen)
            if self.start:
                self.start.check(tokens.tokenizer)
            if self.train.steps:
                self._check_batches(tokens.splits["train"])
            if not self.eval.source:
                self._check_windows(tokens)
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error
        return tokens

    def load_scored(self, tokens_of: tokenizer.Tokenizer, trained_on: str) -> tokenizer.Tokens:
        """The text that is evaluated, in the tokens of training; Refused if it is too short. Its
        overlap is measured with the training text, whose hash is `trained_on`, if that is there. As
        `load` where the task draws its samples.
        """
        if not self.task.reads_text:
            return self.load()
        try:
            corpus = load(self.eval.source or self.data.source, self.data.data_dir)
            seen = self._training_text(trained_on) if self.eval.source else corpus
            tokens = tokenizer.cut(corpus, tokens_of, seen)
            self._check_windows(tokens)
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error
        return tokens

    def scored(self, text: tokenizer.Tokens) -> tuple[np.ndarray, ...]:
        """The documents of a text that are scored."""
        names = SPLITS if self.eval.split == "all" else (self.eval.split,)
        return tuple(document for name in names for document in text.splits[name])

    def _check_windows(self, text: tokenizer.Tokens) -> None:
        """ValueError where the text is too short for a metric at one of the lengths."""
        for name in self.eval.metrics:
            prompts = isinstance(metric.named(name), metric.PromptMetric)
            asked = dataclasses.replace(self.eval, samples=1) if prompts else self.eval
            for length in self.eval.lengths:
                windows(self.scored(text), name, length, asked, text.tokenizer)

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
    encoding = sum(map(learned, encodings))
    return Parameters(total=model_size(lm) + encoding, encoding=encoding)


def run_id(label: str, identity: Mapping[str, Any]) -> str:
    """The label as a file name, "-" and the first 8 digits of the SHA-256 of `identity`."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", label.rpartition("/")[2]).strip("_")[:60]
    return f"{name}-{sha256(canonical(identity))[:8]}"


def _vocabulary(task: Task, lm: LmConfig, data: DataConfig) -> int:
    """The number of tokens: those of the task, or of text at least those of the tokenizer."""
    if task.reads_text:
        return max(lm.vocab, tokenizer.vocabulary(data.tokenizer))
    return task.vocab()


def _label(members: Spec, lm: LmConfig, start: Start | None) -> str:
    """Run.label."""
    name = str(members)
    if lm.memory:
        name = f"{name} trained with memory {lm.memory}"
    return f"{name} from {start.label}" if start else name


def _learned_from(task: Task, config: dict[str, Any]) -> dict[str, Any]:
    """What a seed learns from, text or samples."""
    if task.reads_text:
        data = config["data"]
        if data["tokenizer"] == config["train"]["init_from"]:  # the model's own, wherever it lies
            return {"data": data | {"tokenizer": "own"}, "sources": users_files(config)}
        files = users_files(config) | tokenizer.sources(data["tokenizer"])
        return {"data": data, "sources": files}
    drawn = {"task": config["task"], "curriculum": config["train"]["curriculum"]}
    return drawn | {"sources": users_files(config)}


def _training(train: TrainConfig, start: Start | None) -> dict[str, Any]:
    """What of section `train` decides what a seed learns. Of train.rates only that one of them is
    chosen: their list may grow.
    """
    parts = {
        name: value
        for name, value in vars(train).items()
        if name not in ("remat", "scan", "curriculum")
    }
    parts |= {"rate": None, "rates": "chosen"} if train.rates else {}
    # what the parent is, wherever it lies
    return parts | ({"init_from": start.identity} if start else {})
