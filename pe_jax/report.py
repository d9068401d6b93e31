"""A study on disk: its records, tables, figures and one self-contained HTML page.

`load` reads the records of a work directory or of a results folder; `write` makes the folder that
a study publishes. The same records give the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pe_jax import captions, labels, plots, render, tables

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Record = dict[str, Any]

REQUIRED = ("id", "label", "rows", "seeds", "train", "corpus")


def load(workdir: str | Path) -> list[Record]:
    """The records of `<workdir>/runs.jsonl`, or of every `<workdir>/*/result.json`, by their id.

    A ValueError names the file that is not a record, or says how to make some where there are none.
    """
    workdir = Path(workdir)
    published = workdir / "runs.jsonl"
    if published.is_file():
        lines = published.read_text("utf-8").splitlines()
        texts = {f"{published}, line {i}": line for i, line in enumerate(lines, 1) if line}
    else:
        texts = {str(p): p.read_text("utf-8") for p in sorted(workdir.glob("*/result.json"))}
    if not texts:
        raise ValueError(
            f"no results in {str(workdir)!r}: it needs */result.json or runs.jsonl; make some with "
            f"`python -m experiments.sweep --config=configs/quickstart.py --workdir={workdir}`"
        )
    return sorted((_parse(*item) for item in texts.items()), key=lambda record: record["id"])


def frame(workdir: str | Path) -> pandas.DataFrame:
    """The rows of every record in a folder: run, label, seed, swap, metric, length, value, ..."""
    return tables.frame(load(workdir))


def curves(frame: pandas.DataFrame, metric: str = "same_targets") -> Figure | None:
    """The figure of a frame, whole or of the rows that you chose: see `plots.curves`."""
    records = [
        {
            "id": run,
            "label": rows["label"].iloc[0],
            "seeds": sorted(set(rows["seed"].tolist())),
            "train": {"length": int(rows["train_length"].iloc[0])},
            "rows": rows.to_dict("records"),
        }
        for run, rows in frame.groupby("run", sort=False)
    ]
    return plots.curves(records, metric)


def _parse(place: str, text: str) -> Record:
    try:
        record = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON ({error}); delete it and run it again") from error
    missing = [k for k in REQUIRED if k not in record] if isinstance(record, dict) else REQUIRED
    if missing:
        raise ValueError(f"{place} is not a run record: it lacks {', '.join(missing)}")
    return record


def write(records: Iterable[Record], out: str | Path) -> list[Path]:
    """Write a study into the folder `out` and return the paths.

    runs.jsonl, table.md, table.tex, table.csv, report.html; curves.png and .pdf of the headline
    metric and positions.png and .pdf where there is something to draw.
    """
    out = Path(out)
    records = sorted(records, key=lambda record: record["id"])
    metrics = tables.metrics(records)
    if not metrics:
        raise ValueError(f"the {captions.count(len(records), 'record')} hold no numbers to report")
    found = [tables.extrapolation(records, metric) for metric in metrics]
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "runs.jsonl": "".join(json.dumps(record, sort_keys=True) + "\n" for record in records),
        "table.md": render.markdown(found),
        "table.tex": render.latex(found),
        "table.csv": render.csv(found),
        "report.html": page(records, found, out.name),
    }
    written = [_replace(out / name, text) for name, text in texts.items()]
    for name, figure in _figures(records, metrics[0], width=5.5).items():
        written += plots.save(figure, out / name)
    return written


def _figures(records: Sequence[Record], metric: str, width: float) -> dict[str, Any]:
    drawn = {
        "curves": plots.curves(records, metric, width),
        "positions": plots.positions(records, width),
    }
    return {name: figure for name, figure in drawn.items() if figure}


def _replace(path: Path, text: str) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with part.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    return path


def page(records: Sequence[Record], found: Sequence[tables.Table], name: str) -> str:
    """The HTML page of a study called `name`: one file, inline figures, no outside resources."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    source = resources.files("pe_jax").joinpath("report.html.j2").read_text("utf-8")
    figures = _figures(records, found[0].metric, width=4.6)
    return environment.from_string(source).render(
        name=name,
        summary=captions.summary(records, found[0]),
        tables=found,
        figures={key: plots.svg(figure) for key, figure in figures.items()},
        records=[(labels.names(records)[record["id"]], record) for record in records],
        commands=_commands(records, name),
        captions=captions,
        render=render,
    )


def _commands(records: Sequence[Record], name: str) -> list[str]:
    ran = [record["command"] for record in records if record.get("command")]
    sweep = "python -m experiments.sweep --config=configs/NAME.py --workdir=DIR"
    report = f"python -m experiments.report --workdir=DIR --out=results/{name}"
    return [*(dict.fromkeys(ran) or [sweep]), report]
