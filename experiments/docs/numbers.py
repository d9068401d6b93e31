"""Recomputes numbers in prose. A mark before a number names its source in results/:

    <!-- results/STUDY LABEL METRIC LENGTH -->2.57

This is the mean over replicas of the row with that label ("rope", or "rope, yarn" with a swap), by
that metric at that length. The length `beyond` is the mean over all lengths beyond training. A
colon selects a part of the study: results/STUDY:TASK a task, results/STUDY:64 a training length,
results/STUDY:steps=3000 a number of training steps, results/STUDY:width=64 a width of the model,
results/STUDY:heads=2 its heads, results/STUDY:rate=0.003 a learning rate, results/STUDY:loss=all a
train.loss; results/STUDY:64,heads=2 what is both. After "±" stands the half width of the 95 %
interval.

`less` subtracts, from the value of each replica that has both, the value at another length. Its
study and label are those of the value before it unless it names others. A number with decimals can
also be subtracted. After a comma, `less` subtracts the whole expression that follows:

    <!-- results/STUDY rope same_targets 1024 less 64 -->+3.20 ± 1.83
    <!-- results/STUDY rope same_targets 1024 less 64, less alibi 1024 less 64 -->+3.24
    <!-- results/STUDY rope same_targets 1024 less alibi 1024 nats -->2.21
    <!-- results/STUDY:256 rope same_targets 256 less results/STUDY:64 rope 64 each -->−0.01, 0.02

`nats` converts bits to nats. A word at the end selects another value: `each`, the value of every
replica; `sd`, the mean in standard deviations of the replicas; `p`, the two-sided p of a t test
that the mean is zero, without correction; `tells`, the mean that this test, at 5 %, detects with a
power of 80 %, given the spread of the replicas:

    <!-- results/STUDY rope same_targets 1024 less alibi 1024 p -->0.021

The metric `validation` is the score of validation text, or samples, after training, at the training
length:

    <!-- results/STUDY:64 rope validation 64 less results/STUDY:256 rope 256 -->0.09

A model-free baseline has the name of its row, and one number:

    <!-- results/STUDY no model: Bayes last_bits 64 less 1024 -->0.29

The metric `rho` is Spearman's rho between two orders of the encodings. The label then names the
other order: a file of results/reference, at its column `at`, or another study, by the same_targets
of the labels that both have:

    <!-- results/STUDY kerple rho 2x -->0.90
    <!-- results/STUDY:64 results/STUDY:256 rho 512 -->0.83

A number in a file of results/reference is named by its spec, followed by its swap and variant after
commas, and by its column `at`. If the file has several tasks, a colon selects one. It is used with
the metric `published`, or after `less`, in the unit of the difference:

    <!-- results/reference/dyck mapformer(rank=2), deepest=12 published 128 -->63.8
    <!-- results/reference/dyck pope published 32 less rope 32 -->1.9
    <!-- results/reference/chomsky:even_pairs alibi published beyond -->73.52
    <!-- results/STUDY rope nonoverlapping 8192 less results/reference/pj_rope rope 8x nats -->0.01

Numbers keep their decimals and plus signs.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax.metrics import METRICS
from pe_jax.record import Replica, Result
from pe_jax.report import published, stats
from pe_jax.report.study import HEADROOM, Study, load, mean
from pe_jax.report.table import Table, TableRow, tables

ROOT = Path(__file__).resolve().parents[2]
NUMBER = r"[+−]?\d+(?:\.\d+)?"
MARK = re.compile(
    r"<!-- (?P<study>results/\S+) (?P<label>[^>]+?) (?P<metric>\w+) (?P<length>[\d.]+x|\d+|beyond)"
    r"(?P<less>,? less [^>]+?)?(?P<nats> nats)?(?:(?P<each> each)| (?P<test>sd|p|tells))? -->"
    rf"(?P<numbers>{NUMBER}(?(each)(?:,\s+{NUMBER})*)(?P<interval>\s±\s{NUMBER})?)(?![\d.,]*\d|e-?\d)"
)
TERM = re.compile(
    r"(?:(?P<study>results/\S+) )?(?:(?P<label>.+) )?(?P<length>[\d.]+x|\d+|beyond)"
    r"|(?P<number>\d+\.\d+)"
)
REFERENCE = "results/reference/"
NO_MODEL = "no model: "
AT_BEGINNING = re.compile(r"^[ \t]*(?:[-*] )?<!-- results/.*", re.M)


def written(text: str) -> str:
    """The text with its marked numbers recomputed. ValueError for an unreadable mark, a mark
    without a value in the study, and a mark that begins a line, where Markdown would read it as
    HTML.
    """
    if unread := re.findall(r"<!-- results/.*?-->\S*", MARK.sub("", text), re.S):
        raise ValueError(f"marks that cannot be read: {', '.join(unread)}")
    if first := AT_BEGINNING.findall(text):
        raise ValueError(f"marks that begin a line make it HTML: {', '.join(first)}")
    return MARK.sub(_anew, text)


def values(expression: str) -> dict[Replica, float]:
    """The values by replica of what a mark names: `results/STUDY rope same_targets 1024 less 64`.
    ValueError for an expression that cannot be read, or without a value in the study.
    """
    mark = MARK.fullmatch(f"<!-- {expression} -->0")
    if mark is None:
        raise ValueError(f"{expression!r} is no expression of a mark")
    return _differences(mark, 1.0)


def _anew(mark: re.Match[str]) -> str:
    try:
        match mark["metric"]:
            case "rho":
                values = _rho(mark)
            case "published":
                values = [_differences(mark, 1.0)]
            case _:
                values = _scores(mark)
        if len(values) != len(re.findall(NUMBER, mark["numbers"])):
            raise ValueError(f"there are {len(values)} numbers")
        if not all(map(math.isfinite, values)):
            raise ValueError("there is no such number")
    except ValueError as error:
        raise ValueError(f"{mark[0]}: {error}") from error
    interval, left = mark["numbers"].find("±"), iter(values)

    def number(old: re.Match[str]) -> str:
        in_interval = 0 <= interval < old.start()
        sign = "+" if "+" in mark["numbers"] and not in_interval else ""
        return f"{next(left):{sign}.{len(old[0].partition('.')[2])}f}".replace("-", "−")

    return f"{mark[0].partition('-->')[0]}-->{re.sub(NUMBER, number, mark['numbers'])}"


def _scores(mark: re.Match[str]) -> list[float]:
    """The mean, the value of each replica or the result of `test`; then the half width of the
    interval, if the text has one.
    """
    metric = (METRICS | {HEADROOM.name: HEADROOM}).get(mark["metric"])
    unit = metric.unit if metric else "bits"
    if mark["nats"] and not unit.startswith("bits"):
        raise ValueError(f"{mark['metric']} is in {unit}, not in bits")
    scale = math.log(2) if mark["nats"] else 1.0
    found = _differences(mark, scale)
    each = found.values() if isinstance(found, Mapping) else [found]
    values = [scale * value for value in each]
    mean, half, _ = stats.interval(values)
    match mark["test"]:
        case "sd":
            return [mean / statistics.stdev(values)]
        case "p":
            return stats.p_values([dict(enumerate(values))], dict.fromkeys(range(len(values)), 0.0))
        case "tells":
            return [_tells(values)]
    return [*(values if mark["each"] else [mean]), *([half] if mark["interval"] else [])]


def _differences(mark: re.Match[str], scale: float) -> Any:
    """The values by replica, or the one number of a paper or of a model-free baseline, minus the
    terms that the mark subtracts. A single number is in the unit of scores times `scale`.
    """
    where, label, metric = mark["study"], mark["label"], mark["metric"]

    def value(term: str) -> Any:
        nonlocal where, label
        if not (found := TERM.fullmatch(term)):
            raise ValueError(f"{term!r} is no value")
        if found["number"]:
            return float(found["number"]) / scale
        where, label = found["study"] or where, found["label"] or label
        if where.startswith(REFERENCE):
            return _published(where, label, found["length"]) / scale
        if label.startswith(NO_MODEL):
            return _without_model(where, label, metric, found["length"])
        return _values(where, label, metric, found["length"])

    def less(a: Any, b: Any) -> Any:
        if isinstance(a, float) and isinstance(b, float):
            return a - b
        if isinstance(a, float):
            return {replica: a - own for replica, own in b.items()}
        if isinstance(b, float):
            return {replica: own - b for replica, own in a.items()}
        return {replica: a[replica] - b[replica] for replica in sorted(a.keys() & b.keys())}

    sides = f"{mark['length']}{mark['less'] or ''}".split(", less ")
    return functools.reduce(
        less, [functools.reduce(less, map(value, side.split(" less "))) for side in sides]
    )


def _tells(values: Sequence[float]) -> float:
    """The mean whose noncentral t distribution has four fifths above the critical value of the
    test.
    """
    from scipy import optimize, special

    n = len(values)
    bound = special.stdtrit(n - 1, 0.975)
    errors = optimize.root_scalar(
        lambda mean: float(special.nctdtr(n - 1, mean, bound)) - 0.2, bracket=(0, 2 * bound)
    ).root
    return errors * statistics.stdev(values) / math.sqrt(n)


def _values(where: str, label: str, metric: str, length: str) -> Mapping[Replica, float]:
    """The values by replica of the model with that label."""
    if metric == "validation":
        return _validation(where, label, length)
    table, row = _row(where, label, metric)
    scores = {n: study(where).scores[row.run, row.way, metric, n] for n in table.evaluated}
    if length == "beyond":
        found = mean([own for n, own in scores.items() if n > table.train_length]).values
    elif length.isdecimal():
        found = scores[int(length)].values if int(length) in scores else {}
    else:
        raise ValueError(f"{length} is no length in tokens")
    if not found:
        raise ValueError(f"{label} has no {metric} at {length}")
    return found


def _validation(where: str, label: str, length: str) -> dict[Replica, float]:
    """The score of validation text of each seed of the one run of that label and length."""
    runs = [
        one
        for one in study(where).runs.values()
        if (one.label, str(one.train.length)) == (label, length)
    ]
    if len(runs) != 1:
        raise ValueError(f"{where} has {len(runs)} runs {label!r} trained at {length}")
    scores = zip(runs[0].seeds, runs[0].train.valid, strict=True)
    return {Replica("seed", seed): value for seed, value in scores if value is not None}


def _without_model(where: str, label: str, metric: str, length: str) -> float:
    """The value of a model-free baseline."""
    table, row = _row(where, label, metric)
    of_length = dict(zip(map(str, table.lengths), row.cells, strict=True))
    cell = (of_length | {"beyond": row.beyond}).get(length)
    return cell.mean if cell else math.nan


def _row(where: str, label: str, metric: str) -> tuple[Table, TableRow]:
    """The one row with that label, and its table."""
    every = _tables(where)
    if metric not in (known := list(dict.fromkeys(table.metric.name for table in every))):
        raise ValueError(f"no record has the metric {metric!r}; the records have: {known}")
    rows = [
        (table, row)
        for table in every
        for row in table.rows
        if table.metric.name == metric and row.block != "reference" and row.label == label
    ]
    if len(rows) != 1:
        raise ValueError(f"{where} has {len(rows)} rows {label!r} of {metric}")
    return rows[0]


def _rho(mark: re.Match[str]) -> list[float]:
    where, other, at = mark["study"], mark["label"], mark["length"]
    if mark["less"] or mark["nats"] or mark["each"] or mark["interval"]:
        raise ValueError("rho is one number, without less, nats, each or an interval")
    if other.startswith("results/"):
        labels = sorted(_labels(where) & _labels(other))
        means = [
            [statistics.fmean(_values(side, one, "same_targets", at).values()) for one in labels]
            for side in (where, other)
        ]
        return [_spearman(*means)]
    file = published.read(ROOT / f"results/reference/{other}.csv")
    scores = [s for s in published.matched(study(where), [file]) if s.entry.at == at]
    if len({(s.entry.task, s.group.name, s.entry.variant, s.entry.unit) for s in scores}) != 1:
        raise ValueError(f"{other} has no column at {at} of {where}, or several")
    pairs = [(s.entry.value, s.ours.mean) for s in scores]
    return [_spearman(*np.transpose([pair for pair in pairs if not np.isnan(pair).any()]))]


def _spearman(a: Sequence[float], b: Sequence[float]) -> float:
    from scipy.stats import spearmanr

    return float(np.asarray(spearmanr(a, b))[0])


def _published(where: str, label: str, at: str) -> float:
    """The number in a file of results/reference."""
    file, _, task = where.partition(":")
    found = [
        entry.value
        for entry in published.read(ROOT / f"{file}.csv")
        if entry.at == at
        and (not task or entry.task == task)
        and ", ".join(filter(None, (entry.spec, entry.swap, entry.variant))) == label
    ]
    if len(found) != 1:
        raise ValueError(f"{file}.csv has {len(found)} numbers of {label!r} at {at}")
    return found[0]


def _labels(where: str) -> set[str]:
    """The labels of the models as trained."""
    every = [table for table in _tables(where) if table.metric.name == "same_targets"]
    return {row.label for table in every for row in table.rows if row.trained}


@functools.cache
def study(where: str) -> Study:
    """A study, or the part of it that follows a colon."""

    def names(one: Result) -> tuple[str, ...]:
        width, loss = one.config["lm"]["model"], one.config["train"].get("loss", "scored")
        task, length, steps = one.config["task"], str(one.train.length), one.train.steps
        rate = one.config["train"].get("rate")
        heads = one.config["lm"].get("heads")
        own = {"steps": steps, "width": width, "heads": heads, "loss": loss, "rate": rate} | task
        return task["name"], length, *(f"{field}={value}" for field, value in own.items())

    folder, _, part = where.partition(":")
    results, wanted = load(ROOT / folder), {*filter(None, part.split(","))}
    found = [one for one in results if wanted <= {*names(one)}]
    if not found:
        raise ValueError(f"{folder} has no part {part!r}")
    return Study.of(results).part(found)


@functools.cache
def _tables(where: str) -> list[Table]:
    return tables(study(where))
