"""The rows of methods without a model: what a table of samples compares its models with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pe_jax.record import Result, Way
from pe_jax.report import stats
from pe_jax.report.cells import Cell, Row, Table, described, in_percent
from pe_jax.report.style import Line, Look

MOST_FREQUENT, SYMBOL = "most frequent", "most frequent symbol"
NAMES = {MOST_FREQUENT: "most frequent target", SYMBOL: SYMBOL, "bayes": "Bayes"}
SAID = {
    "bayes": "the prediction that is best on average, given the tokens so far",
    MOST_FREQUENT: "the target that its place has most often in other samples",
    "3-gram": "how often each label came behind the last three tokens in other samples",
    SYMBOL: "the target that all places of other samples together have most often",
    "guess": "a simple method of the task's own",
}
DASHES = {MOST_FREQUENT: ":", SYMBOL: (0, (1, 3)), "bayes": "--"}


def rows(
    results: Sequence[Result], metric: str, lengths: Sequence[int], every: Sequence[int]
) -> list[Row]:
    """A row for each method that the results have values of by this metric: those for the task as
    trained first, then those for its variants, the most frequent target before others. Cells are
    at `lengths`, of `every` length scored.

    The samples are the same for all results of a table, so the values of one result are those of
    all; the results are asked in the order of their ids.
    """
    found: dict[tuple[Way, str], dict[int, float]] = {}
    for result in sorted(results, key=lambda result: result.id):
        for one in result.baselines:
            if one.metric == metric:
                found.setdefault((one.way, one.name), {}).setdefault(one.length, one.value)
    train = results[0].train.length
    order = sorted(found, key=lambda pair: (str(pair[0]), pair[1] != MOST_FREQUENT, pair[1]))
    return [_row(name, way, found[way, name], lengths, every, train, metric) for way, name in order]


def lines(results: Sequence[Result], metric: str) -> list[Line]:
    """A grey line for each method that the results have values of by this metric, on the task as
    trained.
    """
    values: dict[str, dict[int, float]] = {}
    for result in sorted(results, key=lambda result: result.id):
        for one in result.baselines:
            if one.metric == metric and not one.way:
                values.setdefault(one.name, {}).setdefault(one.length, one.value)
    return [
        Line.through(
            [(length, value, math.nan) for length, value in sorted(points.items())],
            NAMES.get(name, name),
            Look("#808080", DASHES.get(name, "-."), ""),
        )
        for name, points in sorted(values.items())
    ]


def note(table: Table) -> Iterator[str]:
    """What the rows without a model are, where the table has some."""
    names = dict.fromkeys(
        row.method for row in table.rows if row.method and row.block != "reference"
    )
    if names:
        told = "; ".join(f"{NAMES.get(name, name)}: {SAID.get(name, name)}" for name in names)
        yield f"No model: what a method that learns nothing scores on the same samples ({told})."


def _row(
    name: str,
    way: Way,
    values: dict[int, float],
    lengths: Sequence[int],
    every: Sequence[int],
    train: int,
    metric: str,
) -> Row:
    at = [values.get(length, math.nan) for length in every]
    gain, beyond = Cell(), None
    if in_percent(metric):
        effective, censored = stats.solved_length(every, [[value] for value in at], train)
        beyond = _cell([value for length, value in zip(every, at, strict=True) if length > train])
    else:
        sign = described(metric).sign
        effective, censored = stats.effective_length(every, at, train, sign=sign)
        gain = _cell([values.get(every[-1], math.nan) - values.get(train, math.nan)])
    return Row(
        run="",
        label=", ".join(filter(None, [f"no model: {NAMES.get(name, name)}", str(way)])),
        way=way,
        replicas=0,
        cells=tuple(_cell([values.get(length, math.nan)]) for length in lengths),
        gain=gain,
        effective=effective,
        censored=censored,
        parameters=None,
        ms_per_step=None,
        beyond=beyond,
        method=name,
    )


def _cell(values: Sequence[float]) -> Cell:
    """The mean of values that are no seeds', so that there is no interval."""
    if not values or any(math.isnan(value) for value in values):
        return Cell(reason="not evaluated")
    return Cell(mean=sum(values) / len(values), n=1)
