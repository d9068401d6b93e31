"""Evaluation of one long sequence by trained runs: time, peak memory, and the loss of its end.

One pass gives -log p of every token: the bits a byte of the last LAST of them, and the curve over
positions. Every run, swap and length has a process of its own, so that peak memory is its own.
The text is the longest document of the run's test split; where that is too short, its documents
joined, which the record says.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LAST = 1024  # tokens at the end of the sequence


def measure(folder: Path, swap: str, length: int) -> dict[str, Any]:
    """What this process finds: seconds of the pass, peak MiB, bits a byte, and the curve."""
    import numpy as np

    from pe_jax import encodings, protocol, record
    from pe_jax.evaluate import nats
    from pe_jax.trained import Trained

    trained = Trained.of(folder)
    members = trained.run.encodings
    members = encodings.swap(members, swap) if swap else members
    members = tuple(e.at(length) for e in members)
    found = {"label": trained.run.label, "id": trained.run.id, "swap": swap, "length": length}
    limit = min((n for e in members if (n := e.limit()) is not None), default=length)
    if limit < length:
        return found | {"reason": f"beyond its {limit} positions"}
    corpus = trained.run.load()
    documents = sorted(corpus.splits["test"], key=len, reverse=True)
    joined = len(documents[0]) <= length
    text = np.concatenate(documents) if joined else documents[0]
    if len(text) <= length:
        return found | {"reason": f"the test split has {len(text)} tokens"}
    tokens = text[: length + 1].astype(np.int32)[None]
    program = nats.lower(
        trained.params,
        tokens,
        np.int32(0),
        graphdef=trained.graphdef,
        encodings=members,
        last=length,
    ).compile()
    begun = time.monotonic()
    loss = np.asarray(program(trained.params, tokens, np.int32(0)))
    seconds = time.monotonic() - begun
    sizes = corpus.tokenizer.sizes[tokens[:, 1:]]
    whole = protocol.Windows("one", length, tokens, sizes, np.array([0]), np.array([length]))
    position, bits = protocol.curve(whole, loss)
    end = loss[0, -LAST:].sum(dtype=np.float64) / sizes[0, -LAST:].sum() / math.log(2)
    return found | {
        "seconds": seconds,
        "peak_memory_mib": record.peak_memory_mib(),
        "last_bits_per_byte": float(end),
        "position": position,
        "bits_per_byte": bits,
        "joined": joined,
        "corpus": corpus.about,
        "environment": record.environment(),
    }


def markdown(record: Mapping[str, Any]) -> str:
    """Two tables, a row a model: minutes and peak memory, and the loss of the last tokens."""
    import pandas

    rows = pandas.DataFrame(record["found"])
    rows["model"] = [
        ", ".join(filter(None, pair)) for pair in zip(rows.label, rows.swap, strict=True)
    ]
    parts = []
    for title, column, form in (
        ("Seconds", "seconds", "{:,.1f}"),
        ("Peak memory of the process, MiB", "peak_memory_mib", "{:,.0f}"),
        (f"Bits per byte of the last {LAST:,} tokens", "last_bits_per_byte", "{:.3f}"),
    ):
        cells = [
            f"n/a ({row.reason})" if pandas.isna(row[column]) else form.format(row[column])
            for _, row in rows.iterrows()
        ]
        table = rows.assign(cell=cells).pivot(index="model", columns="length", values="cell")
        table.columns = [f"{length:,}" for length in table.columns]
        parts.append(f"### {title}\n\n{table.to_markdown(stralign='right')}\n")
    if "device" in record:
        device = record["device"]
        joined = any(found.get("joined") for found in record["found"])
        parts.append(
            f"One sequence, batch 1, {device['kind']}, {device['threads']} threads; commit "
            f"{record['commit'][:12]}. The text is the test split of {record['source']}"
            + (", its documents joined where none is long enough." if joined else ".")
        )
    return "\n".join(parts) + "\n"


def figure(record: Mapping[str, Any]) -> Any:
    """Peak memory against length, both on logarithmic axes."""
    import matplotlib
    import numpy as np
    from matplotlib.figure import Figure

    from pe_jax.plots import COLOURS, STYLE

    with matplotlib.rc_context(STYLE):
        drawn = Figure((5.5, 3.2))
        axes = drawn.add_subplot()
        models = dict.fromkeys((f["label"], f["swap"]) for f in record["found"])
        for label, swap in models:
            points = [
                (f["length"], f["peak_memory_mib"])
                for f in record["found"]
                if (f["label"], f["swap"]) == (label, swap) and "seconds" in f
            ]
            if points:
                dash = "--" if swap else "-"
                colour = COLOURS[[m[0] for m in models].index(label) % len(COLOURS)]
                name = ", ".join(filter(None, (label, swap)))
                axes.plot(*np.array(points).T, marker="o", color=colour, linestyle=dash, label=name)
        lengths = sorted({f["length"] for f in record["found"]})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set(xlabel="tokens of the sequence", ylabel="peak memory of the process (MiB)")
        axes.legend(frameon=False, fontsize=7)
        drawn.tight_layout()
    return drawn


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    def lengths(text: str) -> tuple[int, ...]:
        return tuple(sorted(int(part) for part in text.split(",")))

    parser = argparse.ArgumentParser(
        prog="scripts/long_context", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--workdir", type=Path, required=True, help="folder of finished runs")
    parser.add_argument("--lengths", type=lengths, default=(16384, 32768, 65536, 131072))
    parser.add_argument("--swap", default="window", help='also with this; "": as trained alone')
    parser.add_argument("--out", type=Path, default=Path("results/long_context"))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # RUN SWAP LENGTH: a worker
    return parser.parse_args(given)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The record of all processes."""
    from pe_jax import report

    runs = report.load(options.workdir)
    work = [
        (one["id"], swap, length)
        for one in runs
        for swap in dict.fromkeys(("", options.swap))
        for length in options.lengths
    ]
    found = []
    for i, (id, swap, length) in enumerate(work, 1):
        command = [sys.executable, "-m", "scripts.long_context", f"--workdir={options.workdir}"]
        command += ["--one", id, swap, str(length)]
        done = subprocess.run(command, capture_output=True, text=True)
        name = f"{i}/{len(work)} {id} {swap} {length:,}"
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"])[-1]
            last = {"id": id, "swap": swap, "length": length, "reason": why[-200:]}
            last["label"] = next(one["label"] for one in runs if one["id"] == id)
        else:
            last = json.loads(done.stdout.splitlines()[-1])
        found.append(last)
        told = f"{last['seconds']:.1f} s" if "seconds" in last else last["reason"]
        print(f"{name}: {told}", file=sys.stderr, flush=True)
    # Of a worker: this process only waits, the accelerator belongs to them.
    about = next((one["environment"] for one in found if "environment" in one), {})
    return about | {"source": runs[0]["corpus"]["source"], "found": found}


def main() -> None:
    options = arguments()
    if options.one:
        id, swap, length = options.one
        print(json.dumps(measure(options.workdir / id, swap, int(length))))
        return
    from pe_jax.plots import save
    from pe_jax.record import write

    try:
        record = run(options)
    except (ValueError, OSError) as error:
        sys.exit(f"scripts/long_context: {error}")
    write(options.out / "long_context.json", json.dumps(record, indent=1) + "\n")
    write(options.out / "table.md", markdown(record))
    save(figure(record), options.out / "memory")
    print(markdown(record))
    print(f"Written: {options.out}/table.md, long_context.json, memory.png")


if __name__ == "__main__":
    main()
