"""Published numbers, read from the files of results/reference/, and scores compared with them.

results/reference/README.md says what the columns of a file mean.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pe_jax import terms
from pe_jax.errors import nearest
from pe_jax.metric import Metric, TextMetric
from pe_jax.record import Result
from pe_jax.report import groups, labels
from pe_jax.report.sheet import Note, Printed, Sheet, number
from pe_jax.report.sheets import printed
from pe_jax.report.stats import critical, spearman
from pe_jax.report.study import Study
from pe_jax.report.table import Cell, mean
from pe_jax.report.words import count, join

# Files of published numbers


NATS = "nats a token"
BEYOND = "beyond"  # `at` of a mean over the lengths beyond the training length


@dataclass(frozen=True)
class PublishedNumber:
    """A line of a file; the fields are the columns."""

    task: str
    spec: str
    at: str
    swap: str
    """The spec of encodings that were swapped in, as in "rerope"."""
    variant: str
    """Fields of the task other than in training, as in "ignore=0.98"."""
    value: float
    better: str
    unit: str
    source: str
    status: str
    setting: str


COLUMNS = tuple(field.name for field in dataclasses.fields(PublishedNumber))
GIVE = "Give a file as those of results/reference/ are."
HAS = f"The columns are {', '.join(COLUMNS)}."


@dataclass(frozen=True)
class PublishedTable:
    """The published numbers of one file."""

    name: str
    """The name of the file without its suffix."""
    entries: tuple[PublishedNumber, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in the order of the file."""
        return tuple(dict.fromkeys(entry.task for entry in self.entries))


def read(path: str | Path) -> PublishedTable:
    """The table in a file. ValueError, with the line, for what is wrong in it; OSError where it
    cannot be read.
    """
    path = Path(path)
    if not path.exists():
        known = [other.name for other in sorted(path.parent.glob("*.csv"))]
        raise ValueError(f"no file {str(path)!r}{nearest(path.name, known)} {GIVE}")
    try:
        reader = csv.DictReader(path.read_text("utf-8-sig").splitlines(), restval="")
        lines = [(reader.line_num, line) for line in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no CSV file ({error}). {GIVE}") from error
    header = reader.fieldnames or []
    for name in header:
        if name not in COLUMNS:
            near = nearest(name, set(COLUMNS) - {*header})
            raise ValueError(f"{path} has an unknown column {name!r}{near} {HAS}")
    if missing := [name for name in COLUMNS if name not in header]:
        raise ValueError(f"{path} lacks the column {missing[0]!r}: add it. {HAS}")
    entries = [_entry(line, f"{path}, line {i}") for i, line in lines]
    if not entries:
        raise ValueError(f"{path} holds no numbers. {GIVE}")
    seen: dict[tuple, int] = {}
    for i, entry in enumerate(entries):
        key = entry.task, entry.spec, entry.at, entry.swap, entry.variant
        if seen.setdefault(key, i) != i:
            raise ValueError(
                f"{path} has two numbers of {entry.spec} for {entry.task} at {entry.at!r}: put the "
                "other setting into a file of its own"
            )
    return PublishedTable(path.stem, tuple(entries))


def _entry(cells: Mapping[str, str], place: str) -> PublishedNumber:
    cells = {name: cells[name].strip() for name in COLUMNS}
    try:
        value = float(cells["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{place}: value is no number, {cells['value']!r}: leave the line out")
    if cells["better"] not in ("higher", "lower"):
        raise ValueError(f"{place}: better is {cells['better']!r}: write higher or lower")
    if not re.fullmatch(r"beyond|[1-9]\d*|\d+(\.\d+)?x", cells["at"]):
        raise ValueError(
            f"{place}: at is {cells['at']!r}: write beyond, a length as in 24, or a multiple of "
            "the training length as in 4x"
        )
    for name, read_cell in (("task", _members), ("spec", _members), ("variant", fields_of)):
        try:
            read_cell(cells[name])
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
    return PublishedNumber(**{**cells, "value": value})


# Scores of runs at the lengths and variants of published ones


CLOSE = 0.05
"""A length within this share of a multiple of the training length counts as this multiple."""


class PublishedColumn(NamedTuple):
    """A length and variant at which published scores and ours are compared, and their units."""

    at: str
    variant: str
    """The variant of the task."""
    unit: str
    """The unit of the published numbers."""
    metric: str
    """The metric of ours; "" if the runs have none in which the same direction is better."""


@dataclass(frozen=True)
class PublishedLine:
    """An encoding: the published numbers, NaN where there is none, and ours, in each column."""

    spec: str
    """The spec, and a swap after a comma: "rope, rerope"."""
    published: tuple[float, ...]
    ours: tuple[Cell, ...]
    run: str
    """The id of the run that is ours, of several the first; "": there is none."""


class Order(NamedTuple):
    """How far the order of the encodings that both have is the published one, in a column."""

    n: int
    """Encodings that both have."""
    rho: float
    """Spearman's, between the published values and ours."""
    alike: int
    """Pairs of encodings whose difference has the published sign."""
    pairs: int
    """Pairs with unequal published values."""


@dataclass(frozen=True)
class PublishedTask:
    """One task of a reference, and one group of comparable runs."""

    reference: str
    task: str
    entries: tuple[PublishedNumber, ...]
    runs: tuple[Result, ...]
    heading: str
    """What sets the group apart; "": nothing."""
    columns: tuple[PublishedColumn, ...]
    lines: tuple[PublishedLine, ...]
    orders: tuple[Order, ...]

    @property
    def name(self) -> str:
        """The task as the runs have it, and what sets the group apart."""
        return ", ".join(filter(None, [self.runs[0].corpus.source, self.heading]))

    @property
    def places(self) -> list[str]:
        """The columns in words, as in "mean beyond 40, ignore=0.98"."""
        beyond = f"mean beyond {self.runs[0].train.length}"
        found = [(beyond if c.at == BEYOND else f"at {c.at}", c.variant) for c in self.columns]
        return [", ".join(filter(None, pair)) for pair in found]


def matched(study: Study, references: Sequence[PublishedTable]) -> list[PublishedTask]:
    """Each task of the references that the study has, for each group of comparable runs; of these
    only the ones with two encodings or more on both sides, if there are such. ValueError for a
    reference of which no task and encoding is found.
    """
    found = []
    for reference in references:
        tasks = [task for name in reference.tasks for task in _groups_of(study, reference, name)]
        if not tasks:
            runs = study.runs.values()
            specs = dict.fromkeys(entry.spec for entry in reference.entries)
            names = [f"{_task(run)['name']} with {_spec_of(run)}" for run in runs]
            wanted = [f"{task} with {spec}" for task in reference.tasks for spec in specs]
            raise ValueError(
                f"the reference {reference.name} has no number of these runs"
                f"{nearest(names[0], wanted)} It has {join(reference.tasks)}, with the encodings "
                f"{join(specs)}; the runs are of {join(names)}: give another file"
            )
        found += [task for task in tasks if any(o.n > 1 for o in task.orders)] or tasks
    return found


def _groups_of(study: Study, reference: PublishedTable, task: str) -> Iterator[PublishedTask]:
    entries = tuple(entry for entry in reference.entries if entry.task == task)
    name, fields = member(task)
    wanted = ({"name": name} | fields).items()
    found = [[run for run in group.runs if wanted <= _task(run).items()] for group in study.groups]
    found = [tuple(runs) for runs in found if runs]
    apart = groups.conditions_apart([runs[0] for runs in found], groups.EXPECTED)
    for runs in found:
        evaluated = {name for run in runs for id, name in study.evaluated if id == run.id}
        metrics = [metric for name, metric in study.metrics.items() if name in evaluated]
        places = (PublishedColumn(e.at, e.variant, e.unit, _metric(e, metrics)) for e in entries)
        columns = tuple(dict.fromkeys(places))
        lines = tuple(_lines(study, entries, runs, columns))
        if any(line.run and not all(map(math.isnan, line.published)) for line in lines):
            orders = tuple(_order(i, lines) for i in range(len(columns)))
            words = [c for c in apart[runs[0].id] if not c.name.startswith("corpus")]
            about = reference.name, task, entries, runs, groups.heading(words)
            yield PublishedTask(*about, columns, lines, orders)


def _metric(entry: PublishedNumber, metrics: Sequence[Metric]) -> str:
    # That of the same unit, for NATS one that scores all tokens of its windows; else the first.
    def alike(metric: Metric) -> bool:
        if entry.unit == NATS:
            return isinstance(metric, TextMetric) and metric.by_position
        return metric.unit == entry.unit

    same = [metric for metric in metrics if metric.better == entry.better]
    return next((m.name for m in (*filter(alike, metrics), *same)), "")


def _lines(
    study: Study,
    entries: Sequence[PublishedNumber],
    runs: Sequence[Result],
    columns: Sequence[PublishedColumn],
) -> Iterator[PublishedLine]:
    # Each published encoding, then each run that has none of them.
    values = {(e.spec, e.swap, e.at, e.variant, e.unit): e.value for e in entries}
    lines = []
    for spec, swap in dict.fromkeys((entry.spec, entry.swap) for entry in entries):
        fitting = [run for run in runs if _has_encodings(run, spec)]
        fitting.sort(key=lambda run, spec=spec: (_spec_of(run) != spec, run.id))
        lines.append((", ".join(filter(None, [spec, swap])), spec, swap, fitting))
    used = {run.id for *_, fitting in lines for run in fitting}
    called = labels.names(runs)
    lines += [(called[run.id], "", "", [run]) for run in runs if run.id not in used]
    for name, spec, swap, fitting in lines:
        places = [(spec, swap, c.at, c.variant, c.unit) for c in columns]
        published = tuple(values.get(place, math.nan) for place in places)
        ours = [_our_cell(study, run, c, swap) for run in fitting[:1] for c in columns]
        id = fitting[0].id if fitting else ""
        yield PublishedLine(name, published, tuple(ours or [Cell()] * len(columns)), id)


def _our_cell(study: Study, result: Result, column: PublishedColumn, swap: str = "") -> Cell:
    # Empty where the result has no score in the column.
    evaluated = study.evaluated.get((result.id, column.metric))
    fields = fields_of(column.variant)  # which a way may have in any order and spacing
    way = next(
        (
            way
            for way in (evaluated.ways if evaluated else ())
            if way.swap == swap and fields_of(way.variant) == fields and not way.memory
        ),
        None,
    )
    lengths = _lengths(evaluated.lengths, result.train.length, column.at) if evaluated else []
    if evaluated is None or way is None or not lengths:
        return Cell()
    scores = mean([study.scores[result.id, way, column.metric, n] for n in lengths])
    if column.at != BEYOND:
        scores = study.scores[result.id, way, column.metric, lengths[0]]
    cell = Cell.of(scores, evaluated.replicas)
    if not _in_nats(column, result):
        return cell
    return replace(cell, mean=cell.mean * math.log(2), half=cell.half * math.log(2))


def _lengths(scored: Sequence[int], train: int, at: str) -> list[int]:
    if at == BEYOND:
        return [length for length in scored if length > train]
    if at.endswith("x"):
        goal = float(at[:-1]) * train
        near = min(scored, key=lambda length: abs(length - goal), default=math.inf)
        return [int(near)] if abs(near - goal) <= CLOSE * goal else []
    return [int(at)] if int(at) in scored else []


def _in_nats(column: PublishedColumn, result: Result) -> bool:
    # Whether bits per byte times ln 2 are nats a token: tokens are bytes.
    return column.unit == NATS and result.tokenizer.spec == "bytes"


def _order(i: int, lines: Sequence[PublishedLine]) -> Order:
    both = [
        (line.published[i], line.ours[i].mean)
        for line in lines
        if line.ours[i].n and not math.isnan(line.published[i])
    ]
    rho = spearman([p for p, _ in both], [ours for _, ours in both])
    pairs = [(p - q) * (a - b) for (p, a), (q, b) in itertools.combinations(both, 2) if p != q]
    return Order(len(both), rho, sum(sign > 0 for sign in pairs), len(pairs))


# As sheets


ORDERS = ("reference", "task", "scores", "n", "rho", "5 % critical", "pairs as published")
TERMS = (
    "n: encodings on both sides. rho: Spearman's, between the published scores and ours; critical: "
    "the smallest that is significant, one-sided at 5 %. Pairs as published: pairs of encodings "
    "ordered as published, of those that are not equal there. Columns of one task are scores of "
    "the same models."
)


def sheets(found: Sequence[PublishedTask]) -> list[Sheet]:
    """How far the orders agree, then a table for each task of a reference."""
    return [_orders(found), *map(_scores, found)]


def _orders(found: Sequence[PublishedTask]) -> Sheet:
    rows = tuple(
        (
            Printed(task.reference, task.reference),
            Printed(task.name),
            Printed(place),
            number(order.n),
            printed(Cell(mean=order.rho)),
            printed(Cell(mean=critical(order.n))),
            Printed(f"{order.alike} of {order.pairs}" if order.pairs else "n/a"),
        )
        for task in found
        for place, order in zip(task.places, task.orders, strict=True)
    )
    notes = (Note("Terms", TERMS),)
    return Sheet("Order of the encodings, published and ours", ORDERS, (("", rows),), notes)


def _scores(task: PublishedTask) -> Sheet:
    titles = [f"{place}: {side}" for place in task.places for side in ("published", "ours")]
    rows = tuple(
        (
            Printed(line.spec, line.spec, run=line.run),
            *(
                cell
                for published, ours in zip(line.published, line.ours, strict=True)
                for cell in (printed(Cell(mean=published)), printed(ours))
            ),
        )
        for line in task.lines
    )
    sources = dict.fromkeys(f"{e.source} ({e.status})" for e in task.entries)
    settings = dict.fromkeys(e.setting for e in task.entries)
    run = task.runs[0]
    ours = groups.conditions(run) | {"train.batch": run.config.get("train", {}).get("batch")}
    shown = ("lm.layers", "lm.model", "lm.heads", "train.steps", "train.batch", "train.length")
    setting = [groups.worded(name, ours[name]) for name in shown if ours.get(name)]
    notes = (
        Note("Published", f"{join(sources)}. Setting: {'; or '.join(settings)}."),
        Note("Ours", f"{', '.join(setting)}, {count(len(run.seeds), 'seed')}."),
    )
    title = ": ".join(filter(None, [f"{task.task}, beside {task.reference}", task.heading]))
    numbers = tuple(
        {
            "reference": task.reference,
            "task": task.name,
            "at": column.at,
            "variant": column.variant,
            "encoding": line.spec,
            "run": line.run,
            "published": line.published[i],
            "unit": column.unit,
            "metric": column.metric,
            "mean": line.ours[i].mean,
            "half": line.ours[i].half,
            "seeds": line.ours[i].n,
            "n": order.n,
            "rho": order.rho,
            "critical": critical(order.n),
            "pairs_alike": order.alike,
            "pairs": order.pairs,
        }
        for i, (column, order) in enumerate(zip(task.columns, task.orders, strict=True))
        for line in task.lines
    )
    return Sheet(title, ("encoding", *titles), (("", rows),), notes, numbers)


# Which results a published number means: by the task and the encoding of its line


def _task(result: Result) -> dict[str, Any]:
    return {"name": "text"} | result.config.get("task", {})


def _spec_of(result: Result) -> str:
    return result.config.get("pe", {}).get("spec", "")


def _has_encodings(result: Result, wanted: str) -> bool:
    # Whether it has the members of a published spec, each with the fields that are named.
    try:
        ours = _members(_spec_of(result))
    except ValueError:  # a spec that cannot be read is of no published encoding
        return False
    theirs = _members(wanted)
    if [(name, layers) for name, _, layers in ours] != [(name, at) for name, _, at in theirs]:
        return False
    used = Counter[str]()
    for (name, own, _), (_, asked, _) in zip(ours, theirs, strict=True):
        used[name] += 1
        id = name if used[name] == 1 else f"{name}_{used[name]}"
        if not asked.items() <= (own | result.config["pe"].get(id, {})).items():
            return False
    return True


def member(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the fields of a task or of a member of a spec."""
    return terms.Term.of(text)[:2]


def fields_of(variant: str) -> dict[str, Any]:
    """The fields of a task's variant, in any order and spacing."""
    return member(f"_({variant})")[1]


def _members(spec: str) -> list[terms.Term]:
    return [*map(terms.Term.of, terms.members(spec))]
