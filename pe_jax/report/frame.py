"""The scores of runs as a pandas table, and a figure of it; for notebooks."""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax.metrics import METRICS
from pe_jax.record import CorpusRecord, Replica, Result, Row, Training, UsersMetric, Way
from pe_jax.report import figures, labels
from pe_jax.report.study import Study, load
from pe_jax.report.words import join, plain
from pe_jax.storage import records

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

KINDS = typing.get_args(typing.get_type_hints(Replica)["kind"])
SCALARS = int | float | str | None


def frame(workdir: str | Path) -> pandas.DataFrame:
    """The scores of every result in a folder, with the columns of `frame_of`. ValueError where
    there is no result, or a damaged one.
    """
    return frame_of(load(workdir))


def frame_of(results: Sequence[Result]) -> pandas.DataFrame:
    """The scores of results: a row for each replica, way, metric and length.

    Columns: run, label, seed, way, metric, length and train_length in tokens, value in the unit of
    the metric (longppl: the perplexity), and reason, a sentence where value is NaN. Scores of
    places or samples have the column place or sample, by number, and no seed. Then a column for
    each value of the config in which the results differ, by its path, as "train.rate"; a value that
    is no number, text or boolean is in words, and one that a config lacks is missing.
    """
    import pandas

    apart = {
        id: {
            key: value if isinstance(value, SCALARS) else plain(value) for key, value in own.items()
        }
        for id, own in labels.differing(results).items()
    }
    rows = [
        {
            "run": result.id,
            "label": result.label,
            row.replica.kind: row.replica.number,
            "way": str(row.way),
            "metric": row.metric,
            "length": row.length,
            "value": math.nan if row.value is None or math.isinf(row.value) else row.value,
            "reason": row.why,
            "train_length": result.train.length,
        }
        | apart[result.id]
        for result in results
        for row in result.rows
    ]
    made = pandas.DataFrame(rows)
    users = {name: own for result in results for name, own in result.metrics.items()}
    made.attrs["metrics"] = records.plain(users)
    return made


def curves(frame: pandas.DataFrame, metric: str = "same_targets") -> Figure:
    """The figure of a metric, in its unit, against evaluation length in tokens, from a frame or
    some of its rows: the mean over seeds of each encoding, with its 95 % interval.

    See `figures.curves`. ValueError where the frame has no value of the metric.
    """
    metrics = frame["metric"].unique().tolist()
    if metric not in metrics:
        known = join(metrics) if metrics else "no rows"
        raise ValueError(f"no row of the frame has the metric {metric!r}; the frame has {known}")
    if metric not in METRICS and metric not in frame.attrs.get("metrics", {}):
        raise ValueError(
            f"the frame has lost what {metric!r} is, as pandas.concat does: make one of all results"
        )
    study = Study.of([_result(run, rows) for run, rows in frame.groupby("run", sort=False)])
    figure = figures.curves(study, [*study.runs.values()], study.metrics[metric])
    if figure is None:
        raise ValueError(f"no row of the frame has a value of the metric {metric!r}")
    return figure


def _result(id: object, rows: pandas.DataFrame) -> Result:
    # As `figures.curves` needs it.
    return Result(
        id=str(id),
        label=rows["label"].iloc[0],
        config={},
        seeds=(),
        corpus=CorpusRecord(source="", hash=""),
        train=Training(length=int(rows["train_length"].iloc[0]), steps=0),
        metrics={name: UsersMetric(**own) for name, own in rows.attrs.get("metrics", {}).items()},
        rows=tuple(
            Row(
                replica=next(
                    Replica(kind, int(row[kind]))
                    for kind in KINDS
                    if not math.isnan(row.get(kind, math.nan))
                ),
                way=Way(swap=row["way"]),
                metric=row["metric"],
                length=row["length"],
                value=None if math.isnan(row["value"]) else row["value"],
            )
            for row in rows.to_dict("records")
        ),
    )
