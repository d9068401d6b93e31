"""What one run is: its config in sections, completed by defaults and checked, without reading text.
execute.py carries the run out.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct

from pe_jax import contract
from pe_jax.attention.bound import fold_positions
from pe_jax.data import batches, tokenizer
from pe_jax.data.corpus import SPLITS, Corpus
from pe_jax.data.load import load
from pe_jax.encoding import Dims, Encoding
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig, variant
from pe_jax.evaluation.evaluate import cuts_of
from pe_jax.evaluation.passes import plan
from pe_jax.evaluation.windows import Windows
from pe_jax.fields import check_value
from pe_jax.metric import Predictions, SampleMetric, TextMetric
from pe_jax.metrics import named
from pe_jax.model import memory, probe
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.model.lm import learned
from pe_jax.pretrained.source import Source
from pe_jax.record import HELD_OUT, Parameters, few
from pe_jax.runs import environment
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
from pe_jax.runs.resources import Resources
from pe_jax.runs.start import Start, completed
from pe_jax.specs import hooks
from pe_jax.specs.parse import Spec, parse, sources
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.task import Task
from pe_jax.tasks import TASKS, oracle
from pe_jax.tasks import section as tasks
from pe_jax.training import mesh, samples
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import model_size


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A run, made by Run.of. Its repr says what it trains and scores; `config` has every value."""

    config: dict[str, Any]
    label: str
    """Its name in tables: the spec, with the memory it is trained with and the label of its parent.
    """
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
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of each user's file that trains it, as it was when the run was made."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """From a dictionary with the sections pe, task, lm, train, eval, data, run, log and
        resources, of which all but `pe` may be left out; {"pe": "rope"} is {"pe": {"spec": "rope"}}
        and {"task": "dyck"} is {"task": {"name": "dyck"}}. ValueError, TypeError or OSError for a
        config that cannot be run, as where its tokenizer.json is not there.
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
        _check_task(task, lm, train)
        mesh.check(run.mesh, len(run.groups(run.seeds)[0]), train.batch)
        _check_reference(run, train, task)
        lm = sections["lm"] = dataclasses.replace(lm, vocab=_vocabulary(task, lm, data))
        evaluation = sections["eval"] = sections["eval"].resolved(train.length, lm.memory, task)
        whole["eval"] = whole["eval"] | {"metrics": evaluation.metrics}
        _check_users_metrics(evaluation.metrics, task)
        _check_users_task(task, whole["task"]["name"], train, evaluation)
        dims = lm.dims(task.size(train.length))
        encodings = members.encodings(dims)
        check_users_hooks(members, evaluation.swaps, dims, lm)
        for encoding in encodings:
            if encoding.per_layer:
                learned(encoding)  # ValueError unless layers can own these parameters
        if lm.memory:
            memory.check(encodings, lm.memory, train.length)
        plan(encodings, evaluation, train.length, task)  # ValueError for an impossible one
        start = Start.of(train, lm, spec, encodings, run.seeds)
        _check_no_steps(train, evaluation, run)
        name = _label(members, lm, start)
        if start and not train.steps and encodings == parse(start.parent.spec).encodings(dims):
            name = start.parent.name
        trained_by = {
            "pe": members.section(),
            "lm": vars(lm),
            "train": _train_identity(train, start),
            "vmap_seeds": run.vmap_seeds,
            **_data_identity(task, whole),
        }
        return cls(
            config=whole,
            label=name,
            id=run_id(name, trained_by),
            encodings=encodings,
            task=task,
            **sections,
            start=start,
            files=users_files(whole),
        )

    @classmethod
    def pretrained(
        cls, source: str, text: str, evaluation: Mapping[str, Any], trained: int | None = None
    ) -> Run:
        """The run of no steps that scores the pretrained model hf:DIR or gguf:PATH place by place
        on a text, named as in data.source, with these fields of section `eval`. `trained` is the
        training length; None: the model's own. Raises as `of`.
        """
        length = {} if trained is None else {"length": trained}
        return cls.of(
            {
                "pe": {"spec": str(Source.of(source).about.spec)},
                "train": {"init_from": source, "steps": 0, **length},
                "eval": {
                    "split": "all",
                    "by": "place",
                    "batch_tokens": 1,
                    "reference": trained,
                    **evaluation,
                },
                "data": {"source": text},
            }
        )

    def asked(self) -> str:
        """A digest of what is asked for besides seeds and what decides the id: the evaluation, the
        rates and the users' files. "" where such a file has gone, or is broken.
        """
        try:
            sources = self.sources()
        except (OSError, ValueError):
            return ""
        return sha256(canonical([vars(self.eval), self.train.rates, self.run.oracle_of, sources]))

    def sources(self) -> dict[str, str]:
        """SHA-256 of each user's file that trains or scores the run."""
        scoring = sources(*self.eval.swaps) | contract.sources(*self.eval.metrics)
        return scoring | self.files

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
        """The same run at one learning rate. Refused if a file that trains it has changed."""
        train = self.config["train"] | {"rate": rate, "rates": ()}
        made = Run.of(self.config | {"train": train})
        if changed := made.files.items() - self.files.items():
            raise Refused(
                f"{min(changed)[0]} has changed since the run began, and the rates would be those "
                "of different code: restore the file, or give the same command again, which is "
                "another run"
            )
        return made

    def parameters(self) -> Parameters:
        """How many numbers one seed learns."""
        return _parameters(self.lm, self.encodings)

    def load(self) -> Text:
        """The text of training, and the windows that are scored. Refused if one of them is too
        short.
        """
        if not self.task.reads_text:
            task = self.config["task"]
            identity = canonical([task, contract.sources(task["name"])])
            tokens = tokenizer.no_text(tasks.described(task), identity, self.task.vocab())
            return Text(tokens, tokens, {})
        try:
            corpus = load(self.data.source, self.data.data_dir)
            seen = corpus if self.train.steps else None  # else nothing is trained on any of it
            tokens = tokenizer.tokenize(corpus, self.data.tokenizer, seen)
            if self.start:
                self.start.check(tokens.tokenizer)
            if self.train.steps:  # ValueError if the text is shorter than a batch
                seed = self.run.seeds[0]
                batches.Batches(tokens.splits["train"], self.train.length, self.train.batch, seed)
            scored = tokens
            if self.eval.source:
                other = load(self.eval.source, self.data.data_dir)
                scored = self._in_tokens(other, tokens.tokenizer, corpus)
            return Text(tokens, scored, self._windows(scored))
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error

    def load_scored(self, tokens_of: tokenizer.Tokenizer, trained_on: str) -> Text:
        """The text that is scored, in the tokens of training; Refused if it is too short. Its
        overlap with the training text, whose hash is `trained_on`, is measured if that is there.
        """
        if not self.task.reads_text:
            return self.load()
        try:
            corpus = load(self.eval.source or self.data.source, self.data.data_dir)
            seen = self._training_text(trained_on) if self.eval.source else corpus
            scored = self._in_tokens(corpus, tokens_of, seen)
            return Text(scored, scored, self._windows(scored))
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error

    def _in_tokens(
        self, corpus: Corpus, tokens_of: tokenizer.Tokenizer, seen: Corpus | None
    ) -> tokenizer.Tokens:
        compared = SPLITS if self.eval.source and self.eval.split == "all" else HELD_OUT
        return tokenizer.cut(corpus, tokens_of, seen if self.train.steps else None, compared)

    def _windows(self, text: tokenizer.Tokens) -> dict[tuple[str, int], Windows]:
        splits = SPLITS if self.eval.split == "all" else (self.eval.split,)
        documents = [document for split in splits for document in text.splits[split]]
        return cuts_of(documents, self.eval, text.tokenizer)

    def _training_text(self, hash: str) -> Corpus | None:
        """The text of training; None where it is gone, or has changed since."""
        try:
            corpus = load(self.data.source, self.data.data_dir)
        except (ValueError, OSError):
            return None
        return corpus if corpus.hash == hash else None


class Text(NamedTuple):
    """The text of training, the text that is scored, and its windows by metric and length; a task
    that draws its samples has none.
    """

    trained: tokenizer.Tokens
    scored: tokenizer.Tokens
    windows: dict[tuple[str, int], Windows]


# The name of a run


def run_id(label: str, identity: Mapping[str, Any]) -> str:
    """The label as a file name, "-" and the first 8 digits of the SHA-256 of `identity`."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", label.rpartition("/")[2]).strip("_")[:60]
    return f"{name}-{sha256(canonical(identity))[:8]}"


def _label(members: Spec, lm: LmConfig, start: Start | None) -> str:
    """The label of the run (`Run.label`)."""
    name = str(members)
    if lm.memory:
        name = f"{name} trained with memory {lm.memory}"
    return f"{name} from {start.parent.label}" if start else name


def _train_identity(train: TrainConfig, start: Start | None) -> dict[str, Any]:
    """The part of section `train` that decides what a seed learns. Of train.rates only that one of
    them is chosen: their list may grow.
    """
    left_out = "remat", "scan", "curriculum", "loss"
    parts = {name: value for name, value in vars(train).items() if name not in left_out}
    parts |= {"rate": None, "rates": "chosen"} if train.rates else {}
    return parts | ({"init_from": start.parent.identity} if start else {})


def _data_identity(task: Task, config: dict[str, Any]) -> dict[str, Any]:
    """The text or the samples that a seed learns from."""
    files, data = {"sources": users_files(config)}, config["data"]
    if not task.reads_text:
        drawn = {"task": config["task"], "curriculum": config["train"]["curriculum"], **files}
        return drawn | ({"loss": "all"} if config["train"]["loss"] == "all" else {})
    if data["tokenizer"] == config["train"]["init_from"]:  # the model's own, wherever it lies
        return {"data": data | {"tokenizer": "own"}, **files}
    return {"data": data, "sources": files["sources"] | tokenizer.sources(data["tokenizer"])}


# The size of a model


def _vocabulary(task: Task, lm: LmConfig, data: DataConfig) -> int:
    """How many tokens the model has: the task's, or with text lm.vocab and at least the
    tokenizer's.
    """
    if task.reads_text:
        return max(lm.vocab, tokenizer.vocabulary(data.tokenizer))
    return task.vocab()


@functools.cache  # a sweep of a thousand learning rates has one model
def _parameters(lm: LmConfig, encodings: tuple[Encoding, ...]) -> Parameters:
    """How many numbers one seed of this model learns."""
    encoding = sum(map(learned, encodings))
    return Parameters(total=model_size(lm) + encoding, encoding=encoding)


# Checks that Run.of makes


def check_users_hooks(members: Spec, swaps: Sequence[str], dims: Dims, lm: LmConfig) -> None:
    """ValueError for a wrong hook of a user's own encoding, such as one that reads later tokens in
    a causal model; the encodings that are swapped in are checked, too.
    """
    for spec in (members, *map(parse, swaps)):
        names = [member.name for member in spec]
        encodings = spec.encodings(dims)
        hooks.check(encodings, names, DTYPES[lm.dtype])
        if any(":" in name for name in names):
            environment.keep_programs()  # before the first program, as below
            probe.check(encodings, names)
            _check_positions_are_shared(encodings, dims)


def _check_positions_are_shared(encodings: tuple[Encoding, ...], dims: Dims) -> None:
    """TypeError for an encoding that reads the tokens in `positions` and is not `per_sequence`."""
    L = dims.train_len
    tokens, pos = ShapeDtypeStruct((2, L), jnp.int32), ShapeDtypeStruct((L,), jnp.int32)
    for train in (True, False):
        fold = functools.partial(fold_positions, encodings, key=jax.random.key(0), train=train)
        jax.eval_shape(fold, tokens, pos)


def _check_task(task: Task, lm: LmConfig, train: TrainConfig) -> None:
    """ValueError unless the model can be trained on the task."""
    samples.parts(task, train)
    if train.loss == "all" and not lm.causal:
        raise ValueError(
            "train.loss=all has each token predict the next, which a model with lm.causal=False "
            "sees: use lm.causal=True or train.loss=scored"
        )
    if task.reads_text and lm.vocab < 256:
        raise ValueError(f"lm.vocab must be at least 256, since text is bytes, got {lm.vocab}")


def _check_reference(run: RunConfig, train: TrainConfig, task: Task) -> None:
    """ValueError unless a run with run.oracle_of reads text, and has a longer training length."""
    if run.oracle_of and (run.oracle_of >= train.length or not task.reads_text):
        raise ValueError(
            f"run.oracle_of must be below train.length, {train.length}, and of text, got "
            f"{run.oracle_of}: it is the training length of the runs beside which a report shows "
            "this run"
        )


def _check_users_metrics(names: Sequence[str], task: Task) -> None:
    """ValueError if a user's own metric raises, or gives no number, for two tokens or samples."""
    for name in (name for name in names if ":" in name):
        own = named(name, TextMetric if task.reads_text else SampleMetric)
        nats = np.array([[0.5], [2.0]])
        predictions = Predictions(np.ones((2, 1), bool), nats < 1, nats, nats, nats, nats)
        scored: Any = (nats[:, 0], np.array([1, 3])) if task.reads_text else (predictions,)
        check_value(own.value(*scored), float, f"the value of {name}")


def _check_users_task(task: Task, name: str, train: TrainConfig, evaluation: EvalConfig) -> None:
    """ValueError if a user's own task that draws its samples, or one of its variants, raises or
    gives lists of a wrong length, or if one of a hundred samples, of lengths from the shortest of
    training to the longest of evaluation, contradicts its oracle or its Bayes-optimal prediction,
    where it has one.
    """
    if type(task) in TASKS.values() or task.reads_text:
        return
    knows = type(task).oracle is not Task.oracle or type(task).bayes is not Task.bayes
    environment.keep_programs()  # before the first program, which decides whether JAX keeps any
    trained = (n for part in samples.parts(task, train) for n in part)
    lengths = {"": sorted({*trained, *evaluation.lengths})}
    lengths |= {text: sorted(evaluation.lengths) for text in evaluation.variants}
    for text, every in lengths.items():
        spread = {every[i] for i in np.linspace(0, len(every) - 1, 10).astype(int)}
        with contract.calling(f"{name}{text and f', {text}'}", name):
            made = variant(task, text) if text else task
            oracle.check_lists(made, (every[0], every[-1]))
            if knows:
                oracle.check(made, tuple(sorted(spread)), -(-100 // len(spread)))


def _check_no_steps(train: TrainConfig, evaluation: EvalConfig, run: RunConfig) -> None:
    """ValueError for no steps without train.init_from, for rates of no steps, and for eval.by=place
    of several seeds.
    """
    if not train.steps and not train.init_from:
        raise ValueError(
            "train.steps=0 trains nothing: name by train.init_from the model that is scored, or "
            "give train.steps"
        )
    if not train.steps and train.rates:
        raise ValueError(
            "train.rates are tried in training, and train.steps=0 trains nothing: leave them out"
        )
    if evaluation.by == "place" and len(run.seeds) > 1:
        raise ValueError(
            f"eval.by=place scores one model, got {len(run.seeds)} seeds: set run.seeds to one"
        )
