"""Comparable runs: same data, tokenizer, training length, steps, batch and protocol of evaluation,
and the same model but for its encoding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pe_jax.record import HELD_OUT, SYMBOLS, CorpusRecord, Result
from pe_jax.report.phrases import plain, text

FREE = {"attention", "memory", "vocab"}
"""Fields of section `lm` that may differ within a group: two ways to compute the same attention,
the memory of training, which the label says, and the vocabulary, which the tokenizer decides.
"""
WORDS = {
    "task.name": "{}",
    "task.rate": "{} hidden in training",
    "train.rate": "rate {}",
    "train.length": "trained at {} tokens",
    "train.steps": "{:,} step{s}",
    "train.batch": "batches of {}",
    "train.loss": "a loss of {} tokens",
    "eval.targets": "{:,} target{s}",
    "eval.samples": "{:,} sample{s} a length",
    "eval.last": "the last {} tokens of a window scored",
    "eval.rate": "{} hidden",
    "eval.longest": "evaluated at up to {} tokens",
    "lm.layers": "{} layer{s}",
    "lm.model": "width {}",
    "lm.heads": "{} head{s}",
}
OF_TEXT = ("tokenizer", "eval.targets")
"""Conditions of text alone: None for a task that draws its samples, and in no heading of it."""
OF_SAMPLES = {
    "train.length": "trained at lengths up to {}",
    "eval.longest": "evaluated at lengths up to {}",
}
EXPECTED = {"eval.split": "test"}
"""Values that a reader expects: headings name these conditions if any result has another value."""


class Condition(NamedTuple):
    """A value that the results of a group share and other results do not have."""

    name: str
    """Where it stands in the config or the record, as in "train.steps"."""
    value: Any
    words: str
    """As in "350 steps"."""


class Comparable(NamedTuple):
    """Runs that may be ranked against each other."""

    runs: tuple[Result, ...]
    apart: tuple[Condition, ...]
    """What sets them apart from the other runs of the study."""
    oracles: tuple[Result, ...]
    """Runs that differ in the training length alone (`RunConfig.oracle_of`)."""


def heading(apart: Iterable[Condition]) -> str:
    """The conditions in words, as in "trained at 64 tokens, 350 steps"."""
    return ", ".join(condition.words for condition in apart if condition.words)


def comparable(results: Sequence[Result]) -> list[Comparable]:
    """The results grouped by their `conditions`, in the order of these. A single group is set apart
    by conditions that are not EXPECTED, if by any.

    Oracles are in no group of their own where one has their conditions but for the training length.
    """
    oracles = [
        oracle
        for oracle in results
        if _oracle_of(oracle) and any(_is_oracle(oracle, run) for run in results)
    ]
    ids = {oracle.id for oracle in oracles}
    members: dict[str, list[Result]] = {}
    for run in results:
        if run.id not in ids:
            shared = {name: v for name, v in conditions(run).items() if v is not None}
            members.setdefault(repr(sorted(shared.items())), []).append(run)
    firsts = [runs[0] for runs in members.values()]
    apart = conditions_apart(firsts, EXPECTED)
    groups = [
        Comparable(
            tuple(runs),
            apart[first.id],
            tuple(oracle for oracle in oracles if _is_oracle(oracle, first)),
        )
        for first, runs in zip(firsts, members.values(), strict=True)
    ]
    return sorted(groups, key=_order)


OF_TRAINING = {"train.length", "train.batch"}
"""The conditions in which an oracle may differ from the models that it is an oracle of."""


def _oracle_of(result: Result) -> int:
    # The training length of the models for which a run of text is an oracle; 0: of none.
    return 0 if draws(result) else result.config.get("run", {}).get("oracle_of", 0)


def _is_oracle(oracle: Result, result: Result) -> bool:
    if _oracle_of(result) or result.train.length != _oracle_of(oracle):
        return False
    a, b = _protocol(oracle), _protocol(result)
    return all(a[name] == b[name] for name in b if name not in OF_TRAINING)


def _protocol(result: Result) -> dict[str, Any]:
    # The conditions, with the defaults that the training length decides.
    half, scoring = max(1, result.train.length // 2), result.config.get("eval", {})
    return conditions(result) | {"eval.last": scoring.get("last") or half}


def names(firsts: Sequence[Result]) -> list[str]:
    """A short name for the group of each result: its text or task, and the conditions that set it
    apart from other groups of the same text or task.
    """
    sources = [_source(first) for first in firsts]
    called = []
    for first, source in zip(firsts, sources, strict=True):
        same = [r for r, other in zip(firsts, sources, strict=True) if other == source]
        more = heading(conditions_apart(same)[first.id])
        called.append(", ".join(filter(None, [source, more])))
    return called


def _source(result: Result) -> str:
    # The name of a text, of a folder its last part; of a task its name in words.
    source = result.corpus.source
    if draws(result):
        return (source.partition(".py:")[2] or source).replace("_", " ")
    return source.rstrip("/").rpartition("/")[2] if source.startswith("files:") else source


def draws(result: Result) -> bool:
    """Whether the run is of a task that draws its samples."""
    return result.tokenizer.spec == SYMBOLS


def conditions_apart(
    results: Sequence[Result], usual: Mapping[str, Any] = {}
) -> dict[str, tuple[Condition, ...]]:
    """For each result by its id, its conditions that not all results share or that differ from the
    `usual` ones. Of tasks and text together only the corpus has words, and what differs among the
    tasks, or among the texts.
    """
    known = {result.id: conditions(result) for result in results}
    names = dict.fromkeys(name for values in known.values() for name in values)

    def distinct(name: str, among: Sequence[Result]) -> set[str]:
        return {repr(known[result.id].get(name)) for result in among}

    expected = {name: {repr(value)} for name, value in usual.items()}
    differ = [n for n in names if len(distinct(n, results) | expected.get(n, set())) > 1]
    hashes = {(result.corpus.source, result.corpus.hash) for result in results}
    several = Counter(source for source, _ in hashes)
    alike = {drawn: [r for r in results if draws(r) == drawn] for drawn in (True, False)}
    both = all(alike.values())
    named = {
        drawn: {n for n in differ if not both or n == "corpus" or len(distinct(n, own)) > 1}
        for drawn, own in alike.items()
    }
    apart = {}
    for result in results:
        values, ambiguous = known[result.id], several[result.corpus.source] > 1
        words = {n: _words(n, values.get(n), result, ambiguous) for n in named[draws(result)]}
        apart[result.id] = tuple(Condition(n, values.get(n), words.get(n, "")) for n in differ)
    return apart


def conditions(result: Result) -> dict[str, Any]:
    """What two results must share to be ranked, by name.

    A field of `lm` that is off, 0 or False, is None, as one that the config lacks. The longest
    evaluation length is a condition because it decides where the scored tokens lie.
    """
    train, scoring, lm = (result.config.get(name, {}) for name in ("train", "eval", "lm"))
    length, other, drawn = result.train.length, other_text(result), draws(result)
    half = max(1, length // 2)  # the default of eval.last
    shared = {
        "corpus": result.corpus.hash or result.corpus.source,
        "scored": other.hash if other else None,
        "tokenizer": result.tokenizer.sha256 or result.tokenizer.spec,
        "train.length": length,
        "train.steps": result.train.steps,
        "train.batch": train.get("batch"),
        "train.loss": train.get("loss", "scored") if drawn else None,
        "train.curriculum": train.get("curriculum", "uniform") if drawn else None,
        "eval.split": scoring.get("split") or "test",
        "eval.targets": scoring.get("targets"),
        "eval.last": None if scoring.get("last") == half else scoring.get("last"),
        "eval.samples": scoring.get("samples") if drawn else None,
        "eval.rate": scoring.get("rate"),
        "eval.reference": None if scoring.get("reference") == length else scoring.get("reference"),
        **_of_task(result),
        "eval.longest": max([*scoring.get("lengths", ()), length]),
        **{f"lm.{name}": value or None for name, value in lm.items() if name not in FREE},
    }
    return shared | dict.fromkeys(OF_TEXT) if drawn else shared


def _of_task(result: Result) -> dict[str, Any]:
    # The fields of the task of a run on text; of `text` itself none.
    task = result.config.get("task", {})
    if draws(result) or task.get("name", "text") == "text":
        return {}
    return {f"task.{name}": value or None for name, value in task.items()}


def other_text(result: Result) -> CorpusRecord | None:
    """The scored text if it is not the text of training; else None."""
    scored = result.scored
    return scored if scored and scored.hash != result.corpus.hash else None


def _words(name: str, value: Any, result: Result, ambiguous: bool) -> str:
    # `ambiguous`: several texts or tasks have the name of the result's.
    unset = not value and name.startswith(("eval.samples", "task."))
    if draws(result) and name in OF_TEXT or unset:
        return ""
    if draws(result) and name in OF_SAMPLES:
        return OF_SAMPLES[name].format(value)
    if name == "corpus":
        kind = "task" if draws(result) else "text"
        return f"{kind} {text(result.corpus) if ambiguous else result.corpus.source}"
    if name == "scored":
        other = other_text(result)
        return f"scored on {text(other)}" if other else "scored on the text of training"
    if name == "tokenizer":
        hash = result.tokenizer.sha256
        return f"tokenizer {result.tokenizer.spec}" + (f" (SHA-256 {hash[:12]})" if hash else "")
    if name == "eval.split":
        untrained = result.config.get("train", {}).get("steps") == 0  # all of its text is held out
        return "" if value == "all" and untrained else f"{HELD_OUT.get(value, value)} text"
    if name == "lm.causal":
        return "decoder" if value else "encoder"
    if value is None:
        value = "L/2" if name == "eval.last" else "not set"
        return WORDS.get(name, f"{name} {{}}").replace(":,", "").format(value, s="s")
    return worded(name, value)


def worded(name: str, value: Any) -> str:
    """A value of the config in words, as in "350 steps"."""
    shown = value if isinstance(value, int) else plain(value)
    return WORDS.get(name, f"{name} {{}}").format(shown, s="" if value == 1 else "s")


def _order(group: Comparable) -> tuple[bool, str, list[tuple[bool, float, str]]]:
    # Text before tasks, these by their names; 350 steps before 1,400; what is not set last.
    first, values = group.runs[0], [condition.value for condition in group.apart]
    numbers = [float(v) if isinstance(v, int | float) else 0.0 for v in values]
    keys = [(v is None, n, repr(v)) for v, n in zip(values, numbers, strict=True)]
    return draws(first), first.corpus.source, keys
