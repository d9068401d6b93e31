"""What lies where in a run's folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from pe_jax.errors import Refused
from pe_jax.record import Begun, Result, Tried
from pe_jax.storage import records

RATES = "rates"
"""The folder in that of a run with several train.rates which holds a run for each of them."""


def trained_groups(folder: Path) -> list[tuple[int, ...]]:
    """The seeds of each program that has a checkpoint in the folder, those of the lowest seed
    first.
    """
    steps = (folder / "checkpoints").glob("*/[0-9]*")
    names = {path.parent.name for path in steps}
    return sorted(tuple(map(int, name.split("-"))) for name in names)


def checkpoints(folder: Path, group: Sequence[int]) -> Path:
    """Where the checkpoints of one program lie."""
    return folder / "checkpoints" / "-".join(map(str, group))


def folders(folder: Path) -> list[Path]:
    """The run's folder, and with several train.rates those inside that have begun."""
    return [folder, *(path.parent for path in sorted((folder / RATES).glob("*/config.json")))]


def of_one_rate(folder: Path) -> Path:
    """The folder that holds the models of a run: its own, or with several train.rates that of the
    chosen one. ValueError for the scores of a pretrained model.
    """
    result = records.read(Result, folder / "result.json")
    if result and result.replicate != "seed":
        raise ValueError(
            f"{folder} has the scores of a pretrained model, which it does not hold: pe-jax extend "
            "scores it at other lengths and with other swaps"
        )
    if result is None or not result.rates:
        return folder
    best = chosen(result.rates).rate
    for path in folders(folder)[1:]:
        begun = records.read(Begun, path / "config.json")
        if begun and begun.config["train"]["rate"] == best:
            return path
    raise ValueError(f"{folder / RATES} has no run of the chosen train.rate, {best:g}")


def chosen(tried: Sequence[Tried]) -> Tried:
    """The rate whose mean over seeds is the lowest, the first of equal ones. Refused if a seed
    diverged at each of them.
    """
    best = min(tried, key=lambda one: one.mean)
    if math.isinf(best.mean):
        rates = ", ".join(f"{one.rate:g}" for one in tried)
        raise Refused(f"training diverged at each of train.rates, {rates}: give lower ones")
    return best
