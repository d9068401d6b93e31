"""Every model of a table, or every swap of its single model, against the baseline, which is one of
them: paired differences over seeds, places or samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pe_jax.errors import nearest
from pe_jax.record import Replica, Result
from pe_jax.report import stats
from pe_jax.report.cells import Table, TableRow, compared, described

USUAL = ("rope", "nope")
"""The baseline where none is named: the first of these that a table has."""


@dataclass(frozen=True)
class Against:
    """A row minus the baseline at one length: the mean difference with its 95 % interval, and the p
    of the paired t test, adjusted by Holm's method for the rows of this length. For answers, right
    or wrong, p is from McNemar's exact test, and the difference has no interval.

    `verdict` is "better", "worse", "not distinguishable", or "equal" where all shared replicas have
    the same value to the bit; "" where fewer than two replicas are shared. `p_within` is the p of
    `stats.equivalence` within `Versus.margin`, adjusted in the same way; NaN without a margin.
    """

    change: stats.Interval
    p: float
    verdict: str
    p_within: float

    @property
    def equivalent(self) -> bool:
        """Whether the tests show that the difference lies within the margin."""
        return self.p_within <= stats.LEVEL


@dataclass(frozen=True)
class Versus:
    """The rows of one table against the baseline, in the order of the table: the models as trained,
    and the swaps of a single model.
    """

    table: Table
    baseline: str
    rows: tuple[tuple[TableRow, tuple[Against, ...]], ...]
    """Each row with a cell for each length."""
    margin: float | None
    """Differences within it do not matter, in the unit of the metric; None: none was stated."""
    answers: bool
    """Whether all values are answers, right or wrong (`stats.yes_or_no`)."""
    named: bool
    """Whether a user has named the baseline."""

    @property
    def title(self) -> str:
        """As in "Bits per byte, same targets (lower is better): difference from rope"."""
        parts = [f"difference from {self.baseline}", self.table.heading]
        return f"{described(self.table.metric).title}: {', '.join(filter(None, parts))}"


def versus(
    results: Sequence[Result],
    reported: Sequence[Table],
    baseline: str | None = None,
    margin: float | None = None,
) -> list[Versus]:
    """The comparison of each table of `reported` that has the baseline and another row; with a
    `margin`, with tests of equivalence. Beyond the training length only rows that are
    `TableRow.compared` have values.

    `baseline` is a row's label, or a swap of a single model; None is rope, else nope, else the
    first model of a table. A ValueError, with the nearest labels, where no table has it.
    """
    by_id = {result.id: result for result in results}
    found, known, swaps = [], set[str](), set[str]()
    for table in reported:
        rows = [row for row in table.rows if row.candidate]
        if len(rows) < 2:
            continue
        known |= {row.label for row in rows}
        swaps |= {str(row.way) for row in rows if row.way}
        if base := _base(rows, by_id, baseline):
            others = [row for row in rows if row is not base]
            samples = [
                [compared(row, by_id[row.run], table.metric, n) for row in rows]
                for n in table.lengths
            ]
            place, sign = rows.index(base), described(table.metric).sign
            answers = stats.yes_or_no(one for column in samples for one in column)
            columns = [
                _column(column[place], column[:place] + column[place + 1 :], sign, answers, margin)
                for column in samples
            ]
            cells = tuple(zip(others, zip(*columns, strict=True), strict=True))
            found.append(Versus(table, base.label, cells, margin, answers, baseline is not None))
    if baseline and not known:
        raise ValueError(
            f"nothing can be compared with {baseline!r}: that takes two models, or one with swaps, "
            "and scores of several seeds, places or samples"
        )
    if baseline and not found:
        raise ValueError(
            f"nothing that others can be compared with is called {baseline!r}"
            f"{nearest(baseline, known | swaps, 3)} Known: {'; '.join(sorted(known))}."
        )
    return found


def _base(
    rows: Sequence[TableRow], by_id: Mapping[str, Result], baseline: str | None
) -> TableRow | None:
    """The row of the model that is `chosen`, else of the swap called `baseline`; None: no row."""
    trained = {row.run: row for row in rows if row.trained}
    called = {id: row.label for id, row in trained.items()}
    if model := chosen([by_id[id] for id in trained], called, baseline):
        return trained[model.id]
    swapped = [row for row in rows if row.way and baseline in (row.label, str(row.way))]
    return swapped[0] if len(swapped) == 1 else None


def chosen(
    results: Sequence[Result], called: Mapping[str, str], baseline: str | None = None
) -> Result | None:
    """The only result named `baseline`: in `called`, {id: label}, else by the label of its record,
    else by the spec of its config; None where there is no such result, or several. Without a
    `baseline` it is rope, else nope, else the first result.
    """
    for name in [baseline] if baseline else USUAL:
        exact = [result for result in results if called[result.id] == name]
        bare = [result for result in results if result.label == name]
        own = [result for result in results if result.config.get("pe", {}).get("spec") == name]
        if len(found := exact or bare or own) == 1:
            return found[0]
    return None if baseline or not results else results[0]


def _column(
    of_base: Mapping[Replica, float],
    samples: Sequence[Mapping[Replica, float]],
    sign: int,
    answers: bool,
    margin: float | None,
) -> list[Against]:
    """The values by replica of each row against those of the baseline, at one length."""
    changes = [stats.paired(sample, of_base) for sample in samples]
    if answers:
        changes = [change._replace(half=math.nan) for change in changes]
    adjusted = stats.holm(stats.p_values(samples, of_base))
    within = [math.nan] * len(samples)
    if margin is not None:
        within = stats.holm([stats.equivalence(each, of_base, margin) for each in samples])
    return [
        Against(change, p, _verdict(change, p, sign, _same(sample, of_base)), p_within)
        for sample, change, p, p_within in zip(samples, changes, adjusted, within, strict=True)
    ]


def _same(a: Mapping[Replica, float], b: Mapping[Replica, float]) -> bool:
    """Whether the replicas that both have, one at least, have the same values to the bit."""
    shared = a.keys() & b.keys()
    return bool(shared) and all(a[replica] == b[replica] for replica in shared)


def _verdict(change: stats.Interval, p: float, sign: int, same: bool) -> str:
    if same:
        return "equal"
    if change.n < 2:
        return ""
    if p > stats.LEVEL:
        return "not distinguishable"
    return "better" if sign * change.mean < 0 else "worse"
