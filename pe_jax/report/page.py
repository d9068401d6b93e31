"""The folder that a study publishes: results, tables, figures and one self-contained HTML page.

The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax import record
from pe_jax.record import Result
from pe_jax.report import (
    differences,
    figures,
    formats,
    improvement,
    labels,
    sentences,
    style,
    tables,
)
from pe_jax.report.baseline import Versus, versus
from pe_jax.report.cells import Table
from pe_jax.report.words import plain
from pe_jax.storage import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTS = (
    "started",
    "commit",
    "seconds",
    "peak_memory_mib",
    "parameters",
    "seeds",
    "device",
    "versions",
    "corpus",
    "tokenizer",
)
"""The fields of a record that the page shows of each run, besides its config and its loss."""


def write(
    results: Iterable[Result],
    out: str | Path,
    commands: Sequence[str] = (),
    baseline: str | None = None,
) -> list[Path]:
    """Writes a study into the folder `out` and returns the paths.

    runs.jsonl, in the present version of the schema; table.md, table.tex, table.csv, report.html;
    baseline.md and .csv, every model against `baseline` (`baseline.versus`); curves.png and .pdf
    of the first metric, positions.png and .pdf where the results hold curves over positions, and
    improvement.png and .pdf, the probabilities of improvement, for each table of the first metric.
    The page tells how to reproduce it: the commands of the runs, then `commands`. ValueError where
    the results hold no numbers, and where no model is called `baseline`.
    """
    out = Path(out)
    results = sorted(results, key=lambda result: result.id)
    reported = tables.study(results)
    compared = versus(results, reported, baseline)
    texts = {
        "runs.jsonl": "".join(record.encode(result) + "\n" for result in results),
        "table.md": formats.markdown(reported),
        "table.tex": formats.latex(reported),
        "table.csv": formats.csv(reported),
        "report.html": page(results, reported, out.name, commands, compared),
    }
    if compared:
        texts["baseline.md"] = differences.markdown(compared)
        texts["baseline.csv"] = differences.csv(compared)
    written = [atomic.write(out / name, text) for name, text in texts.items()]
    for name, figure in _figures(results, reported, width=5.5).items():
        written += style.save(figure, out / name)
    return written


def page(
    results: Sequence[Result],
    reported: Sequence[Table],
    name: str,
    commands: Sequence[str] = (),
    compared: Sequence[Versus] = (),
) -> str:
    """The HTML page of a study called `name`: one file, inline figures, no outside resources.

    Below each table stand its models against the baseline, where `compared` has them.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    source = Path(__file__).with_name("report.html.j2").read_text("utf-8")
    drawn = _figures(results, reported, width=4.6)
    captions = sentences.captions(reported[0], figures.position_metric(results))
    captions |= {name: improvement.caption(table) for name, table in _first(reported).items()}
    called = labels.names(results)
    return environment.from_string(source).render(
        name=name,
        summaries=[sentences.summary(t) for t in reported if t.metric == reported[0].metric],
        tables=reported,
        compared=compared,
        differences=differences,
        figures={key: style.svg(figure) for key, figure in drawn.items()},
        captions=captions,
        runs=[(called[result.id], result, list(_facts(result))) for result in results],
        commands=list(dict.fromkeys([*(r.command for r in results if r.command), *commands])),
        formats=formats,
    )


def _figures(
    results: Sequence[Result], reported: Sequence[Table], width: float
) -> dict[str, Figure]:
    drawn = {
        "curves": figures.curves(results, reported[0].metric, width),
        "positions": figures.positions(results, width),
    }
    for name, table in _first(reported).items():
        drawn[name] = improvement.matrix(results, table)
    return {name: figure for name, figure in drawn.items() if figure}


def _first(reported: Sequence[Table]) -> dict[str, Table]:
    """The tables of the first metric by the names of their figures."""
    first = [table for table in reported if table.metric == reported[0].metric]
    return {"improvement" + (f"-{i}" if i > 1 else ""): table for i, table in enumerate(first, 1)}


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """(name, text) of each fact that the page shows of a run."""
    known = record.plain(result)
    for name in FACTS:
        value = known[name]
        if value not in (None, ""):
            value = dict(sorted(value.items())) if isinstance(value, dict) else value
            yield name.replace("_", " "), plain(value)
    if result.train.loss:
        yield "final training loss", plain(result.train.loss)
