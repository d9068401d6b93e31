"""What tables and figures call a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pe_jax import captions

Record = dict[str, Any]


def names(records: Iterable[Record]) -> dict[str, str]:
    """The label of each record by its id, with the tokenizer where they have several.

    Records that share a label get the values of the config in which they differ, as in
    "rope, train.rate 0.001"; those of one config the id's hash.
    """
    records = list(records)
    labels = {record["id"]: record["label"] for record in records}
    tokenizers = {record["id"]: captions.tokenizer(record) for record in records}
    if len(set(tokenizers.values())) > 1:
        labels = {id: f"{label}, {tokenizers[id]}" for id, label in labels.items()}
    for label in _repeated(labels):
        same = [record for record in records if labels[record["id"]] == label]
        labels |= {id: f"{label}{values}" for id, values in _differing(same).items()}
    repeated = _repeated(labels)
    return {
        id: f"{label} ({id[-8:]})" if label in repeated else label for id, label in labels.items()
    }


def swapped(label: str, swap: str, train_length: int) -> str:
    """`rope, window 64`: a model's name with what is swapped in."""
    return ", ".join(filter(None, [label, f"window {train_length}" if swap == "window" else swap]))


def flatten(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train.rate": 3e-3, ...} of a nested dictionary."""
    flat = {}
    for key, value in section.items():
        inner = flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else None
        flat |= {f"{prefix}{key}": value} if inner is None else inner
    return flat


def _repeated(labels: dict[str, str]) -> set[str]:
    return {label for label, count in Counter(labels.values()).items() if count > 1}


def _differing(records: Sequence[Record]) -> dict[str, str]:
    """The config's values that not all share, ", train.rate 0.001", of each record by its id."""
    configs = {record["id"]: flatten(record.get("config", {})) for record in records}
    keys = sorted({key for config in configs.values() for key in config} - {"run.mesh"})
    told = [
        key
        for key in keys
        if not key.startswith("log.")
        and len({repr(config.get(key)) for config in configs.values()}) > 1
    ]
    return {
        id: "".join(f", {key} {captions.plain(config.get(key))}" for key in told)
        for id, config in configs.items()
    }
