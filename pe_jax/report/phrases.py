"""Text that tables and sentences share: lists, counted nouns, numbers with an interval."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pe_jax.record import CorpusRecord


def join(items: Iterable[Any], word: str = "and") -> str:
    """The distinct items in a sentence: "a", "a and b", "a, b and c"."""
    *first, last = dict.fromkeys(map(str, items))
    return f"{', '.join(first)} {word} {last}" if first else last


def short(name: str, letters: int = 40) -> str:
    """A name for a figure: of a longer one the middle is left out, as in "learned…layers=2)"."""
    half = letters // 2
    return name if len(name) <= letters else f"{name[:half]}…{name[-half + 1 :]}"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def count(n: int, noun: str) -> str:
    """A number with its noun: "1 seed", "3 seeds"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def each(numbers: Sequence[int], noun: str) -> str:
    """The range of these numbers with their noun: "3 seeds", "2 to 3 seeds"."""
    low, high = min(numbers), max(numbers)
    return count(high, noun) if low == high else f"{low:,} to {count(high, noun)}"


def rounded(value: float) -> str:
    """A number to two digits: "0.012", "9.8", "160"."""
    return f"{float(f'{value:.2g}'):,g}"


def commit(text: str) -> str:
    """A record's commit with the first 12 digits of each hash in it."""
    return re.sub(r"[0-9a-f]{40}", lambda sha: sha[0][:12], text)


VALUE, DIFFERENCE = 2, 3
"""Decimals of a value, and of a difference: thousandths of a bit."""


def plusminus(mean: float, half: float, sign="", digits: int | None = None, more=math.nan) -> str:
    """`2.52 ± 0.03 (± 0.05)`: a mean, the half width of its interval and that of a second one.

    A mean of NaN is "n/a", a half width of NaN is left out. With sign="+" the mean is a difference:
    it has its sign, and DIFFERENCE decimals where a value has VALUE, unless `digits` says how many.
    """
    if math.isnan(mean):
        return "n/a"
    if digits is None:
        digits = DIFFERENCE if sign else VALUE
    width = "" if math.isnan(half) else f" ± {half:.{digits}f}"
    width += "" if math.isnan(more) else f" (± {more:.{digits}f})"
    mean = round(mean, digits) + 0.0  # never -0.0
    return f"{mean:{sign}.{digits}f}{width}".replace("-", "−")


def plain(value: Any) -> str:
    """A value for reading: "key value" pairs of a dictionary, lists with commas, 4 digits; "none"
    for an empty list.
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def text(corpus: CorpusRecord) -> str:
    """The name of a text in the config, with the start of its hash if that is known."""
    return corpus.source + (f" (SHA-256 {corpus.hash[:12]})" if corpus.hash else "")
