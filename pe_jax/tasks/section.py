"""Section `task` of a config: the name of a task, and its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pe_jax import contract
from pe_jax.errors import nearest
from pe_jax.fields import as_annotated, hints
from pe_jax.task import Task
from pe_jax.tasks import TASKS

GONE: dict[str, dict[str, Any]] = {"dyck": {"behind_closing": False}}
"""Fields of earlier releases, by task, with the one value that this release computes."""

ADDED: dict[str, tuple[str, ...]] = {"markov": ("masked", "rate")}
"""Fields that earlier releases lack, by task: at their defaults nothing changes."""


def make(section: Mapping[str, Any], causal: bool = True) -> Task:
    """The task of a section, {"name": "reverse_string", FIELD: VALUE, ...}, for a model that is
    causal or not. A name is one of TASKS, or path/to/file.py:Class. ValueError for what is unknown,
    with the nearest name, and for a value that the task does not allow.
    """
    name = section.get("name", "text")
    known = _defaults(name)
    fields = {field: value for field, value in section.items() if field != "name"}
    for field in fields:
        if field not in known:
            raise ValueError(
                f"the task {name} has no field {field!r}{nearest(field, known)} "
                f"It has {', '.join(known) or 'none'}."
            )
    return _find(name)(causal, **fields)


def whole(section: Mapping[str, Any]) -> dict[str, Any]:
    """The section with every field of its task."""
    name = section.get("name", "text")
    gone, annotations = GONE.get(name, {}).items(), hints(_find(name))
    given = {
        f: as_annotated(v, annotations.get(f)) for f, v in section.items() if (f, v) not in gone
    }
    return {"name": name} | _defaults(name) | given


def identity(section: Mapping[str, Any]) -> dict[str, Any]:
    """The whole section as earlier releases have it, whose runs are known by its hash."""
    name = section.get("name", "text")
    usual, added = _defaults(name), ADDED.get(name, ())
    fields = whole(section).items()
    return {f: v for f, v in fields if f not in added or v != usual[f]} | GONE.get(name, {})


def described(section: Mapping[str, Any]) -> str:
    """The task in one word for people, as in "flip_flop(ignore=0.9)"."""
    name = section.get("name", "text")
    usual = whole({"name": name})
    changed = ",".join(f"{f}={v!r}" for f, v in whole(section).items() if v != usual[f])
    return f"{name.rpartition('/')[2]}({changed})" if changed else name.rpartition("/")[2]


def _defaults(name: str) -> dict[str, Any]:
    annotations = hints(_find(name))
    given = (f for f in dataclasses.fields(_find(name)) if f.init and f.name != "causal")
    return {f.name: as_annotated(f.default, annotations[f.name]) for f in given}


def _find(name: str) -> type[Task]:
    if isinstance(name, str) and name.endswith(")"):
        raise ValueError(
            "fields of a task are set by --config.task.FIELD=VALUE, not in its name: got "
            f"task.name={name!r}"
        )
    if not isinstance(name, str) or (name not in TASKS and ":" not in name):
        raise ValueError(
            f"unknown task {name!r}{nearest(str(name), TASKS)} Known: {', '.join(TASKS)}, and "
            "path/to/file.py:Class."
        )
    if name in TASKS:
        return TASKS[name]
    return contract.own(name, Task)
