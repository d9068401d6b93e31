"""Published numbers, read from the files of results/reference/, and scores compared with them.

results/reference/README.md says what the columns of a file mean.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pe_jax import terms
from pe_jax.errors import nearest
from pe_jax.metric import Metric
from pe_jax.record import Result, Way
from pe_jax.report import groups
from pe_jax.report.phrases import count, join, plusminus
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.report.sheets import printed
from pe_jax.report.study import Cell, Group, Study, mean
from pe_jax.terms import Term

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
    reference: str
    """The name of the file without its suffix; no column."""


COLUMNS = tuple(field.name for field in dataclasses.fields(PublishedNumber))[:-1]
GIVE = "Give a file as those of results/reference/ are."


def read(path: str | Path) -> tuple[PublishedNumber, ...]:
    """The numbers in a file. ValueError, with the line, for what is wrong in it; OSError where it
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
    if wrong := set(COLUMNS) ^ set(header):
        had = "lacks the column" if wrong & set(COLUMNS) else "has an unknown column"
        name = min(wrong & set(COLUMNS) or wrong)
        raise ValueError(f"{path} {had} {name!r}. The columns are {', '.join(COLUMNS)}.")
    entries = tuple(_entry(line, path, i) for i, line in lines)
    if not entries:
        raise ValueError(f"{path} holds no numbers. {GIVE}")
    places = Counter((e.task, e.spec, e.at, e.swap, e.variant) for e in entries)
    (task, spec, at, *_), times = places.most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"{path} has two numbers of {spec} for {task} at {at!r}: put the other setting into a "
            "file of its own"
        )
    return entries


def _entry(cells: Mapping[str, str], path: Path, line: int) -> PublishedNumber:
    cells, place = {name: cells[name].strip() for name in COLUMNS}, f"{path}, line {line}"
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
    try:
        for text in (cells["task"], *terms.members(cells["spec"])):
            Term.of(text)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    return PublishedNumber(**{**cells, "value": value}, reference=path.stem)


# Scores of runs at the lengths and variants of published ones


@dataclass(frozen=True)
class PublishedScore:
    """A published number and what a run scores there."""

    entry: PublishedNumber
    """Its value is NaN where the reference has none and only the run has one."""
    group: Group
    name: str
    """The spec, and a swap after a comma, as in "rope, rerope"; the label of a run of no published
    encoding.
    """
    metric: str
    """The metric of ours; "" if the runs have none in which the same direction is better."""
    run: str
    """The id of the run that is ours, of several the first; "": there is none."""
    ours: Cell


def matched(study: Study, references: Sequence[Sequence[PublishedNumber]]) -> list[PublishedScore]:
    """The scores of each task of the references, for each group of comparable runs that has the
    task and one of its encodings. ValueError for a reference without any.
    """
    every: list[PublishedScore] = []
    for reference in references:
        tasks = dict.fromkeys(entry.task for entry in reference)
        scores = [
            score
            for task in tasks
            for group in study.groups
            for score in _scores(study, reference, task, group)
        ]
        if not scores:
            specs = dict.fromkeys(entry.spec for entry in reference)
            runs = [
                f"{_task(r)['name']} with {r.config['pe']['spec']}" for r in study.runs.values()
            ]
            near = nearest(runs[0], [f"{task} with {spec}" for task in tasks for spec in specs])
            raise ValueError(
                f"the reference {reference[0].reference} has no number of these runs{near} It has "
                f"{join(tasks)}, with the encodings {join(specs)}; the runs are of {join(runs)}: "
                "give another file"
            )
        every += scores
    return every


def _scores(
    study: Study, reference: Sequence[PublishedNumber], task: str, group: Group
) -> Iterator[PublishedScore]:
    # By place: a length, a variant and a unit. Each published encoding, then each run of no such.
    name, fields, _ = Term.of(task)
    wanted = ({"name": name} | fields).items()
    runs = [run for run in group.runs if wanted <= _task(run).items()]
    entries = {(e.at, e.variant, e.unit, e.spec, e.swap): e for e in reference if e.task == task}
    lines, used = [], set()
    for spec, swap in dict.fromkeys((e.spec, e.swap) for e in entries.values()):
        fitting = [run for run in runs if _has_encodings(run, spec)]
        used |= {run.id for run in fitting}
        fitting.sort(key=lambda run, spec=spec: (run.config["pe"]["spec"] != spec, run.id))
        name = ", ".join(filter(None, [spec, swap]))
        lines.append((name, spec, swap, fitting[0] if fitting else None))
    if not used:
        return
    lines += [(group.labels[run.id], "", "", run) for run in runs if run.id not in used]
    scored = {metric for id, metric in study.evaluated if id in {run.id for run in runs}}
    metrics = [metric for name, metric in study.metrics.items() if name in scored]
    places: dict[tuple[str, str, str], PublishedNumber] = {}
    for key, entry in entries.items():
        places.setdefault(key[:3], entry)
    for place, like in places.items():
        metric = _metric(like, metrics)
        for name, spec, swap, run in lines:
            absent = dataclasses.replace(like, spec=spec, swap=swap, value=math.nan)
            entry = entries.get((*place, spec, swap), absent)
            ours = _cell(study, run, entry, metric) if run else Cell()
            id = run.id if run else ""
            yield PublishedScore(entry, group, name, metric, id, ours)


def _metric(entry: PublishedNumber, metrics: Sequence[Metric]) -> str:
    # That of the same unit, for NATS the one that scores all tokens of its windows; else the first.
    same = [metric for metric in metrics if metric.better == entry.better]
    alike = [metric for metric in same if metric.unit == entry.unit]
    if entry.unit == NATS:
        alike = [metric for metric in same if metric.name == "nonoverlapping"]
    return next((metric.name for metric in (*alike, *same)), "")


def _cell(study: Study, result: Result, entry: PublishedNumber, metric: str) -> Cell:
    # What the result scores at a place; bits per byte times ln 2 are nats a token that is a byte.
    evaluated = study.evaluated.get((result.id, metric))
    if evaluated is None:
        return Cell()
    at, train, way = entry.at, result.train.length, Way(swap=entry.swap, variant=entry.variant)
    lengths = [n for n in evaluated.lengths if n > train]
    if at != BEYOND:
        wanted = float(at[:-1]) * train if at.endswith("x") else int(at)
        near = min(evaluated.lengths, key=lambda n: abs(n - wanted))
        lengths = [near] if abs(near - wanted) <= 0.05 * wanted * at.endswith("x") else []
    keys = [(result.id, way, metric, n) for n in lengths]
    if not keys or not all(key in study.scores for key in keys):
        return Cell()
    cell = mean([study.scores[key] for key in keys])
    if entry.unit == NATS and result.tokenizer.spec == "bytes":
        return Cell({r: value * math.log(2) for r, value in cell.values.items()}, cell.missing)
    return cell


def _task(result: Result) -> dict[str, Any]:
    return {"name": "text"} | result.config.get("task", {})


def _has_encodings(result: Result, spec: str) -> bool:
    # Whether it has the members of a published spec, each with the fields that are named.
    pe = result.config["pe"]
    ours, theirs = ([Term.of(text) for text in terms.members(one)] for one in (pe["spec"], spec))
    return [(name, layers) for name, _, layers in ours] == [(n, at) for n, _, at in theirs] and all(
        asked.items() <= pe.get(name, {}).items() for name, asked, _ in theirs
    )


# As sheets


def sheets(scores: Sequence[PublishedScore]) -> list[Sheet]:
    """A table for each task of a reference and group of runs: published and ours."""
    by_task = groupby(
        scores, lambda score: (score.entry.reference, score.entry.task, score.group.name)
    )
    return [_sheet([*of_task]) for _, of_task in by_task]


def _sheet(scores: Sequence[PublishedScore]) -> Sheet:
    reference, group = scores[0].entry.reference, scores[0].group
    run, titles = group.runs[0], dict[str, None]()
    rows: dict[str, list[Printed]] = {}
    for score in scores:
        entry, label = score.entry, Printed(score.name, score.name, run=score.run)
        at = f"mean beyond {run.train.length}" if entry.at == BEYOND else f"at {entry.at}"
        place = ", ".join(filter(None, [at, entry.variant]))
        titles |= {f"{place}: published": None, f"{place}: ours": None}
        published = Printed(plusminus(entry.value, math.nan), entry.value)
        rows.setdefault(score.name, [label]).extend([published, printed(score.ours)])
    sources = dict.fromkeys(f"{s.entry.source} ({s.entry.status})" for s in scores)
    settings = dict.fromkeys(score.entry.setting for score in scores)
    ours = groups.conditions(run) | {"train.batch": run.config.get("train", {}).get("batch")}
    shown = ("lm.layers", "lm.model", "lm.heads", "train.steps", "train.batch", "train.length")
    setting = [groups.worded(name, ours[name]) for name in shown if ours.get(name)]
    notes = (
        Note("Published", f"{join(sources)}. Setting: {'; or '.join(settings)}."),
        Note("Ours", f"{', '.join(setting)}, {count(len(run.seeds), 'seed')}."),
    )
    numbers = tuple(
        {
            "reference": reference,
            "task": score.entry.task,
            "group": group.name,
            "at": score.entry.at,
            "variant": score.entry.variant,
            "encoding": score.name,
            "run": score.run,
            "published": score.entry.value,
            "unit": score.entry.unit,
            "metric": score.metric,
            "mean": score.ours.mean,
            "half": score.ours.half,
            "seeds": score.ours.n,
        }
        for score in scores
    )
    blocks = (("", tuple(map(tuple, rows.values()))),)
    return Sheet(f"{group.name}, beside {reference}", ("encoding", *titles), blocks, notes, numbers)
