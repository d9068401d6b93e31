"""A config as a dictionary of sections, checked: unknown names, and lists for tuples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pe_jax.compose import parse
from pe_jax.errors import nearest
from pe_jax.evaluation.config import EvalConfig
from pe_jax.model.config import LmConfig
from pe_jax.runs.config import DataConfig, LogConfig, RunConfig
from pe_jax.runs.resources import Resources
from pe_jax.tasks import section as tasks
from pe_jax.training.config import TrainConfig

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


def whole_sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with `pe` and `task` as sections. ValueError for a section that is unknown or no
    dictionary, and without pe.spec.
    """
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
        raise ValueError(
            "the config has no pe.spec, which names the encodings; see configs/base.py"
        )
    return config


def section(name: str, values: Mapping[str, Any]) -> Any:
    """A section as its dataclass, which checks it; lists, as JSON has them, become tuples."""
    kind = SECTIONS[name]
    _check_known(f"config.{name}", values, [field.name for field in dataclasses.fields(kind)])
    return kind(**with_tuples(values))


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
    """The fields with lists as tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}


def users_files(config: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of each file outside the package that a config names an encoding or a task of."""
    return parse.sources(config["pe"]["spec"]) | tasks.sources(config["task"])


def _check_known(where: str, given: Mapping[str, Any], names: list[str]) -> None:
    """ValueError for a name in `given` that is not among `names`, with the nearest one."""
    for name in given:
        if name not in names:
            raise ValueError(
                f"{where} has no {name!r}{nearest(name, names)} It has {', '.join(names)}."
            )
