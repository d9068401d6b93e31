"""What a table consists of, cells and rows, and how a cell comes from the replicas of a result."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pe_jax import record
from pe_jax.metric import Metric, SampleMetric
from pe_jax.metrics import METRICS
from pe_jax.record import AS_TRAINED, SENTENCES, Reason, Replica, Result, Way
from pe_jax.report import groups, stats
from pe_jax.report.groups import Condition
from pe_jax.report.headroom import HEADROOM
from pe_jax.report.sheet import Note

SOLVED = 99.0
"""Percent right from which on a seed solves the training length; beyond it, it is
`stats.SOLVED_BEYOND`."""
CROPPED, TRAINED_AT = "cropped", "trained at E"
"""The methods of reference rows (reference_rows.py)."""
COLUMNS = 7
"""How many lengths a table of samples has at most."""


@dataclass(frozen=True)
class Cell:
    """A mean over n replicas and the half width of its 95 % interval, in the unit of the metric."""

    mean: float = math.nan
    half: float = math.nan
    n: int = 0
    reason: str = ""  # why replicas are missing, for a footnote; "": none is
    lost: bool = False  # no replica has a value: too many positions for the model, or not finite
    best: bool = False  # not told apart from the best of its column, which prints bold


@dataclass(frozen=True)
class TableRow:
    """One model, as trained or scored in another way: a cell for each length, and what follows
    from them; `replicas` is how many scores a cell is the mean of.

    `gain` is the value at the longest length minus the one at the training length, paired over
    replicas; `effective` and `censored` are those of `stats.effective_length` on the means; `rank`
    is over the lengths beyond training, for models as trained. `rate` is the learning rate, of
    several the chosen one, and `rate_edge` is "lowest" or "highest" where it is that of them;
    `parameters` counts what its encodings have learned. Of samples, `beyond` is the mean over all
    lengths beyond training, and `effective` the longest length that is solved,
    `stats.solved_length`.
    """

    run: str
    label: str
    way: Way
    replicas: int
    cells: tuple[Cell, ...]
    gain: Cell
    effective: int | None
    censored: bool
    parameters: int | None = None
    ms_per_step: float | None = None
    rate: float | None = None
    rate_edge: str = ""
    solved: int | None = None
    """Of a task, how many seeds have at least SOLVED % at the training length; None elsewhere."""
    compared: bool = True
    """Whether it is compared with other rows beyond the training length: not if it is of a task and
    its mean there is below SOLVED %."""
    rank: stats.Rank | None = None
    beyond: Cell | None = None
    method: str = ""
    """The name of a method without a model, `record.Baseline.name`, or of a reference, CROPPED or
    TRAINED_AT; "": the row is a model's."""
    seconds: float | None = None
    """Of a pretrained model: of a window of the longest length, the median over places."""
    together: bool = False
    """Whether all swaps stand in one block, as they do where a table has one model."""

    @property
    def trained(self) -> bool:
        """Whether it is a model as trained, on the task that it was trained on."""
        return not self.way and not self.method

    @property
    def candidate(self) -> bool:
        """Whether it may be bold and have a baseline: a model as trained, or a swap of a single
        model.
        """
        return self.trained or bool(self.way and self.together)

    @property
    def cost(self) -> float | None:
        """Milliseconds of a training step; of a pretrained model `seconds`."""
        return self.ms_per_step if self.seconds is None else self.seconds

    @property
    def block(self) -> str:
        """The block of the table in which the row stands. The methods without a model stand with
        the models on a variant of the task, and in a block of their own on the task as trained.
        """
        if self.way and self.together:
            return "swapped in"
        if self.method in (CROPPED, TRAINED_AT):
            return "reference"
        return str(self.way) or ("no model" if self.method else "as trained")

    @property
    def summary(self) -> Cell:
        """The headline number of a row: `beyond`, or the gain."""
        return self.gain if self.beyond is None else self.beyond


@dataclass(frozen=True)
class Table:
    """The rows of one metric and group in the order they print: the models as trained, the
    reference rows, then a block for each other way (swap, variant, memory), with what methods
    without a model score there. `lengths` are those of the columns: of samples, which are scored at
    many, a few.
    """

    metric: str
    lengths: tuple[int, ...]
    train_length: int
    rows: tuple[TableRow, ...]
    notes: tuple[Note, ...] = ()
    apart: tuple[Condition, ...] = ()
    """What sets its group apart from the others of a study."""
    tokens: int | None = None
    """Tokens of a sample of the training length; None: as many as this length."""
    evaluated: tuple[int, ...] = ()  # all lengths at which values were computed
    replicate: str = "seed"  # whose values a cell is the mean of: `record.Replica.kind`

    @property
    def blocks(self) -> list[tuple[str, list[TableRow]]]:
        """The rows by their `TableRow.block`, in order."""
        return [(name, list(rows)) for name, rows in groupby(self.rows, lambda row: row.block)]

    @property
    def of_swaps(self) -> bool:
        """Whether it compares one model with its swaps."""
        return any(row.way and row.together for row in self.rows)

    @property
    def heading(self) -> str:
        """What sets its group apart, as in "trained at 64 tokens, 350 steps"; "": nothing."""
        return groups.heading(self.apart)

    @property
    def title(self) -> str:
        """As in "Bits per byte, same targets (lower is better): 350 steps"."""
        return ": ".join(filter(None, [described(self.metric).title, self.heading]))


USERS: dict[str, Metric] = {}
"""The users' metrics of the results that tables are made of, by their names in the rows."""


def describe(results: Iterable[Result]) -> None:
    """Registers the users' metrics that the results describe: a report reads no user's file."""
    for result in results:
        for name, told in result.metrics.items():
            fields = ("sentence", "unit", "better", "logarithm")
            fields += ("percent",) if told.samples else ()
            like = METRICS["accuracy"] if told.samples else METRICS["same_targets"]
            own = {field: getattr(told, field) for field in fields}
            USERS[name] = dataclasses.replace(like, name=name, **own)


def described(name: str) -> Metric:
    """The metric of that name: one of METRICS, HEADROOM, or a user's, as `describe` knows it. One
    that is in none gets the default unit and direction, and its sentence says so.
    """
    if name == HEADROOM.name:
        return HEADROOM
    unknown = (
        f"The metric {name} is not defined here: its unit is taken to be bits per byte and lower "
        "to be better."
    )
    return METRICS.get(name) or USERS.get(name) or Metric(name, unknown)


def of_samples(metric: str) -> bool:
    """Whether it is a metric of a task that draws its samples."""
    return isinstance(described(metric), SampleMetric)


def in_percent(metric: str) -> bool:
    """Whether it is a metric of samples of which 100 is the best value."""
    found = described(metric)
    return isinstance(found, SampleMetric) and found.percent


def column_lengths(lengths: Sequence[int], train: int) -> tuple[int, ...]:
    """The lengths nearest to the training length and its multiples by powers of two, and the
    longest; all lengths where they are at most COLUMNS.
    """
    if len(lengths) <= COLUMNS:
        return tuple(lengths)
    wanted = [train * 2**power for power in range(COLUMNS - 1) if train * 2**power < lengths[-1]]
    near = {min(lengths, key=lambda n, goal=goal: abs(n - goal)) for goal in wanted}
    return tuple(sorted(near | {lengths[-1]}))


def ordered(names: Iterable[str]) -> list[str]:
    """The distinct metrics of these names: those of METRICS first, in its order."""
    present = set(names)
    return [name for name in METRICS if name in present] + sorted(present - METRICS.keys())


def curve_metric(results: Iterable[Result], samples: bool) -> str | None:
    """The first metric, of samples or else of text, that models as trained have curves of."""
    present = ordered(
        curve.metric
        for result in results
        for curve in result.curves
        if not curve.way and of_samples(curve.metric) == samples
    )
    return present[0] if present else None


def value(row: record.Row) -> float:
    """The number of a result's row, NaN where it was not computed or is not finite."""
    return row.value if row.value is not None and math.isfinite(row.value) else math.nan


def by_replica(
    result: Result, metric: str, length: int, way: Way = AS_TRAINED
) -> dict[Replica, record.Row]:
    """The result's rows that one cell is made of, their values as reports show them."""
    rows = [
        row
        for row in result.rows
        if row.length == length and row.way == way and row.metric == metric
    ]
    if described(metric).logarithm:
        rows = [
            row if math.isnan(value(row)) else dataclasses.replace(row, value=_log(value(row)))
            for row in rows
        ]
    return {row.replica: row for row in rows}


def _log(value: float) -> float | None:
    return math.log(value) if value > 0 else None


def values(rows: Mapping[Replica, record.Row]) -> dict[Replica, float]:
    """The numbers of the replicas that have one."""
    return {replica: value(row) for replica, row in rows.items() if not math.isnan(value(row))}


def compared(row: TableRow, result: Result, metric: str, length: int) -> dict[Replica, float]:
    """The values of a result's row that are compared with those of others at a length: beyond the
    training length only those of a row that is `TableRow.compared`.
    """
    allowed = row.compared or length <= result.train.length
    return values(by_replica(result, metric, length, row.way)) if allowed else {}


def rate(result: Result) -> float | None:
    """The learning rate; where several were tried, the chosen one. None in a config without one."""
    if result.rates:
        return min(result.rates, key=lambda tried: tried.mean).rate
    return result.config.get("train", {}).get("rate")


def edge(result: Result) -> str:
    """ "lowest" or "highest" if the chosen learning rate is the end of several tried; else ""."""
    chosen, tried = rate(result), {one.rate for one in result.rates}
    if len(tried) < 2:
        return ""
    return "lowest" if chosen == min(tried) else "highest" if chosen == max(tried) else ""


def seconds(result: Result, metric: str, length: int, way: Way) -> float | None:
    """The median seconds of a pass over the replicas whose rows have them; None: none has."""
    rows = by_replica(result, metric, length, way).values()
    return statistics.median(known) if (known := [r.seconds for r in rows if r.seconds]) else None


def cell(result: Result, metric: str, length: int, way: Way = AS_TRAINED) -> Cell:
    """Mean and interval over the replicas that have a value, and why the others have none."""
    rows = by_replica(result, metric, length, way)
    return _explained(values(rows), rows, result.replicas(metric))


def gain(result: Result, metric: str, longest: int, way: Way) -> Cell:
    """The value at the longest length minus that at the training length, paired over replicas."""
    start = by_replica(result, metric, result.train.length, way)
    end = by_replica(result, metric, longest, way)
    before, after = values(start), values(end)
    gains = {r: after[r] - before[r] for r in sorted(before.keys() & after.keys())}
    # The row that says why there is no gain: the one at the training length if that is missing.
    rows = end | {replica: row for replica, row in start.items() if replica not in before}
    return _explained(gains, rows, result.replicas(metric))


def beyond(result: Result, metric: str, lengths: Sequence[int], way: Way) -> Cell:
    """The mean over the lengths beyond training; a replica that lacks one of them has none."""
    lacking = {
        replica: row
        for length in lengths
        if length > result.train.length
        for replica, row in by_replica(result, metric, length, way).items()
        if math.isnan(value(row))
    }
    means = means_beyond(result, metric, lengths, way)
    return _explained(means, lacking, result.replicas(metric))


def means_beyond(
    result: Result, metric: str, lengths: Sequence[int], way: Way
) -> dict[Replica, float]:
    """The mean over the lengths beyond training of each replica that has all of them."""
    longer = [length for length in lengths if length > result.train.length]
    columns = [values(by_replica(result, metric, length, way)) for length in longer]
    shared = set.intersection(*map(set, columns)) if columns else set()
    return {r: sum(column[r] for column in columns) / len(columns) for r in sorted(shared)}


def _explained(
    present: Mapping[Replica, float],
    rows: Mapping[Replica, record.Row],
    every: Sequence[Replica],
) -> Cell:
    """The cell of the values `present`, of `every` replica; `rows` say why the others have none."""
    interval = stats.interval(list(present.values()))
    missing = {replica: rows.get(replica) for replica in every if replica not in present}
    why = {replica: _why(row) for replica, row in missing.items()}
    each = "; ".join(f"{replica} {reason}" for replica, reason in why.items())
    if why and interval.n:
        return Cell(*interval, f"n={interval.n} of {len(every)}: {each}")
    kinds = {row.reason or Reason.NOT_FINITE if row else None for row in missing.values()}
    lost = bool(kinds) and kinds <= {Reason.BEYOND_POSITIONS, Reason.NOT_FINITE}
    reasons = set(why.values())
    return Cell(*interval, each if len(reasons) > 1 else "".join(reasons), lost)


def _why(row: record.Row | None) -> str:
    if row is None:
        return SENTENCES[Reason.NOT_EVALUATED]
    return row.why or SENTENCES[Reason.NOT_FINITE]
