"""The sections of a config as dataclasses: `SECTIONS` names all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pe_jax import contract
from pe_jax.data import tokenizer
from pe_jax.errors import nearest
from pe_jax.evaluation.config import EvalConfig
from pe_jax.fields import Count, Natural, NotNegative, as_annotated, check, hints
from pe_jax.model.config import LmConfig
from pe_jax.runs.resources import Resources
from pe_jax.specs import parse
from pe_jax.task import Task
from pe_jax.tasks import section as tasks
from pe_jax.training import mesh, samples
from pe_jax.training.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Which text, in which tokens."""

    source: str = "stdlib"
    """stdlib; files:PATH, a file, a folder or globs; tfds:NAME[:SPLIT], a prepared TFDS dataset; or
    documents:FILE.py:NAME, a function of yours that yields texts."""
    data_dir: str = ""
    """The folder in which a relative PATH begins, "": the working directory; or TFDS's data_dir,
    "": TFDS's own, TFDS_DATA_DIR or ~/tensorflow_datasets."""
    tokenizer: str = "bytes"
    """bytes; bpe:N, of N tokens, trained on the training split; file:PATH, a tokenizer.json; or
    hf:DIR or gguf:PATH, that of a pretrained model."""
    store: str = ""
    """The folder in which text of 32 MiB or more is kept, "": $XDG_CACHE_HOME/pe_jax/text. It is
    not part of a run's id."""

    def __post_init__(self):
        check(self, "data.")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """With which seeds, and on which devices."""

    seeds: tuple[Natural, ...] = (0, 1, 2)
    """Seeds, each a model of its own."""
    mesh: str = ""
    """Devices for seeds, data and parameters, such as data:8, seed:3,data:2 or data:2,fsdp:4
    (training/mesh.py); "": one device. It is not part of a run's id."""
    oracle_of: Natural = 0
    """Of an oracle, a run on text at a longer length: the training length of the runs that reports
    compare with it; 0: it is none. It is not part of a run's id."""

    def __post_init__(self):
        check(self, "run.")
        mesh.parse(self.mesh)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"run.seeds must be one or more different integers, got {self.seeds}")


@dataclasses.dataclass(frozen=True)
class LogConfig:
    """What does not change a run's numbers, and is not part of its identity."""

    checkpoint_seconds: NotNegative = 60.0
    """Seconds between two checkpoints."""
    valid_every: Count = 100
    """Steps after which validation text is scored again while training."""

    def __post_init__(self):
        check(self, "log.")


SECTIONS = {
    "lm": LmConfig,
    "train": TrainConfig,
    "eval": EvalConfig,
    "data": DataConfig,
    "run": RunConfig,
    "log": LogConfig,
    "resources": Resources,
}
"""Beside these a config has the section `pe`, the spec of the encodings and for each member its
fields, and the section `task`, the name of a task and its fields.
"""


GONE = {
    "train": {"schedule": "cosine", "cooldown": 0.2, "init_drop": False},
    "eval": {"stride": None},
    "run": {"vmap_seeds": True, "choose_seeds": ()},
    "log": {"tensorboard": False, "wandb": False},
}
"""Fields of earlier releases, by their sections, with the one value that this release computes."""


def whole_sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with `pe` and `task` as sections. ValueError for a section that is unknown or no
    dictionary, and without pe.spec.
    """
    if not isinstance(config, Mapping):
        wanted = 'a dictionary, {"pe": "rope"} or config.to_dict()'
        raise ValueError(f"a run is made of {wanted}, got {str(config)[:60]!r}")
    _check_known("the config", config, ["pe", "task", *SECTIONS])
    pe = config.get("pe", {})
    task = config.get("task", {})
    config = {
        **config,
        "pe": {"spec": pe} if isinstance(pe, str) else pe,
        "task": {"name": task} if isinstance(task, str) else task,
    }
    for name, section in config.items():
        if not isinstance(section, Mapping):
            raise ValueError(
                f"config.{name} must be a section, a dictionary of fields, got {section!r}"
            )
    if not config["pe"].get("spec"):
        raise ValueError('the config has no pe, which names the encodings, as in {"pe": "rope"}')
    return config


def section(name: str, values: Mapping[str, Any]) -> Any:
    """A section as its dataclass, which checks it; lists, as JSON has them, become tuples. A field
    of an earlier release must have the value that this one computes.
    """
    kind, values = SECTIONS[name], with_tuples(values)
    for field, value in GONE.get(name, {}).items():
        if values.pop(field, value) != value:
            raise ValueError(f"config.{name}.{field} is no longer there: leave it out")
    _check_known(f"config.{name}", values, [field.name for field in dataclasses.fields(kind)])
    return kind(**{name: as_annotated(value, hints(kind)[name]) for name, value in values.items()})


class Checked(NamedTuple):
    """A config whose sections have been checked, each by itself and against the others."""

    config: dict[str, Any]
    """Every field of it."""
    members: parse.Spec
    task: Task
    sections: dict[str, Any]
    """The dataclass of each of SECTIONS, with the defaults that depend on other sections."""


def checked(config: Mapping[str, Any]) -> Checked:
    """A config of `whole_sections`. ValueError or TypeError for values that do not fit."""
    spec, fields = members_of(config["pe"])
    sections = {name: section(name, config.get(name, {})) for name in SECTIONS}
    lm, train, data = (sections[name] for name in ("lm", "train", "data"))
    members = parse.parse(spec).with_fields(fields)
    whole = {"pe": members.section() | {"spec": spec}}
    whole |= {"task": tasks.whole(with_tuples(config["task"]))}
    whole |= {name: vars(section) for name, section in sections.items()}
    task = tasks.make(whole["task"], lm.causal)
    _check_together(sections, task)
    with contract.calling(f"{whole['task']['name']}'s vocab", whole["task"]["name"]):
        vocabulary = task.vocab()
    if task.reads_text:
        known = lm.vocab, tokenizer.vocabulary(data.tokenizer)
        vocabulary = max(vocabulary - task.masks(), *known) + (task.masks() and not lm.special)
    sections["lm"] = dataclasses.replace(lm, vocab=vocabulary, causal=task.causal)
    whole["lm"] = whole["lm"] | {"causal": task.causal}
    sections["eval"] = sections["eval"].resolved(train.length, lm.memory, task)
    resolved = {name: getattr(sections["eval"], name) for name in ("metrics", "rate")}
    whole["eval"] = whole["eval"] | resolved
    last, shortest = sections["eval"].last, min(sections["eval"].lengths)
    if lm.special and last > shortest - 2:
        raise ValueError(
            f"eval.last must be at most the shortest evaluation length {shortest} without [CLS] "
            f"and [SEP], {shortest - 2}, got {last}: lower eval.last"
        )
    return Checked(whole, members, task, sections)


def _check_together(sections: Mapping[str, Any], task: Task) -> None:
    # ValueError for values of several sections that do not go together
    lm, train, run = (sections[name] for name in ("lm", "train", "run"))
    samples.parts(task, train)
    mesh.check(run.mesh, len(run.seeds), train.batch)
    if train.loss == "all" and not task.causal:
        raise ValueError(
            "train.loss=all has each token predict the next, which an encoder sees: use "
            "train.loss=scored, or a decoder"
        )
    if lm.special and not (task.reads_text and task.masks()):
        raise ValueError(
            f"an encoder reads masked text, got {type(task).__name__}: use task=masked_text"
        )
    if task.reads_text and lm.vocab < 256:
        raise ValueError(f"lm.vocab must be at least 256, since text is bytes, got {lm.vocab}")
    if run.oracle_of and (run.oracle_of >= train.length or not task.reads_text):
        raise ValueError(
            f"run.oracle_of must be below train.length, {train.length}, and of text, got "
            f"{run.oracle_of}: it is the training length of the runs that a report compares with "
            "this run"
        )
    if sections["eval"].by == "place" and len(run.seeds) > 1:
        raise ValueError(
            f"eval.by=place scores one model, got {len(run.seeds)} seeds: set run.seeds to one"
        )


def members_of(section: Mapping[str, Any]) -> tuple[str, dict[str, dict[str, Any]]]:
    """The spec of the section `pe`, and the fields that it sets, by the member's id."""
    fields = {id: values for id, values in section.items() if id != "spec"}
    for id, values in fields.items():
        if not isinstance(values, Mapping):
            raise ValueError(
                f"config.pe.{id} must be a section, a dictionary of fields, got {values!r}"
            )
    return section["spec"], {id: with_tuples(values) for id, values in fields.items()}


def with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with lists as tuples, and NumPy's numbers as Python's."""
    return {name: _as_python(value) for name, value in fields.items()}


def _as_python(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_as_python, value))
    return value.item() if isinstance(value, np.generic) else value


def users_files(config: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of the users' files that a config's encodings and task come from, by path."""
    return parse.sources(config["pe"]["spec"]) | contract.sources(config["task"]["name"])


def _check_known(where: str, given: Mapping[str, Any], names: list[str]) -> None:
    for name in given:
        if name not in names:
            raise ValueError(
                f"{where} has no {name!r}{nearest(name, names)} It has {', '.join(names)}."
            )
