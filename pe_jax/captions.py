"""The sentences of a report: what was measured, how, and what came out.

Every sentence is computed from the run records, so none can disagree with the table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pe_jax.stats import Rank
    from pe_jax.tables import Cell, Row, Table

Record = dict[str, Any]

PROTOCOL = {
    "same_targets": "The targets are the same tokens at every length: the L/2 tokens before fixed "
    "places in test documents, L being the training length. Only the window before these places "
    "grows, so differences come from context alone, and the value at L is what a model that crops "
    "the longer context away scores at every length.",
    "nonoverlapping": "Test documents are cut into windows of the evaluation length and every "
    "token is scored. Short windows hold a larger share of tokens with little context, so part of "
    "a negative gain is that share shrinking.",
    "sliding": "Windows of the evaluation length move over test documents by a fixed stride. Only "
    "the tokens that are new in a window are scored.",
    "last_k": "Test documents are cut into windows of the evaluation length. Only the last k "
    "tokens of each window are scored.",
}


def title(table: Table) -> str:
    """The caption of a table."""
    return f"Bits per byte, {table.metric.replace('_', ' ')} (lower is better)"


def join(items: Iterable[Any], word: str = "and") -> str:
    """The distinct items in a sentence: "a", "a and b", "a, b and c"."""
    *first, last = dict.fromkeys(map(str, items))
    return f"{', '.join(first)} {word} {last}" if first else last


def count(n: int, noun: str) -> str:
    """A number with its noun: "1 seed", "3 seeds"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def plusminus(cell: Cell, sign: str = "") -> str:
    """`2.52 ± 0.03`: a mean with the half width of its interval, "n/a" where there is none."""
    if not cell.n:
        return "n/a"
    half = "" if math.isnan(cell.half) else f" ± {cell.half:.2f}"
    return f"{cell.mean:{sign}.2f}{half}".replace("-", "−")


def plain(value: Any) -> str:
    """A record's value for reading: "key value" pairs and lists with commas."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def setting(records: Sequence[Record]) -> str:
    """How the models were trained, on what, and what ± means."""
    lengths = join(sorted({record["train"]["length"] for record in records}))
    steps = join(f"{n:,}" for n in sorted({record["train"]["steps"] for record in records}))
    corpora = join(_corpus(record["corpus"]) for record in records)
    seeds = sorted({len(record["seeds"]) for record in records})
    spread = (
        "one seed, so there are no intervals"
        if seeds == [1]
        else f"{join(seeds)} seeds, ± is the half width of their 95 % interval by Student's t"
    )
    kinds = set(map(tokenizer, records))
    tokens = "tokens" if kinds == {"bytes"} else f"tokens ({join(sorted(kinds))})"
    return f"Trained on windows of {lengths} {tokens} of {corpora} for {steps} steps; {spread}."


def tokenizer(record: Record) -> str:
    """What the run's tokens are, as `data.tokenizer` names them."""
    return record.get("tokenizer", {}).get("spec", "bytes")


def _corpus(corpus: Record) -> str:
    python = f", Python {corpus['python']}" if corpus.get("python") else ""
    return f"{corpus['source']} (SHA-256 {corpus['hash'].removeprefix('sha256:')[:12]}{python})"


def notes(records: Sequence[Record], table: Table) -> tuple[str, ...]:
    """What a reader must know to use the table's numbers, one sentence or two each."""
    train, longest = join(table.train_lengths, "or"), table.lengths[-1]
    found = [
        PROTOCOL.get(table.metric, f"Metric {table.metric}.") + _scored(records, table.metric),
        setting(records),
        f"Gain: the value at {longest} minus the one at {train}, paired over seeds; negative means "
        "that the longer context helps. Effective length: the longest evaluated length up to which "
        f"the mean stays within 1 % of the one at {train} (≥: no longer one was evaluated). Bold: "
        "the lowest mean of a column among the models as trained.",
    ]
    if any(record.get("parent") for record in records):
        found.append("A from B: trained on from the final parameters of B, with a new optimizer.")
    if len(set(map(tokenizer, records))) > 1:
        found.append(
            "Lengths and targets are in tokens of each model's own tokenizer, so rows of different "
            "tokenizers are scored on different places of the text."
        )
    for record in records:
        found.extend(f"{doubt}." for doubt in record.get("advice", ()))
    swaps = {row.swap for row in table.rows} - {""}
    if "window" in swaps:
        found.append(
            f"Window {train}: the same checkpoints, evaluated with a causal window of {train} "
            "tokens in every layer."
        )
    memories = {swap for swap in swaps if swap.startswith("memory ")}
    if memories:
        found.append(
            f"Memory M: the same checkpoints, windows worked through by segments of {train} "
            "tokens, each layer with what entered it at the last M tokens before. The "
            "other rows see whole windows, which is a memory that holds all of them."
        )
    if swaps - {"window"} - memories:
        found.append("After a comma: the same checkpoints, evaluated with that swapped in.")
    ranked = sorted((-row.rank.mean, row.label, row.rank) for row in table.rows if row.rank)
    if ranked:
        best = ", ".join(f"{label} {_rank(rank)}" for _, label, rank in ranked[:3])
        found.append(
            "Mean reciprocal rank over lengths beyond training (1: the best at each, in each seed; "
            f"95 % bootstrap interval over seeds): {best}."
        )
    return tuple(found)


def _scored(records: Sequence[Record], metric: str) -> str:
    targets = {r["targets"][metric] for r in records if metric in r.get("targets", {})}
    if not targets:
        return ""
    held = {n for r in records for n in r.get("target_bytes", {}).get(metric, {}).values()}
    size = ""
    if held - targets:  # tokens are not bytes
        size = f" ({' to '.join(f'{n:,}' for n in sorted({min(held), max(held)}))} bytes)"
    return f" {join(f'{n:,}' for n in sorted(targets))} tokens{size} are scored at each length."


def _rank(rank: Rank) -> str:
    mean, low, high = rank
    return f"{mean:.2f}" + ("" if math.isnan(low) else f" [{low:.2f}, {high:.2f}]")


def summary(records: Sequence[Record], table: Table) -> str:
    """The result in one paragraph: who is best at the longest length and who uses the context."""
    longest = table.lengths[-1]
    trained = [row for row in table.rows if not row.swap]
    reached = [row for row in trained if row.cells[-1].n]
    train = join(table.train_lengths, "or")
    said = [
        f"{count(len(trained), 'encoding')} trained at {train} tokens "
        f"({count(max(len(r['seeds']) for r in records), 'seed')} each), "
        f"evaluated at up to {longest} tokens."
    ]
    if not reached:
        return f"{said[0]} None has a value at {longest}."
    best = ", then ".join(f"{r.label} ({plusminus(r.cells[-1])})" for r in reached[:3])
    said.append(f"Lowest bits per byte at {longest}: {best}.")
    if longest in table.train_lengths:
        return " ".join(said)
    compared = [row for row in reached if row.gain.n > 1]
    if compared:
        said.append(_gains(compared, longest, train))
    kept = [row.label for row in trained if row.censored and row.effective == longest]
    if kept:
        said.append(f"Within 1 % of their value at {train} at every longer length: {join(kept)}.")
    return " ".join(said)


def _gains(rows: Sequence[Row], longest: int, train: str) -> str:
    better = [row.label for row in rows if row.gain.mean + row.gain.half < 0]
    worse = [row.label for row in rows if row.gain.mean - row.gain.half > 0]
    level = [row.label for row in rows if row.label not in better + worse]
    parts = [
        f"{verb}: {join(group)}"
        for verb, group in (("better", better), ("not distinguishable", level), ("worse", worse))
        if group
    ]
    return f"At {longest} against {train} tokens (95 % interval of the gain): {'; '.join(parts)}."
