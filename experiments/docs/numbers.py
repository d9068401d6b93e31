"""The numbers of prose that are marked by the place in results/ that they come from, computed anew.

    <!-- results/STUDY LABEL METRIC LENGTH -->2.57

is the mean over replicas of the row with that label ("rope", or "rope, yarn" with a swap), by that
metric at that length, or at `beyond`: over all lengths beyond training. results/STUDY:TASK is one
task of a study of several, results/STUDY:64 one training length and results/STUDY:width=64 one
width of the model. `less` subtracts, paired over replicas, the row of another study, label or
length, each the same where it is left out; what follows "±" is the half width of the 95 % interval:

    <!-- results/STUDY rope same_targets 1024 less 64 -->+3.20 ± 1.83
    <!-- results/STUDY rope same_targets 1024 less alibi 1024 -->3.19
    <!-- results/STUDY:256 rope same_targets 256 less results/STUDY:64 rope 64 -->−0.01

With the metric `rho` the number is Spearman's, with a file of results/reference at a multiple of
the training length, or with the labels that another study shares, by the same_targets of a length:

    <!-- results/STUDY kerple rho 2x -->0.90
    <!-- results/STUDY:64 results/STUDY:256 rho 512 -->0.83

A last word, `nats`, turns bits into nats, and `each` asks for the value of each replica:

    <!-- results/STUDY rope same_targets 1024 less alibi 1024 each -->+3.10, +3.30, +3.17

Numbers keep their decimals, and their plus signs if they have any.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from pathlib import Path

from pe_jax.record import Replica, Result
from pe_jax.report import cells, headroom, published, stats, study, tables
from pe_jax.report.cells import Table

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(
    r"<!-- (?P<study>results/\S+) (?P<label>[^>]+?) (?P<metric>\w+) (?P<length>\d+x?|beyond)"
    r"(?: less (?:(?P<less_study>results/\S+) )?(?:(?P<less_label>[^>]+?) )?"
    r"(?P<less_length>\d+|beyond))?(?P<nats> nats)?(?P<each> each)? -->"
    r"(?P<means>[+−]?\d+(?:\.\d+)?(?(each)(?:, [+−]?\d+(?:\.\d+)?)*))"
    r"(?: ± (?P<half>\d+(?:\.\d+)?))?"
)


def written(text: str) -> str:
    """The text with its marked numbers computed anew. ValueError for a mark that cannot be read, or
    whose study has not what it names.
    """
    marks = len(re.findall("<!-- results/", text))
    text, read = MARK.subn(_number, text)
    if read < marks:
        unread = re.findall(r"<!-- results/.*?-->\S*", MARK.sub("", text))
        raise ValueError(f"marks that cannot be read: {', '.join(unread)}")
    return text


def _number(mark: re.Match[str]) -> str:
    try:
        if mark["metric"] == "rho":
            means, half = [_rho(mark["study"], mark["label"], mark["length"])], math.nan
        else:
            found = _differences(mark)
            mean, half, _ = stats.interval(found)
            means = found if mark["each"] else [mean]
    except ValueError as error:
        raise ValueError(f"{mark[0]}: {error}") from error
    unit = math.log(2) if mark["nats"] else 1.0
    sign = "+" if "+" in mark["means"] else ""
    decimals = len(mark["means"].partition(",")[0].partition(".")[2])
    numbers = ", ".join(f"{unit * mean:{sign}.{decimals}f}" for mean in means).replace("-", "−")
    interval = ""
    if mark["half"]:
        interval = f" ± {unit * half:.{len(mark['half'].partition('.')[2])}f}"
    return f"{mark[0].partition('-->')[0]}-->{numbers}{interval}"


def _differences(mark: re.Match[str]) -> list[float]:
    """The value of each replica, without that of `less`."""
    where, label, metric = mark["study"], mark["label"], mark["metric"]
    found = _values(where, label, metric, mark["length"])
    other = dict.fromkeys(found, 0.0)
    if mark["less_length"]:
        rest = mark["less_study"] or where, mark["less_label"] or label
        other = _values(*rest, metric, mark["less_length"])
    return [found[replica] - other[replica] for replica in sorted(found.keys() & other.keys())]


def _rho(where: str, label: str, length: str) -> float:
    """Spearman's rho with a file of results/reference, or with another study."""
    return _between(where, label, length) if "/" in label else _beside(where, label, length)


def _values(where: str, label: str, metric: str, length: str) -> Mapping[Replica, float]:
    """The values by replica of the one row of that label."""
    by_id = {result.id: result for result in _results(where)}
    rows = [
        (by_id[row.run], row.way, table.evaluated)
        for table in _tables(where, metric)
        for row in table.rows
        if (row.trained or row.way) and row.label == label
    ]
    if len(rows) != 1:
        raise ValueError(f"{where} has {len(rows)} rows {label!r} of {metric}")
    result, way, lengths = rows[0]
    if length == "beyond":
        found = cells.means_beyond(result, metric, lengths, way)
    else:
        found = cells.values(cells.by_replica(result, metric, int(length), way))
    if not found:
        raise ValueError(f"{label} has no {metric} at {length}")
    return found


def _beside(where: str, reference: str, at: str) -> float:
    """Spearman's rho with a file of published numbers."""
    file = published.read(ROOT / f"results/reference/{reference}.csv")
    agreements = [
        agreement
        for held in published.hold(_results(where), [file])
        for column, agreement in zip(held.columns, held.agreements, strict=True)
        if column.at == at
    ]
    if len(agreements) != 1:
        raise ValueError(f"{len(agreements)} columns at {at} of {reference} are beside {where}")
    return agreements[0].rho


def _between(where: str, other: str, length: str) -> float:
    """Spearman's rho between the models as trained of two studies."""
    one, two = (
        {
            row.label: cells.cell(result, "same_targets", int(length)).mean
            for table in _tables(name, "same_targets")
            for row in table.rows
            for result in _results(name)
            if row.trained and row.run == result.id
        }
        for name in (where, other)
    )
    shared = sorted(one.keys() & two.keys())
    return stats.spearman([one[label] for label in shared], [two[label] for label in shared])


@functools.cache
def _results(where: str) -> list[Result]:
    """The results of a study, or of the part of it that follows a colon."""

    def names(one: Result) -> tuple[str, ...]:
        width = one.config["lm"]["model"]
        return one.config["task"]["name"], str(one.train.length), f"width={width}"

    folder, _, part = where.partition(":")
    found = headroom.added(study.load(ROOT / folder))
    return [one for one in found if part in names(one)] if part else found


@functools.cache
def _tables(where: str, metric: str) -> list[Table]:
    return tables.grouped(_results(where), metric)
