"""The tables of a record of scripts/gpu."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.benchmark.turns import table
from pe_jax.report import phrases

Row = Mapping[str, Any]

PEAKS = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L4": 121e12,
    "TPU v5 lite": 197e12,
}
"""Dense bfloat16 operations per second by the makers' data sheets, by words of a device's name."""
EXACT = 2.0**-8
"""An error of fused attention in float32, whose products a GPU rounds to 11 bits (TF32)."""


def markdown(rows: Sequence[Row]) -> str:
    """The tables of all parts that have rows, and how to read them."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["case"].partition("/")[0], []).append(row)
    texts = [
        f"### {title}\n\n{tables(parts[part])}"
        for part, (title, tables) in TABLES.items()
        if part in parts
    ]
    versions = {f"{k} {v}" for row in rows for k, v in row.get("versions", {}).items()}
    devices = {row["device"] for row in rows if "device" in row}
    commits = {phrases.commit(row["commit"]) for row in rows}
    return "\n\n".join(
        [
            *texts,
            f"Measured on {phrases.join(sorted(devices))}, by {phrases.join(sorted(versions))}, "
            f"commit {phrases.join(sorted(commits))}. Times are medians of five turns. Empty: "
            "not measured.",
        ]
    )


def _kernel(rows: Sequence[Row]) -> str:
    claimed = [row for row in rows if "unclaimed" not in row]
    measured = [row for row in claimed if "refused" not in row]
    near = [all(error <= EXACT for error in _errors(row, "fused float32")) for row in measured]
    far = [_name(row["case"]) for row, is_near in zip(measured, near, strict=True) if not is_near]
    lines = [
        f"{phrases.count(len(claimed), 'encoding')} take the fused kernel. In float32 the output "
        f"and gradients of {sum(near)} equal dense attention to {EXACT:.4f}; not: "
        f"{', '.join(far) or 'none'}."
    ]
    lines += [f"{_name(row['case'])}: {row['refused']}" for row in claimed if "refused" in row]
    kinds = "fused float32", "fused bfloat16", "dense bfloat16"
    cells = [
        [
            _name(row["case"]),
            *(f"{value:.1e}" for kind in kinds for value in _errors(row, kind)),
        ]
        for row in measured
    ]
    head = [f"{kind}, {of}" for kind in kinds for of in ("output", "gradients")]
    return "\n\n".join([*lines, table(["encoding", *head], cells)])


def _attention(rows: Sequence[Row]) -> str:
    forms: dict[str, dict[str, Row]] = {}
    for row in rows:
        case, _, form = row["case"].rpartition("/")
        forms.setdefault(case, {})[form] = row
    cells = []
    for case, of in forms.items():
        ours = of.get("fused", {})
        for form, row in of.items():
            cell = [*case.split("/")[1:], form]
            if "refused" in row:
                cells.append([*cell, f"n/a: {row['refused']}"])
                continue
            for name in ("forward", "both"):
                here = _median(row, name)
                cell += [here and f"{here:.2f}" or "", _ratio(_median(ours, name), here)]
            cells.append([*cell, _gib(row), f"{row['error']:.1e}" if "error" in row else ""])
    head = ["tokens", "encoding", "form", "forward, ms", "fused / it", "with backward, ms"]
    head += ["fused / it", "memory, GiB", "error"]
    return table(head, cells)


def _speeds(rows: Sequence[Row]) -> str:
    speeds = {row["case"]: 1e3 * row["tokens"] / ms for row in rows if (ms := _median(row, "ms"))}
    cells = []
    for row in rows:
        cell = row["case"].split("/")[1:]
        if "refused" in row:
            cells.append([*cell, f"n/a: {row['refused']}"])
            continue
        speed, rope = speeds[row["case"]], speeds.get(f"{row['case'].rpartition('/')[0]}/rope")
        peak = next((peak for name, peak in PEAKS.items() if name in row["device"]), None)
        share = peak and "operations" in row and row["operations"] / row["tokens"] * speed / peak
        cell += [f"{row['tokens']:,}", f"{_median(row, 'ms'):.1f}", f"{speed:,.0f}"]
        cells.append([*cell, _ratio(speed, rope), f"{share:.2f}" if share else "", _gib(row)])
    head = ["config", "model", "tokens", "ms", "tokens a second", "times rope's", "MFU"]
    return table([*head, "memory, GiB"], cells) + (
        "\n\nMFU is 6 N + 12 L D T operations a token, N parameters of matrices, L layers of width "
        "D, T tokens, over the bfloat16 peak of the data sheet."
    ) * ("operations" in str(rows))


def _median(row: Row, name: str) -> float | None:
    return statistics.median(row[name]) if name in row else None


def _ratio(one: float | None, other: float | None) -> str:
    return f"{one / other:.2f}" if one and other else ""


def _gib(row: Row) -> str:
    return f"{row['memory'] / 2**30:.2f}" if "memory" in row else ""


def _name(case: str) -> str:
    return f"`{case.partition('/')[2]}`"


def _errors(row: Row, kind: str) -> tuple[float, float]:
    return row["output"][kind], row["gradients"][kind]


TABLES = {
    "kernel": ("Errors of the kernel", _kernel),
    "attention": ("Attention", _attention),
    "step": ("Training steps", _speeds),
    "evaluation": ("Evaluation", _speeds),
}
