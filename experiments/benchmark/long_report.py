"""Tables and a figure of the long-context benchmark, from its record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.benchmark.long_worker import PLACES
from pe_jax.report import words
from pe_jax.report.style import COLOURS, STYLE, save
from pe_jax.storage.atomic import write

NAME = "long_context"
TABLES = (  # title, kind of measurement, format of a cell
    ("Seconds of a pass", "pass", "{seconds:,.1f}"),
    ("Peak memory of a pass, MiB", "pass", "{peak_memory_mib:,.0f}"),
    ("Bits per byte, same targets", "pass", "{bits_per_byte:.3f}"),
    ("Gradients: seconds, peak memory", "gradient", "{seconds:,.1f} s, {peak_memory_mib:,.0f} MiB"),
)
PANELS = {
    "peak_memory_mib": "peak memory (MiB)",
    "seconds": "seconds",
    "bits_per_byte": "bits per byte, same targets",
}
# The panels that have a logarithmic axis and a line of slope 1, and the format of their ticks.
LINEAR = {"peak_memory_mib": "{x:,.0f}", "seconds": "{x:,.3g}"}
SLOPE: dict[str, Any] = {"label": "slope 1", "color": "0.6", "linestyle": ":"}

Points = dict[tuple[str, str], list[tuple[int, float]]]
"""{(label, swap): [(length, value)]}"""


def write_all(record: Mapping[str, Any], out: Path) -> None:
    """Writes the tables and the figure into a folder, and prints the tables."""
    text = markdown(record)
    write(out / "table.md", text)
    save(figure(record), out / NAME)
    print(text)
    print(f"Written: {out}/table.md, {NAME}.json, .png and .pdf")


def model_name(label: str, swap: str) -> str:
    """A run's label, and what was swapped in."""
    return ", ".join(filter(None, (label, swap)))


def markdown(record: Mapping[str, Any]) -> str:
    """The tables that have rows, and the conditions of measurement."""
    rows: Any = pandas.DataFrame(record["found"])
    rows["model"] = [model_name(*pair) for pair in zip(rows.label, rows.swap, strict=True)]
    parts = []
    for title, kind, form in TABLES:
        chosen = rows[rows["kind"] == kind]
        if not chosen.empty:
            parts.append(f"### {title}\n\n{_table(chosen, form)}\n")
    if "device" in record:
        parts.append(_conditions(record))
    return "\n".join(parts) + "\n"


def _table(rows: Any, form: str) -> str:
    """A data frame of measurements as a table: a row for each model in the order of the runs, a
    column for each length.
    """
    cells = [
        form.format(**row) if pandas.notna(row.get("seconds")) else f"n/a ({row['reason']})"
        for row in rows.to_dict("records")
    ]
    table = rows.assign(cell=cells).pivot(index="model", columns="length", values="cell")
    table = table.loc[list(dict.fromkeys(rows["model"]))]
    table.columns = [f"{length:,}" for length in table.columns]
    return table.to_markdown(stralign="right", disable_numparse=True)


def _conditions(record: Mapping[str, Any]) -> str:
    device = record["device"]
    joined = any(measured.get("joined") for measured in record["found"])
    scored = {measured["targets"] for measured in record["found"] if "targets" in measured}
    targets = "".join(
        f"Scored are the {count:,} tokens before {PLACES} places of the text, the same at every "
        "length: only the context before them grows. "
        for count in scored
    )
    return (
        f"One sequence, batch 1, {device['kind']}, {device['threads']} threads; "
        f"commit {words.commit(record['commit'])}. "
        "Every cell is a process, whose peak memory includes Python, "
        f"JAX and the compiler; seconds are without compilation. {targets}"
        f"The text is the test split of {record['source']}"
        + (", its documents joined where none is long enough." if joined else ".")
    )


def figure(record: Mapping[str, Any], width: float = 5.5) -> Figure:
    """Peak memory and seconds of a pass against length, on logarithmic axes with a line of slope 1,
    and the bits per byte of targets that are the same at every length. Every run has a colour; with
    the swap it is dashed.
    """
    passes = [measured for measured in record["found"] if measured["kind"] == "pass"]
    lengths = sorted({measured["length"] for measured in passes})
    labels = list(dict.fromkeys(measured["label"] for measured in passes))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    with matplotlib.rc_context(STYLE):
        drawn = Figure((width, 2.6))
        for axes, key in zip(drawn.subplots(1, 3), PANELS, strict=True):
            _draw(axes, key, _points(passes, key), lengths, colours)
        swaps = dict.fromkeys(measured["swap"] for measured in passes if measured["swap"])
        handles = [Line2D([], [], color=colours[label], label=label) for label in labels]
        handles += [Line2D([], [], color="0.3", linestyle="--", label=swap) for swap in swaps]
        handles.append(Line2D([], [], **SLOPE))
        drawn.legend(handles=handles, frameon=False, fontsize=7, ncols=4, loc="lower center")
        drawn.tight_layout(rect=(0, 0.02 + 0.065 * math.ceil(len(handles) / 4), 1, 1))
    return drawn


def _points(passes: Sequence[Mapping[str, Any]], key: str) -> Points:
    points: Points = {}
    for measured in passes:
        if key in measured:
            model = measured["label"], measured["swap"]
            points.setdefault(model, []).append((measured["length"], measured[key]))
    return points


def _draw(
    axes: Axes, key: str, points: Points, lengths: Sequence[int], colours: Mapping[str, str]
) -> None:
    """One panel: a line for each model, and in those of LINEAR one of slope 1."""
    for (label, swap), line in points.items():
        style: dict[str, Any] = {"color": colours[label], "linestyle": "--" if swap else "-"}
        axes.plot(*zip(*line, strict=True), marker="o", label=model_name(label, swap), **style)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{length / 1024:g}" for length in lengths])
    axes.set_xticks([], minor=True)
    axes.set_title(PANELS[key], fontsize=8, loc="left")
    axes.set_xlabel("tokens / 1,024")
    if key in LINEAR and points:
        longest, highest = max(line[-1] for line in points.values())
        axes.plot(lengths, [highest * n / longest for n in lengths], zorder=0, **SLOPE)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(LINEAR[key])
