"""The folder of an atlas: the HTML page, the table of properties, every captioned figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pe_jax.atlas import carriers, figures, weights
from pe_jax.atlas.layer import Layer
from pe_jax.atlas.properties import COLUMNS, NOTES, Measured, Properties, by_group
from pe_jax.report import sheet, style
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.report.style import Drawn
from pe_jax.storage import atomic

FIGURES = "figures"
"""The folder of the figures of single encodings."""


def write(
    layers: Sequence[Layer],
    out: Path,
    command: str,
    update: Callable[[int, str], None],
    of_carriers: bool = False,
) -> list[Path]:
    """Writes atlas.html, properties.md and .csv and, of several encodings, distances and maps
    (.png, .pdf) into `out`, and NAME.FIGURE.png and .pdf of every encoding into `out`/figures.
    With `of_carriers` also carriers.md and .csv, of trained models.
    Returns the paths of the files in `out` itself. `update` gets the number of finished layers and
    the name of the next. Nothing is written where one of them fails.
    """
    measured, entries, tables = [], [], []
    with atomic.together(out) as draft, atomic.together(out / FIGURES) as drafts:
        for i, (layer, name) in enumerate(zip(layers, _names(layers), strict=True)):
            update(i, layer.name)
            one = Measured.of(layer)
            trained = weights.of_model(layer.trained) if layer.trained else ()
            parts = carriers.of_model(layer.trained) if of_carriers and layer.trained else []
            tables += [carriers.sheet(layer.name, parts)] if parts else []
            drawn = _save(figures.of_layer(one, trained, parts[1:]), drafts, f"{name}.")
            measured.append(one)
            entries.append({"layer": layer, "texts": one.properties.texts, "figures": drawn})
        update(len(layers), "writing")
        above = _save(figures.overviews(measured), draft)
        rows = [one.properties for one in measured]
        html = sheet.html(
            Path(__file__).with_name("atlas.html.j2"),
            entries=entries,
            groups=by_group(rows),
            columns=COLUMNS,
            notes=NOTES,
            above=above,
            command=command,
        )
        atomic.write(draft / "properties.md", sheet.markdown(sheets(rows)))
        atomic.write(draft / "properties.csv", sheet.csv(sheets(rows)))
        atomic.write(draft / "atlas.html", html)
        if tables:
            atomic.write(draft / "carriers.md", sheet.markdown(tables))
            atomic.write(draft / "carriers.csv", sheet.csv(tables))
        written = sorted(path.name for path in draft.iterdir())
    return [out / name for name in written]


def _names(layers: Sequence[Layer]) -> list[str]:
    """A name for the files of each, numbered where two would have one."""
    slugs = [layer.slug for layer in layers]
    return [
        slug if slugs.index(slug) == i else f"{slug}_{1 + slugs[:i].count(slug)}"
        for i, slug in enumerate(slugs)
    ]


def _save(drawn: Iterable[Drawn], folder: Path, prefix: str = "") -> list[dict[str, Any]]:
    # Each figure is written before the next is drawn: it holds its maps.
    shown = []
    for name, caption, figure in drawn:
        style.save(figure, folder / f"{prefix}{name}")
        inches = figure.get_figwidth()
        shown.append({"svg": style.svg(figure), "inches": inches, "caption": caption})
    return shown


def sheets(rows: Sequence[Properties]) -> list[Sheet]:
    """A table of properties for each group."""
    titles = tuple(COLUMNS.values())
    notes = tuple(Note(COLUMNS[field], note, general=True) for field, note in NOTES.items())
    texts = [row.texts for row in rows]
    return [
        Sheet(
            group,
            titles,
            (("", tuple(tuple(map(Printed, texts[i])) for i in places)),),
            notes,
            tuple({"group": group} | dict(zip(titles, texts[i], strict=True)) for i in places),
            left=True,
        )
        for group, places in by_group(rows).items()
    ]
