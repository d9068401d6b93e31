"""Scores beside published ones (`published`) as sheets, with their sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pe_jax.record import Result
from pe_jax.report.cells import described
from pe_jax.report.published import BEYOND, NEAR, Agreement, PublishedColumn, PublishedTask
from pe_jax.report.sheet import Note, Printed, Sheet, number
from pe_jax.report.sheets import mean
from pe_jax.report.words import count, each, join, plusminus

SUMMARY = ("reference", "task", "scores", "n", "rho", "5 % critical", "pairs as published", "order")
HOW = (
    "n encodings are on both sides. rho is Spearman's, between the published scores and ours; the "
    "order agrees where it reaches the critical value, which one of 20 random orders does "
    "(one-sided, 5 %). Below five encodings only pairs are counted: how many are ordered as "
    "published, of those that are not equal there. Rows of one task are scores of the same models, "
    "so they do not add up as evidence. A published score is one number, often of a "
    "best or a mean over seeds that is not given, and n/a is what one side lacks."
)


def where(column: PublishedColumn, train: int) -> str:
    """As in "mean beyond 40, ignore=0.98"."""
    at = f"mean beyond {train}" if column.at == BEYOND else f"at {column.at}"
    return ", ".join(filter(None, [at, column.variant]))


def sheets(found: Sequence[PublishedTask]) -> list[Sheet]:
    """How far the orders agree, then a table for each task of a reference."""
    return [_summary(found), *map(_beside, found)]


def _summary(found: Sequence[PublishedTask]) -> Sheet:
    """A row for each column of each task."""
    rows = tuple(
        (
            Printed(held.reference, held.reference),
            Printed(_done(held)),
            Printed(where(column, held.results[0].train.length)),
            number(one.n),
            _number(one.rho),
            _number(one.critical),
            Printed(f"{one.pairs.alike} of {one.pairs.of}") if one.pairs.of else Printed("n/a"),
            Printed(one.verdict),
        )
        for held in found
        for column, one in zip(held.columns, held.agreements, strict=True)
    )
    notes = (Note("How to read the agreement", HOW),)
    return Sheet("Order of the encodings, published and ours", SUMMARY, (("", rows),), notes)


def _beside(held: PublishedTask) -> Sheet:
    """A row for each encoding: in each column the published score and ours."""
    train = held.results[0].train.length
    titles = [f"{where(c, train)}: {side}" for c in held.columns for side in ("published", "ours")]
    rows = tuple(
        (
            Printed(line.spec, line.spec, run=line.run),
            *(
                cell
                for published, ours in zip(line.published, line.ours, strict=True)
                for cell in (_number(published), mean(ours))
            ),
        )
        for line in held.lines
    )
    return Sheet(
        held.title, ("encoding", *titles), (("", rows),), tuple(notes(held)), tuple(_numbers(held))
    )


def notes(held: PublishedTask) -> list[Note]:
    """Where the numbers are from, why the level differs, and which ranks say nothing."""
    sources = dict.fromkeys(f"{e.source} ({e.status})" for e in held.entries)
    settings = dict.fromkeys(e.setting for e in held.entries)
    units = {c.unit: described(c.metric).measured for c in held.columns if c.metric}
    differ = [f"{unit} is held against {ours}" for unit, ours in units.items() if unit != ours]
    train = held.results[0].train.length
    guesses = [
        _guesses(where(c, train), one)
        for c, one in zip(held.columns, held.agreements, strict=True)
        if one.guesses
    ]
    several = [f"{line.spec} fits {line.more + 1} runs" for line in held.lines if line.more]
    told = [Note("Where the numbers are from", f"{join(sources)}.")]
    level = f"Published: {'; or '.join(settings)}. Ours: {setting(held.results)}."
    told.append(Note("Why the level differs", " ".join([level, *(f"{d}." for d in differ)])))
    if guesses:
        told.append(Note("Which orders say nothing", " ".join(guesses)))
    if several:
        told.append(Note("What else to know", f"{join(several)}, of which one is shown."))
    return told


def setting(results: Sequence[Result]) -> str:
    """How our models were trained and scored, of one group."""
    result = results[0]
    lm, train = (result.config.get(section, {}) for section in ("lm", "train"))
    kind = "decoders" if lm.get("causal", True) else "encoders"
    sizes = [count(lm["layers"], "layer")] if "layers" in lm else []
    sizes += [f"width {lm['model']}"] if "model" in lm else []
    sizes += [count(lm["heads"], "head")] if "heads" in lm else []
    batch = f" of {train['batch']}" if "batch" in train else ""
    fixed = train.get("curriculum") == "fixed" or result.config.get("task", {}) == {}
    lengths = sorted({row.length for row in result.rows})
    parts = [
        f"{kind} of {', '.join(sizes)}" if sizes else kind,
        f"{result.train.steps:,} steps{batch}",
        result.corpus.source,
        f"trained at length {'' if fixed else 'up to '}{result.train.length}",
        f"scored at {join(lengths) if len(lengths) < 8 else _many(lengths)}",
        each([len(one.seeds) for one in results], "seed"),
    ]
    return ", ".join(parts)


def _numbers(held: PublishedTask) -> Iterator[dict[str, Any]]:
    """The rows of the CSV: one for each encoding and column."""
    for i, column in enumerate(held.columns):
        for line in held.lines:
            yield {
                "reference": held.reference,
                "task": _done(held),
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
                "n": held.agreements[i].n,
                "rho": held.agreements[i].rho,
                "critical": held.agreements[i].critical,
                "pairs_alike": held.agreements[i].pairs.alike,
                "pairs": held.agreements[i].pairs.of,
                "order": held.agreements[i].verdict,
            }


def _done(held: PublishedTask) -> str:
    """The task as the runs have it, and what sets them apart from other runs of it."""
    return ", ".join(filter(None, [held.results[0].corpus.source, held.heading]))


def _guesses(place: str, one: Agreement) -> str:
    sides = {"published": "published values", "ours": "our values"}
    who = join(sides[side] for side in one.guesses)
    return (
        f"{place[:1].upper()}{place[1:]}, all {who} lie within noise of a guess at random, "
        f"{one.chance:.3g} %: {NEAR:g} points or the half width of their interval. A rank among "
        "guesses means nothing."
    )


def _many(lengths: Sequence[int]) -> str:
    return f"{len(lengths)} lengths from {lengths[0]} to {lengths[-1]}"


def _number(value: float) -> Printed:
    return Printed(plusminus(value, math.nan), value)
