"""The sections of a config as dataclasses: `SECTIONS` names all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pe_jax import contract
from pe_jax.errors import nearest
from pe_jax.evaluation.config import EvalConfig
from pe_jax.fields import Count, Natural, NotNegative, check
from pe_jax.model.config import LmConfig
from pe_jax.runs.resources import Resources
from pe_jax.runs.trackers import TRACKERS
from pe_jax.specs import parse
from pe_jax.training import mesh
from pe_jax.training.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Which text, in which tokens."""

    source: str = "stdlib"
    """stdlib; files:PATH, a file, a folder or globs; or tfds:NAME[:SPLIT], a prepared TFDS
    dataset."""
    data_dir: str = ""
    """The folder in which a relative PATH begins, "": the working directory; or TFDS's data_dir,
    "": TFDS's own, TFDS_DATA_DIR or ~/tensorflow_datasets."""
    tokenizer: str = "bytes"
    """bytes; bpe:N, of N tokens, trained on the training split; file:PATH, a tokenizer.json; or
    hf:DIR or gguf:PATH, that of a pretrained model."""

    def __post_init__(self):
        check(self, "data.")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """With which seeds, and on which devices."""

    seeds: tuple[Natural, ...] = (0, 1, 2)
    """Seeds, each a model of its own."""
    vmap_seeds: bool = True
    """Whether all seeds train in one program; False: one after another, bit-equal to runs of one
    seed."""
    mesh: str = ""
    """Devices for seeds, data and parameters, such as data:8, seed:3,data:2 or data:2,fsdp:4
    (training/mesh.py); "": one device. It is not part of a run's id."""
    oracle_of: Natural = 0
    """The training length of the runs of text beside which a report shows this run as "trained at
    E", E being its own longer training length; 0: none. It is not part of a run's id."""

    def __post_init__(self):
        check(self, "run.")
        mesh.parse(self.mesh)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"run.seeds must be one or more different integers, got {self.seeds}")
        name = "-".join(map(str, self.seeds))
        if self.vmap_seeds and len(name) > 255:
            raise ValueError(
                f"run.seeds of one program name a folder, in at most 255 characters, got "
                f"{len(self.seeds)} seeds in {len(name)}: give fewer, or run.vmap_seeds=False"
            )

    def groups(self, seeds: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Which of these seeds train in one program, where all begin anew."""
        together = (tuple(seeds),) if seeds else ()
        return together if self.vmap_seeds else tuple((seed,) for seed in seeds)


@dataclasses.dataclass(frozen=True)
class LogConfig:
    """What does not change a run's numbers, and is not part of its identity."""

    checkpoint_seconds: NotNegative = 60.0
    """Seconds between two checkpoints."""
    valid_every: Count = 100
    """Steps after which validation text is scored again while training."""
    tensorboard: bool = False
    """Whether a copy of the history goes to <workdir>/<run id>/tensorboard; needs
    the extra tensorboard."""
    wandb: bool = False
    """Whether a copy of the history goes to Weights & Biases; needs the extra wandb. With
    WANDB_MODE=offline it needs no network."""

    def __post_init__(self):
        check(self, "log.")

    @property
    def trackers(self) -> tuple[str, ...]:
        """The names of the trackers that are asked for."""
        return tuple(name for name in TRACKERS if getattr(self, name))


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


GONE = {"eval": {"stride": None}}
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
    return kind(**values)


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
    """ValueError for a name in `given` that is not among `names`, with the nearest one."""
    for name in given:
        if name not in names:
            raise ValueError(
                f"{where} has no {name!r}{nearest(name, names)} It has {', '.join(names)}."
            )
