"""The results of a study, read from its folder; for notebooks, as a pandas table and a figure."""

from __future__ import annotations

import contextlib
import math
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pe_jax.record import CorpusRecord, Replica, Result, Row, Training, Way
from pe_jax.report import cells, figures, labels
from pe_jax.report.words import join, plain
from pe_jax.storage import atomic, records

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

KINDS = typing.get_args(typing.get_type_hints(Replica)["kind"])
SCALARS = int | float | str | None


def load(
    workdir: str | Path, remedy: str = "", warn: Callable[[str], None] | None = None
) -> list[Result]:
    """The results of `<workdir>/runs.jsonl`, or of every `<workdir>/*/result.json`, by their id.

    A run that stands there twice counts once. A damaged record, and a second one of a run with
    other results, is left out, and `warn` is called with a sentence on it; without `warn` it is a
    ValueError. Without any result, a ValueError ends with `remedy`: how to make some.
    """
    workdir = Path(workdir)
    published = workdir / "runs.jsonl"
    if published.is_file():
        lines = published.read_bytes().splitlines()
        texts = {f"{published}, line {i}": line for i, line in enumerate(lines, 1) if line}
    else:
        texts = {}
        for path in (folder / "result.json" for folder in atomic.entries(workdir)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                texts[str(path)] = path.read_bytes()
    by_id: dict[str, Result] = {}
    damages = []
    for place, text in texts.items():
        try:
            result = records.parse(Result, text.decode())
            if by_id.setdefault(result.id, result) != result:
                raise ValueError(f"the run {result.id} stands there before, with other results")
        except ValueError as error:  # of JSON and UTF-8, too
            damages.append(f"{place} is damaged ({error})")
            if warn is None:
                raise ValueError(f"{damages[-1]}: delete it and run it again") from error
            warn(f"{damages[-1]}: it is left out")
    if not by_id:
        needed = f"no results in {str(workdir)!r}: it needs */result.json or runs.jsonl"
        raise ValueError("; ".join(filter(None, [needed, *damages[:3], remedy])))
    return sorted(by_id.values(), key=lambda result: result.id)


def together(
    folders: Iterable[str | Path], remedy: str = "", warn: Callable[[str], None] | None = None
) -> list[Result]:
    """The results that `load` reads from several folders, by their id; {} in the remedy stands for
    the folder.

    A run that lies in several folders counts once; ValueError where its results differ.
    """
    by_id: dict[str, tuple[Path, Result]] = {}
    for folder in map(Path, folders):
        for result in load(folder, remedy.format(folder), warn):
            first_folder, first = by_id.setdefault(result.id, (folder, result))
            if first != result:
                raise ValueError(
                    f"{str(first_folder)!r} and {str(folder)!r} both have the run {result.id}, "
                    "with different results: `pe-jax compare` says what differs"
                )
    return sorted((result for _, result in by_id.values()), key=lambda result: result.id)


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

    cells.describe(results)
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
            "value": cells.value(row),
            "reason": row.why,
            "train_length": result.train.length,
        }
        | apart[result.id]
        for result in results
        for row in result.rows
    ]
    return pandas.DataFrame(rows)


def curves(frame: pandas.DataFrame, metric: str = "same_targets") -> Figure:
    """The figure of a metric, in its unit, against evaluation length in tokens, from a frame or
    some of its rows: the mean over seeds of each encoding, with its 95 % interval.

    See `figures.curves`. ValueError where the frame has no value of the metric.
    """
    metrics = frame["metric"].unique().tolist()
    if metric not in metrics:
        known = join(metrics) if metrics else "no rows"
        raise ValueError(f"no row of the frame has the metric {metric!r}; the frame has {known}")
    figure = figures.curves(
        [_result(run, rows) for run, rows in frame.groupby("run", sort=False)], metric
    )
    if figure is None:
        raise ValueError(f"no row of the frame has a value of the metric {metric!r}")
    return figure


def _result(run: object, rows: pandas.DataFrame) -> Result:
    """A run as `figures.curves` needs it, from its rows in a frame."""
    length = int(rows["train_length"].iloc[0])
    return Result(
        id=str(run),
        label=rows["label"].iloc[0],
        config={},
        seeds=(),
        corpus=CorpusRecord(source="", hash=""),
        train=Training(length=length, steps=0),
        rows=tuple(
            Row(
                replica=_replica(row),
                way=Way(swap=row["way"]),
                metric=row["metric"],
                length=row["length"],
                value=None if math.isnan(row["value"]) else row["value"],
            )
            for row in rows.to_dict("records")
        ),
    )


def _replica(row: dict[Any, Any]) -> Replica:
    """The replica of a row of a frame."""
    kind = next(kind for kind in KINDS if not math.isnan(row.get(kind, math.nan)))
    return Replica(kind, int(row[kind]))
