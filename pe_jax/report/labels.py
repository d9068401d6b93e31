"""The names of runs in tables, figures and sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pe_jax.record import Training, Way
from pe_jax.report import groups

WINDOW = Way(swap="window")
FILE = re.compile(r"(?:^|(?<=\+)|(?<= from ))(?:(?! from )[^+:])*\.py:")
"""The path before a user's class, in a label."""
FIRST = ("task.name", "train.length", "train.rate")
"""Paths of the config that `names` tries first, in this order."""
COMPUTED = {"run.mesh", "train.remat", "train.scan"}
"""Paths of the config that say how a run is computed, not what it learns."""


def names(results: Iterable[Any]) -> dict[str, str]:
    """The shortest unique label of each result, or of a run without one yet, by its id, as in
    "rope, trained at 256 tokens": of the values of the config in which runs of one label differ,
    the task first, the training next. Runs of equal configs get the hash in their id.
    """
    results = list(results)
    labels = {result.id: readable(result.label) for result in results}
    for label in _repeated(labels):
        values = differing([result for result in results if labels[result.id] == label])
        paths = next(iter(values.values()))  # in order of their names; section `eval` comes last
        paths = sorted(paths, key=lambda p: ([*FIRST, p].index(p), p.startswith("eval.")))
        parts = {id: (label,) for id in values}
        for path in paths:
            more = {
                id: parts[id] if own[path] is None else (*parts[id], groups.worded(path, own[path]))
                for id, own in values.items()
            }
            if len({*more.values()}) > len({*parts.values()}):
                parts = more
        labels |= {id: ", ".join(own) for id, own in parts.items()}
    repeated = _repeated(labels)
    return {
        id: f"{label} ({id[-8:]})" if label in repeated else label for id, label in labels.items()
    }


def readable(label: str) -> str:
    """The label on one line, with a class of a user's file by its name alone."""
    return FILE.sub("", " ".join(label.split()))


def in_way(label: str, way: Way, train: Training) -> str:
    """A model's label with the way in which it is scored, as in "rope, window 64"."""
    window = f"window {train.tokens or train.length}"
    return ", ".join(filter(None, [label, window if way == WINDOW else str(way)]))


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """The values of a run's config by their paths, as in {"train.rate": 3e-3}, for comparisons.

    Without the sections `log` and `resources`, which change no result.
    """
    without = {"log", "resources"}
    return _flatten({name: config[name] for name in config if name not in without})


def differing(results: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """For each result by its id, the values of the config in which the results differ, by their
    paths; None where its config lacks the path. A path that only some configs have, as the field of
    an encoding, counts where these configs differ.
    """
    configs = {result.id: settings(result.config) for result in results}
    values: dict[str, set[str]] = {}
    for config in configs.values():
        for key in config.keys() - COMPUTED:
            values.setdefault(key, set()).add(repr(config[key]))
    keys = sorted(key for key in values if len(values[key]) > 1)
    return {id: {key: config.get(key) for key in keys} for id, config in configs.items()}


def _flatten(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in section.items():
        path = f"{prefix}{key}"
        flat |= _flatten(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return flat


def _repeated(labels: dict[str, str]) -> set[str]:
    return {label for label, number in Counter(labels.values()).items() if number > 1}
