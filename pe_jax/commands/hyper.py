"""The runs of a config file: `get_sweep()` yields whole configs; `get_hyper(h)` names what varies,
as at Google.

Five functions on lists of overrides, {"config.train.rate": 1e-3}, are what `h` offers.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

Overrides = dict[str, Any]


def sweep(name: str, values: Iterable[Any]) -> list[Overrides]:
    """One run a value of one knob."""
    return [{name: value} for value in values]


def fixed(name: str, value: Any, length: int = 1) -> list[Overrides]:
    """The same value in `length` runs."""
    return [{name: value}] * length


def product(
    sweeps: Sequence[Sequence[Mapping[str, Any]]], name: str | None = None
) -> list[Overrides]:
    """Every combination."""
    del name
    return [_merged(parts) for parts in itertools.product(*sweeps)]


def zipit(
    sweeps: Sequence[Sequence[Mapping[str, Any]]], name: str | None = None
) -> list[Overrides]:
    """The first of each with each other, then the second; a sweep of one serves them all."""
    del name
    longest = max(map(len, sweeps))
    if any(len(s) not in (1, longest) for s in sweeps):
        raise ValueError(
            f"zipit needs sweeps of one length, got {', '.join(str(len(s)) for s in sweeps)}"
        )
    return [_merged(s[i % len(s)] for s in sweeps) for i in range(longest)]


def chainit(
    sweeps: Sequence[Sequence[Mapping[str, Any]]], name: str | None = None
) -> list[Overrides]:
    """One after the other."""
    del name
    return [dict(run) for run in itertools.chain(*sweeps)]


def runs(
    module: Any, config: ConfigDict, values: Mapping[str, Any], also: Sequence[str] = ()
) -> list[ConfigDict]:
    """The configs of a config module, in order, with the command line's `values` on top of each.

    A module with neither function is a single run. `also` are specs of encodings to add: one run
    each, or with get_hyper a run for each of its overrides but for those of the encoding.
    """
    if hasattr(module, "get_sweep"):
        configs = list(module.get_sweep())
    elif hasattr(module, "get_hyper"):
        every = [_named(overrides) for overrides in module.get_hyper(sys.modules[__name__])]
        configs = [_applied(module, config, overrides) for overrides in every]
        others = _without_encoding(every)
        also_varied = ({"pe.spec": spec} | rest for spec in also for rest in others)
        configs += [_applied(module, config, overrides) for overrides in also_varied]
        also = ()
    else:
        configs = [config.copy_and_resolve_references()]
    configs += [module.get_config(f"pe={spec}") for spec in also]
    for run in configs:
        _set(run, values)
    return configs


def _named(overrides: Mapping[str, Any]) -> Overrides:
    """The overrides by their names within the config."""
    return {name.removeprefix("config."): value for name, value in overrides.items()}


def _without_encoding(every: Iterable[Overrides]) -> list[Overrides]:
    """The overrides of other sections than pe, equal ones once."""
    others: list[Overrides] = []
    for overrides in every:
        rest = {k: v for k, v in overrides.items() if k.partition(".")[0] != "pe"}
        if rest not in others:
            others.append(rest)
    return others


def _applied(module: Any, config: ConfigDict, overrides: Overrides) -> ConfigDict:
    values = dict(overrides)
    spec = values.pop("pe.spec", None)
    run = module.get_config(f"pe={spec}") if spec else config.copy_and_resolve_references()
    _set(run, values)
    return run


def _set(run: ConfigDict, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        *parents, last = name.split(".")
        section = run
        for parent in parents:
            section = getattr(section, parent)
        getattr(section, last)  # a misspelt name answers with the nearest
        setattr(section, last, value)


def _merged(parts: Iterable[Mapping[str, Any]]) -> Overrides:
    return {name: value for part in parts for name, value in part.items()}
