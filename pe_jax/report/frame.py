"""The scores of runs as a pandas table, and their figure; for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax.record import SENTENCES, Reason, Result
from pe_jax.report import figures, labels
from pe_jax.report.phrases import join, plain
from pe_jax.report.selection import Selection
from pe_jax.report.study import load

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

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
            "reason": row.why or SENTENCES[Reason.NOT_FINITE] * (row.value is None),
            "train_length": result.train.length,
        }
        | apart[result.id]
        for result in results
        for row in result.rows
    ]
    return pandas.DataFrame(rows)


def curves(workdir: str | Path, metric: str = "same_targets", rows: Iterable[str] = ()) -> Figure:
    """The figure of a metric, in its unit, against evaluation length in tokens, of the results in a
    folder: the mean over seeds of each encoding, with its 95 % interval (`figures.curves`).

    `rows` chooses encodings by their labels, or names them as in "rope as RoPE"; default: all.
    ValueError where no result has the metric, or a label.
    """
    study = Selection.of(rows).study(load(workdir))
    runs = [run for group in study.groups for run in group.runs]
    known = [
        name for name in study.metrics if any((run.id, name) in study.evaluated for run in runs)
    ]
    drawn = figures.curves(study, runs, study.metrics[metric]) if metric in known else None
    if drawn is None:
        raise ValueError(f"no result has a value of {metric!r}; the metrics are {join(known)}")
    return drawn.figure
