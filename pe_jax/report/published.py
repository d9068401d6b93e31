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
from pe_jax.report import cells, groups, labels, tables
from pe_jax.report.cells import Cell, described
from pe_jax.report.sheet import Note, Printed, Sheet, number
from pe_jax.report.sheets import printed
from pe_jax.report.stats import FEWEST, critical, spearman
from pe_jax.report.words import capital, count, each, join

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


# Scores of results at the lengths and variants of published ones


NEAR = 2.0
"""Within so many points of chance a score is taken to be a guess."""
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
    """The id of the result that is ours; "": there is none."""
    more: int = 0
    """How many other results have the published spec, too."""


@dataclass(frozen=True)
class Agreement:
    """How far the order of the encodings that both have is the published one, in a column.

    `guesses` are the sides, "published" or "ours", of which all values lie within noise of
    `chance`: their order says nothing.
    """

    n: int
    rho: float
    critical: float
    pairs: PairCount
    chance: float
    guesses: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """What a table says: "agrees", "not shown", "3 of 6 pairs", or why there is no order."""
        if self.n < 2:
            return "n/a"
        if self.guesses:
            return f"guesses: {join(self.guesses)}"
        if math.isnan(self.rho):
            return "all equal"
        if self.n < FEWEST:
            return f"{self.pairs.alike} of {self.pairs.of} pairs"
        return "agrees" if self.rho > self.critical - 1e-9 else "not shown"


@dataclass(frozen=True)
class PublishedTask:
    """One task of a reference, and one group of results that may be ranked."""

    reference: str
    task: str
    entries: tuple[PublishedNumber, ...]
    results: tuple[Result, ...]
    heading: str
    """What sets the group apart; "": nothing."""
    columns: tuple[PublishedColumn, ...]
    lines: tuple[PublishedLine, ...]
    agreements: tuple[Agreement, ...]

    @property
    def places(self) -> list[str]:
        """The columns in words, as in "mean beyond 40, ignore=0.98"."""
        beyond = f"mean beyond {self.results[0].train.length}"
        found = [(beyond if c.at == BEYOND else f"at {c.at}", c.variant) for c in self.columns]
        return [", ".join(filter(None, pair)) for pair in found]


def hold(results: Sequence[Result], references: Sequence[PublishedTable]) -> list[PublishedTask]:
    """Each task of the references that results have, for each group of results that may be ranked;
    of these only the ones with two encodings or more on both sides, if there are such. ValueError
    for a reference of which no task and encoding is found.
    """
    found = []
    for reference in references:
        tasks = list(_tasks_of(results, reference))
        if not tasks:
            raise ValueError(_nothing_to_compare(results, reference))
        found += [one for one in tasks if any(a.n > 1 for a in one.agreements)] or tasks
    return found


def _tasks_of(results: Sequence[Result], reference: PublishedTable) -> Iterator[PublishedTask]:
    for task in reference.tasks:
        entries = tuple(entry for entry in reference.entries if entry.task == task)
        for group in groups.groups([result for result in results if _is_of_task(result, task)]):
            metrics = tables.metrics(group.results)
            columns = tuple(
                dict.fromkeys(
                    PublishedColumn(e.at, e.variant, e.unit, _our_metric(e, metrics))
                    for e in entries
                )
            )
            lines = _lines(entries, group.results, columns)
            if not any(line.run and not all(map(math.isnan, line.published)) for line in lines):
                continue
            agreements = [_agreement(i, c, lines, group.results) for i, c in enumerate(columns)]
            heading = groups.heading([c for c in group.apart if not c.name.startswith("corpus")])
            yield PublishedTask(
                *(reference.name, task, entries, group.results, heading),
                *(columns, lines, tuple(agreements)),
            )


def _our_metric(entry: PublishedNumber, metrics: Sequence[str]) -> str:
    """The metric in the unit of a published number, for NATS one that scores all tokens of its
    windows; else the first one of its direction.
    """

    def alike(metric: Metric) -> bool:
        if entry.unit == NATS:
            return isinstance(metric, TextMetric) and metric.by_position
        return metric.unit == entry.unit

    same = [name for name in metrics if described(name).better == entry.better]
    return next(iter([*(name for name in metrics if alike(described(name))), *same]), "")


def _lines(
    entries: Sequence[PublishedNumber],
    results: Sequence[Result],
    columns: Sequence[PublishedColumn],
) -> tuple[PublishedLine, ...]:
    """A line for each published encoding, then one for each result that fits none of them."""
    values = {(e.spec, e.swap, e.at, e.variant, e.unit): e.value for e in entries}
    lines, used = [], set[str]()
    for spec, swap in dict.fromkeys((entry.spec, entry.swap) for entry in entries):
        fitting = sorted(
            (result for result in results if _has_encodings(result, spec)),
            key=lambda result: (_spec_of(result) != spec, result.id),
        )
        used |= {result.id for result in fitting}
        places = [(spec, swap, c.at, c.variant, c.unit) for c in columns]
        published = tuple(values.get(place, math.nan) for place in places)
        ours = fitting[0] if fitting else None
        found = tuple(_our_cell(ours, column, swap) if ours else Cell() for column in columns)
        name = ", ".join(filter(None, [spec, swap]))
        lines.append(
            PublishedLine(name, published, found, ours.id if ours else "", len(fitting[1:]))
        )
    called = labels.names(results)
    for result in results:
        if result.id not in used:
            found = tuple(_our_cell(result, column) for column in columns)
            lines.append(
                PublishedLine(called[result.id], (math.nan,) * len(columns), found, result.id)
            )
    return tuple(lines)


def _lengths(result: Result, column: PublishedColumn) -> list[int]:
    """The lengths of a column at which the result was scored."""
    scored = sorted({row.length for row in result.rows if row.metric == column.metric})
    train = result.train.length
    if column.at == BEYOND:
        return [length for length in scored if length > train]
    if column.at.endswith("x"):
        goal = float(column.at[:-1]) * train
        near = min(scored, key=lambda length: abs(length - goal), default=math.inf)
        return [int(near)] if abs(near - goal) <= CLOSE * goal else []
    return [int(column.at)] if int(column.at) in scored else []


def _our_cell(result: Result, column: PublishedColumn, swap: str = "") -> Cell:
    """A result's score in a column, with the swap; empty where it has none there."""
    lengths = _lengths(result, column)
    fields = fields_of(column.variant)  # which a way may have in any order and spacing
    ways = dict.fromkeys(row.way for row in result.rows if row.way.swap == swap)
    alike = (way for way in ways if fields_of(way.variant) == fields and not way.memory)
    way = next(alike, None)
    if not lengths or way is None:
        return Cell()
    if column.at == BEYOND:
        found = cells.beyond(result, column.metric, lengths, way)
    else:
        found = cells.cell(result, column.metric, lengths[0], way)
    if not _in_nats(column, result):
        return found
    return replace(found, mean=found.mean * math.log(2), half=found.half * math.log(2))


def _in_nats(column: PublishedColumn, result: Result) -> bool:
    """Whether bits per byte times ln 2 are nats a token: tokens are bytes."""
    return column.unit == NATS and result.tokenizer.spec == "bytes"


def _agreement(
    i: int, column: PublishedColumn, lines: Sequence[PublishedLine], results: Sequence[Result]
) -> Agreement:
    both = [
        (line.published[i], line.ours[i])
        for line in lines
        if line.ours[i].n and not math.isnan(line.published[i])
    ]
    published, means = [p for p, _ in both], [cell.mean for _, cell in both]
    chance = _chance(results[0], column)
    sides = {
        "published": [abs(p - chance) <= NEAR for p in published],
        "ours": [abs(c.mean - chance) <= max(NEAR, c.half) for _, c in both],
    }
    guesses = tuple(side for side, near in sides.items() if near and all(near))
    n = len(both)
    rho = spearman(published, means)
    return Agreement(n, rho, critical(n), pairs(published, means), chance, guesses)


def _chance(result: Result, column: PublishedColumn) -> float:
    """What a guess at random scores in a column; of whole samples, what the most frequent targets
    do. NaN for text, where no score is that of a guess.
    """
    if column.metric in ("accuracy", "by_distance") and result.train.labels:
        return 100 / result.train.labels
    if not cells.in_percent(column.metric):
        return math.nan
    wanted, lengths = fields_of(column.variant), _lengths(result, column)
    known = [
        one.value
        for one in result.baselines
        if (one.name, one.metric) == ("most frequent", column.metric)
        and one.length in lengths
        and fields_of(one.way.variant) == wanted
    ]
    return sum(known) / len(known) if known else 0.0


def _nothing_to_compare(results: Sequence[Result], reference: PublishedTable) -> str:
    """Why a reference cannot be used: in one line, the tasks and encodings of both sides."""
    specs = list(dict.fromkeys(entry.spec for entry in reference.entries))
    ours = list(dict.fromkeys(map(_spec_of, results)))
    called = ("text" if _task(r)["name"] == "text" else r.corpus.source for r in results)
    done = list(dict.fromkeys(called))
    if any(_is_of_task(result, task) for result in results for task in reference.tasks):
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


# The comparison as sheets, with their notes


SUMMARY = ("reference", "task", "scores", "n", "rho", "5 % critical", "pairs as published", "order")
HOW = (
    "n encodings are on both sides. rho is Spearman's, between the published scores and ours; the "
    "order agrees where it reaches the critical value, which one of 20 random orders does "
    "(one-sided, 5 %). Below five encodings only pairs are counted: how many are ordered as "
    "published, of those that are not equal there. Rows of one task are scores of the same models, "
    "so they do not add up as evidence. A published score is one number, often of a "
    "best or a mean over seeds that is not given, and n/a is what one side lacks."
)


def sheets(found: Sequence[PublishedTask]) -> list[Sheet]:
    """How far the orders agree, then a table for each task of a reference."""
    return [_orders(found), *map(_scores, found)]


def _orders(found: Sequence[PublishedTask]) -> Sheet:
    """A row for each column of each task."""
    rows = tuple(
        (
            Printed(held.reference, held.reference),
            Printed(_task_and_heading(held)),
            Printed(place),
            number(one.n),
            printed(Cell(one.rho)),
            printed(Cell(one.critical)),
            Printed(f"{one.pairs.alike} of {one.pairs.of}" if one.pairs.of else "n/a"),
            Printed(one.verdict),
        )
        for held in found
        for place, one in zip(held.places, held.agreements, strict=True)
    )
    notes = (Note("How to read the agreement", HOW),)
    return Sheet("Order of the encodings, published and ours", SUMMARY, (("", rows),), notes)


def _scores(held: PublishedTask) -> Sheet:
    """A row for each encoding: in each column the published score and ours."""
    titles = [f"{place}: {side}" for place in held.places for side in ("published", "ours")]
    rows = tuple(
        (
            Printed(line.spec, line.spec, run=line.run),
            *(
                cell
                for published, ours in zip(line.published, line.ours, strict=True)
                for cell in (printed(Cell(published)), printed(ours))
            ),
        )
        for line in held.lines
    )
    title = ": ".join(filter(None, [f"{held.task}, beside {held.reference}", held.heading]))
    columns, numbers = ("encoding", *titles), tuple(_csv_rows(held))
    return Sheet(title, columns, (("", rows),), tuple(notes(held)), numbers)


def notes(held: PublishedTask) -> list[Note]:
    """Where the numbers are from, why the level differs, and which ranks say nothing."""
    sources = dict.fromkeys(f"{e.source} ({e.status})" for e in held.entries)
    settings = dict.fromkeys(e.setting for e in held.entries)
    units = {
        c.unit: c.unit if _in_nats(c, held.results[0]) else described(c.metric).measured
        for c in held.columns
        if c.metric
    }
    differ = [f"{unit} is held against {ours}" for unit, ours in units.items() if unit != ours]
    guesses = [
        _guess_sentence(place, one)
        for place, one in zip(held.places, held.agreements, strict=True)
        if one.guesses
    ]
    several = [f"{line.spec} fits {line.more + 1} runs" for line in held.lines if line.more]
    told = [Note("Where the numbers are from", f"{join(sources)}.")]
    level = f"Published: {'; or '.join(settings)}. Ours: {_our_setting(held.results)}."
    told.append(Note("Why the level differs", " ".join([level, *(f"{d}." for d in differ)])))
    if guesses:
        told.append(Note("Which orders say nothing", " ".join(guesses)))
    if several:
        told.append(Note("What else to know", f"{join(several)}, of which one is shown."))
    return told


def _our_setting(results: Sequence[Result]) -> str:
    """How our models were trained and scored, of one group."""
    result = results[0]
    lm, train = (result.config.get(section, {}) for section in ("lm", "train"))
    kind = "decoders" if lm.get("causal", True) else "encoders"
    sizes = [count(lm["layers"], "layer")] if "layers" in lm else []
    sizes += [f"width {lm['model']}"] if "model" in lm else []
    sizes += [count(lm["heads"], "head")] if "heads" in lm else []
    sizes += [f"dropout {lm['dropout']:g}"] if lm.get("dropout") else []
    batch = f" of {train['batch']}" if "batch" in train else ""
    fixed = train.get("curriculum") == "fixed" or _task(result)["name"] == "text"
    lengths = sorted({row.length for row in result.rows})
    many = f"{len(lengths)} lengths from {lengths[0]} to {lengths[-1]}"
    parts = [
        f"{kind} of {', '.join(sizes)}" if sizes else kind,
        f"{result.train.steps:,} steps{batch}" if result.train.steps else "trained by others",
        *(["a loss of all tokens"] if train.get("loss") == "all" else []),
        result.corpus.source,
        f"trained at length {'' if fixed else 'up to '}{result.train.length}",
        f"scored at {join(lengths) if len(lengths) < 8 else many}",
        *([each([len(one.seeds) for one in results], "seed")] if result.train.steps else []),
    ]
    return ", ".join(parts)


def _csv_rows(held: PublishedTask) -> Iterator[dict[str, Any]]:
    """The rows of the CSV: one for each encoding and column."""
    for i, (column, one) in enumerate(zip(held.columns, held.agreements, strict=True)):
        for line in held.lines:
            yield {
                "reference": held.reference,
                "task": _task_and_heading(held),
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
                "n": one.n,
                "rho": one.rho,
                "critical": one.critical,
                "pairs_alike": one.pairs.alike,
                "pairs": one.pairs.of,
                "order": one.verdict,
            }


def _task_and_heading(held: PublishedTask) -> str:
    """The task as the runs have it, and what sets them apart from other runs of it."""
    return ", ".join(filter(None, [held.results[0].corpus.source, held.heading]))


def _guess_sentence(place: str, one: Agreement) -> str:
    sides = {"published": "published values", "ours": "our values"}
    who = join(sides[side] for side in one.guesses)
    return (
        f"{capital(place)}, all {who} lie within noise of a guess at random, "
        f"{one.chance:.3g} %: {NEAR:g} points or the half width of their interval. A rank among "
        "guesses means nothing."
    )


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


# How far two rankings of the same encodings agree


class PairCount(NamedTuple):
    """How many pairs of encodings are ordered as published, of pairs with unequal published
    values.
    """

    alike: int
    of: int


def pairs(published: Sequence[float], ours: Sequence[float]) -> PairCount:
    """How many pairs have the sign of the published difference."""
    every = list(itertools.combinations(zip(published, ours, strict=True), 2))
    told = [(p - q, a - b) for (p, a), (q, b) in every if p != q]
    return PairCount(sum(theirs * own > 0 for theirs, own in told), len(told))
