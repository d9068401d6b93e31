"""Evaluation of one long sequence by trained runs: time, peak memory, and the loss of its end.

Every run, swap, length and kind (a pass, or the gradient of one) has a process of its own, so that
peak memory is its own: scripts/long_context_worker.py, which says what is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.long_context_worker import KINDS, LAST


def markdown(record: Mapping[str, Any]) -> str:
    """A table for each of time, peak memory, the loss of the last tokens, and gradients."""
    import pandas

    rows = pandas.DataFrame(record["found"])
    rows["model"] = [_name(*pair) for pair in zip(rows.label, rows.swap, strict=True)]
    parts = []
    for title, kind, form in (
        ("Seconds of a pass", "pass", "{seconds:,.1f}"),
        ("Peak memory of a pass, MiB", "pass", "{peak_memory_mib:,.0f}"),
        (f"Bits per byte of the last {LAST:,} tokens", "pass", "{last_bits_per_byte:.3f}"),
        (
            "Gradients: seconds, peak memory",
            "gradient",
            "{seconds:,.1f} s, {peak_memory_mib:,.0f} MiB",
        ),
    ):
        chosen = rows[rows.kind == kind]
        if chosen.empty:
            continue
        cells = [
            form.format(**row) if pandas.notna(row.get("seconds")) else f"n/a ({row['reason']})"
            for row in chosen.to_dict("records")
        ]
        table = chosen.assign(cell=cells).pivot(index="model", columns="length", values="cell")
        table = table.loc[list(dict.fromkeys(chosen.model))]
        table.columns = [f"{length:,}" for length in table.columns]
        shown = table.to_markdown(stralign="right", disable_numparse=True)
        parts.append(f"### {title}\n\n{shown}\n")
    if "device" in record:
        device = record["device"]
        joined = any(found.get("joined") for found in record["found"])
        parts.append(
            f"One sequence, batch 1, {device['kind']}, {device['threads']} threads; commit "
            f"{record['commit'][:12]}. Every cell is a process, whose peak memory includes Python, "
            "JAX and the compiler; seconds are without compilation. The text is the test split of "
            f"{record['source']}"
            + (", its documents joined where none is long enough." if joined else ".")
        )
    return "\n".join(parts) + "\n"


def figure(record: Mapping[str, Any], width: float = 5.5) -> Any:
    """Peak memory and seconds of a pass against length, on logarithmic axes with a line of slope 1,
    and the loss of the last tokens. A colour a model, dashed with the swap.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from pe_jax.style import COLOURS, STYLE

    passes = [f for f in record["found"] if f["kind"] == "pass"]
    lengths = sorted({f["length"] for f in passes})
    labels = list(dict.fromkeys(f["label"] for f in passes))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    panels = {
        "peak_memory_mib": "peak memory (MiB)",
        "seconds": "seconds",
        "last_bits_per_byte": f"bits per byte, last {LAST:,}",
    }
    slope = {"color": "0.6", "linestyle": ":"}
    with matplotlib.rc_context(STYLE):
        drawn = Figure((width, 2.6))
        for axes, (key, title) in zip(drawn.subplots(1, 3), panels.items(), strict=True):
            values = {}
            for f in passes:
                if key in f:
                    values.setdefault((f["label"], f["swap"]), []).append((f["length"], f[key]))
            for (label, swap), points in values.items():
                style = {"color": colours[label], "linestyle": "--" if swap else "-"}
                axes.plot(*zip(*points, strict=True), marker="o", label=_name(label, swap), **style)
            axes.set_xscale("log", base=2)
            axes.set_xticks(lengths, [f"{n / 1024:g}" for n in lengths])
            axes.set_xticks([], minor=True)
            axes.set_title(title, fontsize=8, loc="left")
            axes.set_xlabel("tokens / 1,024")
            if key != "last_bits_per_byte" and values:
                length, highest = max(points[-1] for points in values.values())
                line = [highest * n / length for n in lengths]
                axes.plot(lengths, line, label="slope 1", zorder=0, **slope)
                axes.set_yscale("log", base=2)
                axes.yaxis.set_major_formatter("{x:,.3g}" if key == "seconds" else "{x:,.0f}")
        swaps = dict.fromkeys(f["swap"] for f in passes if f["swap"])
        handles = [Line2D([], [], color=colours[label], label=label) for label in labels]
        handles += [Line2D([], [], color="0.3", linestyle="--", label=swap) for swap in swaps]
        handles.append(Line2D([], [], label="slope 1", **slope))
        drawn.legend(handles=handles, frameon=False, fontsize=7, ncols=4, loc="lower center")
        drawn.tight_layout(rect=(0, 0.02 + 0.065 * math.ceil(len(handles) / 4), 1, 1))
    return drawn


def _name(label: str, swap: str) -> str:
    return ", ".join(filter(None, (label, swap)))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    def lengths(text: str) -> tuple[int, ...]:
        try:
            given = tuple(sorted({int(part) for part in text.split(",") if part}))
        except ValueError:
            given = (0,)
        if min(given, default=1) < 1:
            raise argparse.ArgumentTypeError(
                f"give numbers of tokens with commas between, such as 16384,131072; got {text!r}"
            )
        return given

    parser = argparse.ArgumentParser(
        prog="scripts/long_context", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--workdir", type=Path, required=True, help="folder of finished runs")
    parser.add_argument("--lengths", type=lengths, default=(16384, 32768, 65536, 131072))
    parser.add_argument("--gradients", type=lengths, default=(4096, 8192), help='"": none')
    parser.add_argument("--swap", default="window", help='also with this; "": as trained alone')
    parser.add_argument("--out", type=Path, default=Path("results/long_context"))
    return parser.parse_args(given)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The record of all processes, kept after each: what the same commit has measured stays."""
    from pe_jax import study
    from pe_jax.atomic import read, write
    from pe_jax.environment import commit
    from pe_jax.spec import parse

    runs = study.load(options.workdir)
    if options.swap:
        parse(options.swap)
    work = [
        (one.id, swap, length, kind)
        for one in runs
        for swap in dict.fromkeys(("", options.swap))
        for kind, lengths in zip(KINDS, (options.lengths, options.gradients), strict=True)
        for length in lengths
    ]
    path = options.out / "long_context.json"
    before = read(path) or {}
    kept = {
        (one["id"], one["swap"], one["length"], one["kind"]): one
        for one in before.get("found", ())
        if "seconds" in one and before.get("commit") == commit()
    }
    record: dict[str, Any] = {"source": runs[0].corpus.source, "found": []}
    for i, (id, swap, length, kind) in enumerate(work, 1):
        if last := kept.get((id, swap, length, kind)):
            record = last["environment"] | record
            record["found"].append(last)
            continue
        command = [sys.executable, "-m", "scripts.long_context_worker"]
        command += [str(options.workdir / id), swap, str(length), kind]
        done = subprocess.run(command, capture_output=True, text=True)
        name = f"{i}/{len(work)} {_name(id, swap)}, {kind} of {length:,}"
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"])[-1]
            label = next(one.label for one in runs if one.id == id)
            last = {"label": label, "id": id, "swap": swap, "length": length, "kind": kind}
            last["reason"] = why[-200:]
        else:
            last = json.loads(done.stdout.splitlines()[-1])
        # Of a worker: this process only waits, the accelerator belongs to them.
        record = last.get("environment", {}) | record
        record["found"].append(last)
        write(path, json.dumps(record, indent=1) + "\n")
        told = f"{last['seconds']:.1f} s" if "seconds" in last else last["reason"]
        print(f"{name}: {told}", file=sys.stderr, flush=True)
    return record


def main() -> None:
    options = arguments()
    from pe_jax.atomic import write
    from pe_jax.style import save

    try:
        record = run(options)
    except (ValueError, OSError) as error:
        print(f"scripts/long_context: {error}", file=sys.stderr)
        sys.exit(2)
    write(options.out / "table.md", markdown(record))
    save(figure(record), options.out / "long_context")
    print(markdown(record))
    print(f"Written: {options.out}/table.md, long_context.json, .png and .pdf")


if __name__ == "__main__":
    main()
