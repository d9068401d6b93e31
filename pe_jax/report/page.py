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
    captions,
    figures,
    formats,
    labels,
    latex,
    learning,
    sentences,
    style,
    tables,
)
from pe_jax.report.cells import Table
from pe_jax.report.choice import Choice
from pe_jax.report.words import count, plain
from pe_jax.storage import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVERYTHING = Choice()
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
    choice: Choice = EVERYTHING,
) -> list[Path]:
    """Writes a study into the folder `out` and returns the paths. All but the records shows the
    models of the `choice` alone.

    runs.jsonl, in the present version of the schema; table.md, table.tex, table.csv, report.html;
    curves.png and .pdf of the first metric; positions, training and rates, where the results hold
    curves over positions, validation while training, or several learning rates. The page tells how
    to reproduce it: the commands of the runs, then `commands`. ValueError where the results hold no
    numbers.
    """
    out = Path(out)
    results = sorted(results, key=lambda result: result.id)
    shown = choice.results(results)
    metrics = tables.metrics(shown)
    if not metrics:
        raise ValueError(f"the {count(len(results), 'record')} hold no numbers to report")
    made = (tables.extrapolation(shown, metric) for metric in metrics)
    reported = [choice.ordered(table, shown) for table in made]
    texts = {
        "runs.jsonl": "".join(record.encode(result) + "\n" for result in results),
        "table.md": formats.markdown(reported),
        "table.tex": latex.latex(reported),
        "table.csv": formats.csv(reported),
        "report.html": page(shown, reported, out.name, commands),
    }
    written = [atomic.write(out / name, text) for name, text in texts.items()]
    for name, figure in _figures(shown, metrics[0], width=5.5).items():
        written += style.save(figure, out / name)
    return written


def page(
    results: Sequence[Result], reported: Sequence[Table], name: str, commands: Sequence[str] = ()
) -> str:
    """The HTML page of a study called `name`: one file, inline figures, no outside resources."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    source, script = (
        Path(__file__).with_name(f"report.{kind}").read_text("utf-8") for kind in ("html.j2", "js")
    )
    drawn = _figures(results, reported[0].metric, width=4.6)
    called = labels.names(results)
    return environment.from_string(source).render(
        name=name,
        summary=sentences.summary(results, reported[0]),
        tables=reported,
        figures={
            key: (style.svg(figure), style.hits(figure), len(figure.axes) > 1)
            for key, figure in drawn.items()
        },
        captions=captions.captions(results, reported[0].metric, drawn),
        runs=[(called[result.id], result, list(_facts(result))) for result in results],
        commands=list(dict.fromkeys([*(r.command for r in results if r.command), *commands])),
        formats=formats,
        sentences=sentences,
        script=script,
    )


def _figures(results: Sequence[Result], metric: str, width: float) -> dict[str, Figure]:
    drawn = {
        "curves": figures.curves(results, metric, width),
        "positions": figures.positions(results, width),
        "training": learning.training(results, width),
        "rates": learning.rates(results, metric, width),
    }
    return {name: figure for name, figure in drawn.items() if figure}


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
