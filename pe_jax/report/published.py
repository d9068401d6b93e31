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
from pe_jax.report.words import count, each, join

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
    """The number of a line with these cells by column; `place` is the line in errors."""
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
    """The id of the run that is ours; "": there is none."""
    more: int = 0
    """How many other runs have the published spec, too."""


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
    def places(self) -> list[str]:
        """The columns in words, as in "mean beyond 40, ignore=0.98"."""
        beyond = f"mean beyond {self.runs[0].train.length}"
        found = [(beyond if c.at == BEYOND else f"at {c.at}", c.variant) for c in self.columns]
        return [", ".join(filter(None, pair)) for pair in found]


def beside(study: Study, references: Sequence[PublishedTable]) -> list[PublishedTask]:
    """Each task of the references that the study has, for each group of comparable runs; of these
    only the ones with two encodings or more on both sides, if there are such. ValueError for a
    reference of which no task and encoding is found.
    """
    found = []
    for reference in references:
        tasks = list(_tasks_of(study, reference))
        if not tasks:
            raise ValueError(_nothing_to_compare([*study.runs.values()], reference))
        found += [task for task in tasks if any(o.n > 1 for o in task.orders)] or tasks
    return found


def _tasks_of(study: Study, reference: PublishedTable) -> Iterator[PublishedTask]:
    for task in reference.tasks:
        entries = tuple(entry for entry in reference.entries if entry.task == task)
        found = [
            tuple(run for run in group.runs if _is_of_task(run, task)) for group in study.groups
        ]
        found = [runs for runs in found if runs]
        apart = groups.conditions_apart([runs[0] for runs in found], groups.EXPECTED)
        for runs in found:
            metrics = [
                metric
                for metric in study.metrics.values()
                if any((run.id, metric.name) in study.evaluated for run in runs)
            ]
            columns = tuple(
                dict.fromkeys(
                    PublishedColumn(e.at, e.variant, e.unit, _our_metric(e, metrics))
                    for e in entries
                )
            )
            lines = _lines(study, entries, runs, columns)
            if any(line.run and not all(map(math.isnan, line.published)) for line in lines):
                orders = tuple(_order(i, lines) for i in range(len(columns)))
                words = [c for c in apart[runs[0].id] if not c.name.startswith("corpus")]
                task_of = reference.name, task, entries, runs, groups.heading(words)
                yield PublishedTask(*task_of, columns, lines, orders)


def _our_metric(entry: PublishedNumber, metrics: Sequence[Metric]) -> str:
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
) -> tuple[PublishedLine, ...]:
    # Each published encoding, then each run that has none of them.
    values = {(e.spec, e.swap, e.at, e.variant, e.unit): e.value for e in entries}
    lines, used = [], set[str]()
    for spec, swap in dict.fromkeys((entry.spec, entry.swap) for entry in entries):
        fitting = sorted(
            (run for run in runs if _has_encodings(run, spec)),
            key=lambda run: (_spec_of(run) != spec, run.id),
        )
        used |= {run.id for run in fitting}
        places = [(spec, swap, c.at, c.variant, c.unit) for c in columns]
        published = tuple(values.get(place, math.nan) for place in places)
        ours = tuple(_our_cell(study, run, c, swap) for run in fitting[:1] for c in columns)
        name = ", ".join(filter(None, [spec, swap]))
        id = fitting[0].id if fitting else ""
        empty = (Cell(),) * len(columns)
        lines.append(PublishedLine(name, published, ours or empty, id, len(fitting[1:])))
    called, none = labels.names(runs), (math.nan,) * len(columns)
    for run in runs:
        if run.id not in used:
            ours = tuple(_our_cell(study, run, column) for column in columns)
            lines.append(PublishedLine(called[run.id], none, ours, run.id))
    return tuple(lines)


def _our_cell(study: Study, run: Result, column: PublishedColumn, swap: str = "") -> Cell:
    # Empty where the run has no score in the column.
    evaluated = study.evaluated.get((run.id, column.metric))
    fields = fields_of(column.variant)  # which a way may have in any order and spacing
    way = next(
        (
            way
            for way in (evaluated.ways if evaluated else ())
            if way.swap == swap and fields_of(way.variant) == fields and not way.memory
        ),
        None,
    )
    lengths = _lengths(evaluated.lengths, run.train.length, column.at) if evaluated else []
    if evaluated is None or way is None or not lengths:
        return Cell()
    scores = mean([study.scores[run.id, way, column.metric, n] for n in lengths])
    if column.at != BEYOND:
        scores = study.scores[run.id, way, column.metric, lengths[0]]
    cell = Cell.of(scores, evaluated.replicas)
    if not _in_nats(column, run):
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


def _in_nats(column: PublishedColumn, run: Result) -> bool:
    # Whether bits per byte times ln 2 are nats a token: tokens are bytes.
    return column.unit == NATS and run.tokenizer.spec == "bytes"


def _order(i: int, lines: Sequence[PublishedLine]) -> Order:
    both = [
        (line.published[i], line.ours[i].mean)
        for line in lines
        if line.ours[i].n and not math.isnan(line.published[i])
    ]
    rho = spearman([p for p, _ in both], [ours for _, ours in both])
    pairs = [(p - q) * (a - b) for (p, a), (q, b) in itertools.combinations(both, 2) if p != q]
    return Order(len(both), rho, sum(sign > 0 for sign in pairs), len(pairs))


def _nothing_to_compare(runs: Sequence[Result], reference: PublishedTable) -> str:
    specs = list(dict.fromkeys(entry.spec for entry in reference.entries))
    ours = list(dict.fromkeys(map(_spec_of, runs)))
    names = ("text" if _task(r)["name"] == "text" else r.corpus.source for r in runs)
    done = list(dict.fromkeys(names))
    if any(_is_of_task(run, task) for run in runs for task in reference.tasks):
        return (
            f"the reference {reference.name} has other encodings than these runs"
            f"{nearest(ours[0], specs)} It has {join(specs)}; the runs have {join(ours)}: run some "
            "of its encodings"
        )
    return (
        f"the reference {reference.name} has other tasks than these runs"
        f"{nearest(done[0], reference.tasks)} It has {join(reference.tasks)}, with the encodings "
        f"{join(specs)}; the runs have {join(done)}, with {join(ours)}: give another file"
    )


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
            Printed(_task_and_heading(task)),
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
    several = [f"{line.spec} ({line.more + 1})" for line in task.lines if line.more]
    notes = [
        Note("Published", f"{join(sources)}. Setting: {'; or '.join(settings)}."),
        Note("Ours", f"{_our_setting(task.runs)}."),
    ]
    if several:
        notes.append(Note("Ours", f"Of several runs of a spec one is shown: {join(several)}."))
    title = ": ".join(filter(None, [f"{task.task}, beside {task.reference}", task.heading]))
    numbers = tuple(_csv_rows(task))
    return Sheet(title, ("encoding", *titles), (("", rows),), tuple(notes), numbers)


def _our_setting(runs: Sequence[Result]) -> str:
    run = runs[0]
    lm, train = (run.config.get(section, {}) for section in ("lm", "train"))
    sizes = [count(lm["layers"], "layer")] if "layers" in lm else []
    sizes += [f"width {lm['model']}"] if "model" in lm else []
    sizes += [count(lm["heads"], "head")] if "heads" in lm else []
    sizes += [f"dropout {lm['dropout']:g}"] if lm.get("dropout") else []
    batch = f" of {train['batch']}" if "batch" in train else ""
    fixed = train.get("curriculum") == "fixed" or _task(run)["name"] == "text"
    return ", ".join(
        [
            "decoders" if lm.get("causal", True) else "encoders",
            *sizes,
            f"{run.train.steps:,} steps{batch}" if run.train.steps else "pretrained",
            *(["loss of all tokens"] if train.get("loss") == "all" else []),
            run.corpus.source,
            f"trained at {'length' if fixed else 'lengths up to'} {run.train.length}",
            *([each([len(one.seeds) for one in runs], "seed")] if run.train.steps else []),
        ]
    )


def _csv_rows(task: PublishedTask) -> Iterator[dict[str, Any]]:
    for i, (column, order) in enumerate(zip(task.columns, task.orders, strict=True)):
        for line in task.lines:
            yield {
                "reference": task.reference,
                "task": _task_and_heading(task),
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


def _task_and_heading(task: PublishedTask) -> str:
    # As the runs have it.
    return ", ".join(filter(None, [task.runs[0].corpus.source, task.heading]))


# Which results a published number means: by the task and the encoding of its line


def _is_of_task(result: Result, task: str) -> bool:
    """Whether a result is of a task, with the fields that are named."""
    name, asked = member(task)
    return {"name": name, **asked}.items() <= _task(result).items()


def _task(result: Result) -> dict[str, Any]:
    """The task of a result by its name, with its fields; text where its config names none."""
    return {"name": "text"} | result.config.get("task", {})


def _spec_of(result: Result) -> str:
    """The spec of a result's encodings, as its config has it."""
    return result.config.get("pe", {}).get("spec", "")


def _has_encodings(result: Result, wanted: str) -> bool:
    """Whether a result has the members of a published spec, each with the fields that it names."""
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
    term = terms.Term.of(text, text)
    return term.name, terms.literals(term.fields, text)


def fields_of(variant: str) -> dict[str, Any]:
    """The fields of a task's variant, in any order and spacing."""
    return member(f"_({variant})")[1]


def _members(spec: str) -> list[tuple[str, dict[str, Any], str | None]]:
    parts = [(part, terms.Term.of(part, spec)) for part in terms.members(spec)]
    return [(term.name, terms.literals(term.fields, part), term.layers) for part, term in parts]
