"""The sentences of a report: what was measured, how, and what came out.

Every sentence is computed from the results, so none can disagree with the table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pe_jax.metric import Metric
from pe_jax.record import Corpus, Result
from pe_jax.report.cells import Row, Table, described
from pe_jax.report.stats import Rank
from pe_jax.report.words import count, join, plusminus


def setting(results: Sequence[Result]) -> str:
    """How the models were trained, on what, and what ± means."""
    lengths = join(sorted({result.train.length for result in results}))
    steps = join(f"{n:,}" for n in sorted({result.train.steps for result in results}))
    corpora = join(_corpus(result.corpus) for result in results)
    seeds = sorted({len(result.seeds) for result in results})
    spread = (
        "one seed, so there are no intervals"
        if seeds == [1]
        else f"{join(seeds)} seeds, ± is the half width of their 95 % interval by Student's t"
    )
    kinds = {result.tokenizer.spec for result in results}
    tokens = "tokens" if kinds == {"bytes"} else f"tokens ({join(sorted(kinds))})"
    return f"Trained on windows of {lengths} {tokens} of {corpora} for {steps} steps; {spread}."


def _corpus(corpus: Corpus) -> str:
    python = f", Python {corpus.python}" if corpus.python else ""
    return f"{corpus.source} (SHA-256 {corpus.hash.removeprefix('sha256:')[:12]}{python})"


class Note(str):
    """A note below a table, and the question that it answers."""

    question: str

    def __new__(cls, question: str, text: str) -> Note:
        note = super().__new__(cls, text)
        note.question = question
        return note


def notes(results: Sequence[Result], table: Table) -> tuple[Note, ...]:
    """What a reader must know to use the table's numbers, one sentence or two each."""
    metric = described(table.metric)
    return (
        Note("What was measured", _measured(metric, results) + _scored(results, table.metric)),
        Note("How the models were trained", setting(results)),
        Note("How to read the columns", _columns(table, metric)),
        *(Note("How to read the rows", note) for note in (*_models(results), *_swaps(table))),
        *(Note("How the models rank", note) for note in _ranks(table)),
        *(Note("What is doubtful", f"{doubt}.") for result in results for doubt in result.advice),
    )


def by_question(notes: Iterable[str]) -> dict[str, list[str]]:
    """The notes by their questions, in order; what answers none is under "What else to know"."""
    found: dict[str, list[str]] = {}
    for note in notes:
        question = note.question if isinstance(note, Note) else "What else to know"
        found.setdefault(question, []).append(note)
    return found


def _columns(table: Table, metric: Metric) -> str:
    train, longest = join(table.train_lengths, "or"), table.lengths[-1]
    if len(table.train_lengths) > 1:
        train = f"the model's training length, {train}"
    helped = "negative" if metric.better == "lower" else "positive"
    return (
        f"Gain: the value at {longest} minus the one at {train}, paired over seeds; {helped} means "
        "that the longer context helps. Effective length: the longest evaluated length up to which "
        f"the mean stays within 1 % of the one at {train} (≥: no length beyond it was evaluated). "
        f"Bold: the {metric.best} mean of a column among the models as trained."
    )


def _models(results: Sequence[Result]) -> Iterator[str]:
    if any(result.parent for result in results):
        yield (
            "A from B: training with A began at the final parameters of a model trained with B, "
            "with a new optimizer."
        )
    if len({result.tokenizer.spec for result in results}) > 1:
        yield (
            "Lengths and targets are in tokens of each model's own tokenizer, so rows of different "
            "tokenizers are scored on different places of the text."
        )


def _swaps(table: Table) -> Iterator[str]:
    train = join(table.train_lengths, "or")
    swaps = {row.swap for row in table.rows} - {""}
    memories = {swap for swap in swaps if swap.startswith("memory ")}
    if "window" in swaps:
        yield (
            f"Window {train}: the same checkpoints, evaluated with a causal window of {train} "
            "tokens in every layer."
        )
    if memories:
        yield (
            f"Memory M: the same checkpoints, evaluated by segments of {train} tokens: in every "
            "layer a segment attends to itself and to the layer's inputs at the M tokens before "
            "it, as in Transformer-XL. In the other rows every token "
            "attends to all tokens before it in its window."
        )
    if swaps - {"window"} - memories:
        yield "A, B: the checkpoints of A, evaluated with B swapped in and no further training."


def _ranks(table: Table) -> Iterator[str]:
    ranked = sorted((-row.rank.mean, row.label, row.rank) for row in table.rows if row.rank)
    if ranked:
        best = ", ".join(f"{label} {_rank(rank)}" for _, label, rank in ranked[:3])
        three = f", the three highest of {len(ranked)}" if len(ranked) > 3 else ""
        yield (
            f"Mean reciprocal rank over lengths beyond training{three} (1: the best at every "
            f"length in every seed; in brackets the 95 % bootstrap interval over seeds): {best}."
        )


def _rank(rank: Rank) -> str:
    mean, low, high = rank
    return f"{mean:.2f}" + ("" if math.isnan(low) else f" [{low:.2f}, {high:.2f}]")


def _measured(metric: Metric, results: Sequence[Result]) -> str:
    """The metric's sentence, with the split and the number of tokens that were scored."""
    evals = [result.config.get("eval", {}) for result in results]
    words = {"test": "test", "valid": "validation"}
    splits = sorted({words[config.get("split", "test")] for config in evals})
    last = sorted({str(config.get("last") or "L/2") for config in evals})
    sentence = metric.sentence.replace("{split}", join(splits, "or"))
    sentence = sentence.replace("{last}", join(last, "or"))
    return sentence[:1].upper() + sentence[1:]


def _scored(results: Sequence[Result], metric: str) -> str:
    targets = {result.targets[metric] for result in results if metric in result.targets}
    if not targets:
        return ""
    held = {n for result in results for n in result.target_bytes.get(metric, {}).values()}
    size = ""
    if held - targets:  # tokens are not bytes
        size = f" ({' to '.join(f'{n:,}' for n in sorted({min(held), max(held)}))} bytes)"
    return f" {join(f'{n:,}' for n in sorted(targets))} tokens{size} are scored at each length."


def summary(results: Sequence[Result], table: Table) -> str:
    """The outcome in one paragraph: who is best at the longest length and who uses the context."""
    metric, longest = described(table.metric), table.lengths[-1]
    trained = [row for row in table.rows if not row.swap]
    reached = [row for row in trained if row.cells[-1].n]
    train = join(table.train_lengths, "or")
    said = [
        f"{count(len(trained), 'encoding')} trained at {train} tokens "
        f"({count(max(len(result.seeds) for result in results), 'seed')} each), "
        f"evaluated at up to {longest} tokens."
    ]
    if not reached:
        return f"{said[0]} None has a value at {longest}."
    means = ((row.label, row.cells[-1]) for row in reached[:3])
    best = ", then ".join(f"{label} ({plusminus(c.mean, c.half)})" for label, c in means)
    said.append(f"{metric.best.capitalize()} {metric.unit} at {longest}: {best}.")
    if longest in table.train_lengths:
        return " ".join(said)
    compared = [row for row in reached if row.gain.n > 1]
    if compared:
        said.append(_gains(compared, metric.sign, longest, train))
    kept = [row.label for row in trained if row.censored and row.effective == longest]
    if kept:
        said.append(f"Within 1 % of their value at {train} at every longer length: {join(kept)}.")
    return " ".join(said)


def _gains(rows: Sequence[Row], sign: int, longest: int, train: str) -> str:
    better = [row.label for row in rows if sign * row.gain.mean + row.gain.half < 0]
    worse = [row.label for row in rows if sign * row.gain.mean - row.gain.half > 0]
    level = [row.label for row in rows if row.label not in better + worse]
    parts = [
        f"{verb}: {join(group)}"
        for verb, group in (("better", better), ("not distinguishable", level), ("worse", worse))
        if group
    ]
    return f"At {longest} against {train} tokens (95 % interval of the gain): {'; '.join(parts)}."
