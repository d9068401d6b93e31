"""A run: its config in sections, completed by defaults and checked, without reading text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax.encoding import Encoding
from pe_jax.evaluation.passes import plan
from pe_jax.model import memory
from pe_jax.pretrained.source import Source
from pe_jax.record import Parameters, few
from pe_jax.runs import identity, text, users
from pe_jax.runs.completion import completed
from pe_jax.runs.config import (
    DataConfig,
    EvalConfig,
    LmConfig,
    LogConfig,
    Resources,
    RunConfig,
    TrainConfig,
    checked,
    users_files,
    whole_sections,
)
from pe_jax.runs.init_from import InitFrom
from pe_jax.runs.text import Text
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.task import Task
from pe_jax.tasks import section as tasks


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A run, made by Run.of. Its repr says what it trains and scores; `config` has every value."""

    config: dict[str, Any]
    label: str
    """Its name in tables: the spec, with the memory it is trained with and the label of the
    checkpoint it starts from.
    """
    id: str
    """The label and a hash of all that decides what one seed learns; the name of its folder.
    Evaluation and the number of seeds are no part of it.
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
    init_from: InitFrom | None = None
    """The checkpoint whose parameters it starts from."""
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of each user's file that trains it, as it was when the run was made."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """From a dictionary with the sections pe, task, lm, train, eval, data, run, log and
        resources; all but `pe` may be left out; {"pe": "rope"} is {"pe": {"spec": "rope"}}
        and {"task": "dyck"} is {"task": {"name": "dyck"}}. ValueError, TypeError or OSError for a
        config that cannot be run, as where its tokenizer.json is not there. Several `train.rates`
        are several runs (runs/rates.py).
        """
        whole = checked(completed(whole_sections(config)))
        lm, train, evaluation, run = (whole.sections[n] for n in ("lm", "train", "eval", "run"))
        if train.rates:
            raise ValueError(
                f"a run has one learning rate, and train.rates has {len(train.rates)}: give "
                "train.rate, or runs.rates.runs_of(config)"
            )
        users.check_users_metrics(evaluation.metrics)
        users.check_users_task(whole.task, whole.config["task"]["name"], train, evaluation)
        dims = lm.dims(whole.task.size(train.length))
        encodings = whole.members.encodings(dims)
        users.check_users_hooks(whole.members, evaluation.swaps, dims, lm)
        identity.parameters(lm, encodings)  # ValueError unless layers can own these parameters
        if train.steps:
            memory.check(encodings, lm.memory, dims.train_len)
        plan(encodings, evaluation, train.length, whole.task)  # ValueError for an impossible one
        spec = whole.config["pe"]["spec"]
        init_from = InitFrom.of(train, lm, spec, encodings, run.seeds)
        label = identity.label(whole, encodings, init_from)
        return cls(
            config=whole.config,
            label=label,
            id=identity.run_id(label, whole, init_from),
            encodings=encodings,
            task=whole.task,
            **whole.sections,
            init_from=init_from,
            files=users_files(whole.config),
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

    def asked(self, rates: Sequence[float] = ()) -> str:
        """A digest of what is asked of the trained seeds: the evaluation, the users' files, and the
        rates that were tried. "" where such a file has gone, or is broken.
        """
        try:
            files = self.sources()
        except (OSError, ValueError):
            return ""
        return sha256(canonical([vars(self.eval), rates, self.run.oracle_of, files]))

    def sources(self) -> dict[str, str]:
        """SHA-256 of each user's file that trains or scores the run."""
        return self.files | users.scoring_files(self.eval.swaps, self.eval.metrics)

    def __repr__(self) -> str:
        task = self.data.source if self.task.reads_text else tasks.described(self.config["task"])
        more = f", swaps {few(self.eval.swaps)}" if self.eval.swaps else ""
        return (
            f"Run {self.id}: {self.label}, {self.parameters().total:,} parameters\n"
            f"  trains {self.train.steps:,} steps at length {self.train.length} on {task}, "
            f"seeds {few(self.run.seeds)}\n"
            f"  scores lengths {few(self.eval.lengths)} by {few(self.eval.metrics)}{more}"
        )

    def parameters(self) -> Parameters:
        """How many numbers one seed learns."""
        return identity.parameters(self.lm, self.encodings)

    def load(self, trained_on: str = "") -> Text:
        """The text of training, and the windows that are scored. Refused if one of them is too
        short. `trained_on` is the hash of the training text of a finished run (text.read).
        """
        sources = self.sources()
        if self.task.reads_text:
            made = text.read(self.data, self.train, self.eval, self.init_from, trained_on)
        else:
            made = text.of_samples(self.task, self.config["task"])
        return made._replace(sources=sources)
