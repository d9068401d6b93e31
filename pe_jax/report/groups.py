"""Which results may be ranked against each other: those of one text, one tokenizer, one training
length, number of steps and batch, one protocol of evaluation and one model apart from its encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from pe_jax.held_out import HELD_OUT
from pe_jax.record import SYMBOLS, Begun, Corpus, Result
from pe_jax.report.words import plain, text

FREE = {"attention", "memory", "vocab"}
"""What of section `lm` may differ: two ways to compute the same attention, the memory of training,
which the label says, and the vocabulary, which the tokenizer decides.
"""
WORDS = {
    "train.length": "trained at {} tokens",
    "train.steps": "{:,} steps",
    "train.batch": "batches of {}",
    "eval.targets": "{:,} targets",
    "eval.samples": "{} samples a length",
    "eval.last": "the last {} tokens of a window scored",
    "eval.stride": "stride {}",
    "eval.longest": "evaluated at up to {} tokens",
    "lm.layers": "{} layers",
    "lm.model": "width {}",
    "lm.heads": "{} heads",
}
EXPECTED = {"eval.split": "test"}
"""What a reader expects of a table whose heading says nothing else."""


class Condition(NamedTuple):
    """Something that the results of a group share and others do not have."""

    name: str
    """Its place in the config or the record, as in "train.steps"."""
    value: Any
    words: str
    """As in "350 steps"."""


@dataclass(frozen=True)
class Group:
    """Results that may be ranked, and what sets them apart from the other groups."""

    results: tuple[Result, ...]
    apart: tuple[Condition, ...]


def heading(apart: Iterable[Condition]) -> str:
    """The conditions in words, as in "trained at 64 tokens, 350 steps"."""
    return ", ".join(condition.words for condition in apart)


def groups(results: Iterable[Result]) -> list[Group]:
    """The results in groups, in each of which all `conditions` are equal, in the order of these
    conditions. What sets the only group apart is at most what is not EXPECTED.
    """
    results = list(results)
    apart = conditions_apart(results, EXPECTED)
    members: dict[str, list[Result]] = {}
    for result in results:
        key = repr([condition.value for condition in apart[result.id]])
        members.setdefault(key, []).append(result)
    found = [Group(tuple(group), apart[group[0].id]) for group in members.values()]
    return sorted(found, key=lambda group: _order(group.apart))


def conditions_apart(
    results: Sequence[Begun], usual: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, tuple[Condition, ...]]:
    """Of each result by its id the conditions that not all results share, or that are other than
    the `usual` ones.
    """
    known = {result.id: conditions(result) for result in results}
    names = dict.fromkeys(name for values in known.values() for name in values)
    found = {name: {repr(values.get(name)) for values in known.values()} for name in names}
    found |= {name: found[name] | {repr(value)} for name, value in usual.items() if name in found}
    differ = [name for name in names if len(found[name]) > 1]
    return {
        result.id: tuple(
            Condition(name, value, _words(name, value, result))
            for name in differ
            for value in [known[result.id].get(name)]
        )
        for result in results
    }


def conditions(result: Begun) -> dict[str, Any]:
    """What two results must share to be ranked, by name.

    A record from before a setting was there has it as one that is off: None, as 0 and False. The
    longest evaluation length is among them because it decides where the scored tokens lie.
    """
    train, scoring, lm = (result.config.get(name, {}) for name in ("train", "eval", "lm"))
    done = isinstance(result, Result)
    length = result.train.length if done else train.get("length")
    other = other_text(result)
    half = max(1, length // 2) if length else None  # the default of eval.last and eval.stride
    return {
        "corpus": result.corpus.hash or result.corpus.source,
        "scored": other.hash if other else None,
        "tokenizer": result.tokenizer.sha256 or result.tokenizer.spec,
        "train.length": length,
        "train.steps": result.train.steps if done else train.get("steps"),
        "train.batch": train.get("batch"),
        "eval.split": scoring.get("split") or "test",
        "eval.targets": scoring.get("targets"),
        "eval.samples": scoring.get("samples") if result.tokenizer.spec == SYMBOLS else None,
        "eval.last": None if scoring.get("last") == half else scoring.get("last"),
        "eval.stride": None if scoring.get("stride") == half else scoring.get("stride"),
        "eval.longest": max([*scoring.get("lengths", ()), length or 0]) or None,
        **{f"lm.{name}": value or None for name, value in lm.items() if name not in FREE},
    }


def other_text(result: Begun) -> Corpus | None:
    """The text that was scored where it is not the one that was trained on."""
    scored = result.scored if isinstance(result, Result) else None
    return scored if scored and scored.hash != result.corpus.hash else None


def _words(name: str, value: Any, result: Begun) -> str:
    if name == "corpus":
        return f"text {text(result.corpus)}"
    if name == "scored":
        other = other_text(result)
        return f"scored on {text(other)}" if other else "scored on the text of training"
    if name == "tokenizer":
        hash = result.tokenizer.sha256
        return f"tokenizer {result.tokenizer.spec}" + (f" (SHA-256 {hash[:12]})" if hash else "")
    if name == "eval.split":
        return f"{HELD_OUT[value]} text"
    if name == "lm.causal":
        return "decoder" if value else "encoder"
    if value is None:
        value = "L/2" if name in ("eval.last", "eval.stride") else "not set"
        return WORDS.get(name, f"{name} {{}}").replace(":,", "").format(value)
    return WORDS.get(name, f"{name} {{}}").format(value if isinstance(value, int) else plain(value))


def _order(apart: tuple[Condition, ...]) -> list[tuple[bool, float, str]]:
    """A key that puts 350 steps before 1,400 and what is not set last."""
    values = [condition.value for condition in apart]
    return [
        (value is None, float(value) if isinstance(value, int | float) else 0.0, repr(value))
        for value in values
    ]
