"""Text that tables and sentences share: lists, counted nouns, numbers with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def join(items: Iterable[Any], word: str = "and") -> str:
    """The distinct items in a sentence: "a", "a and b", "a, b and c"."""
    *first, last = dict.fromkeys(map(str, items))
    return f"{', '.join(first)} {word} {last}" if first else last


def count(n: int, noun: str) -> str:
    """A number with its noun: "1 seed", "3 seeds"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def plusminus(mean: float, half: float, sign: str = "", digits: int = 2) -> str:
    """`2.52 ± 0.03`: a mean and the half width of its interval.

    A mean of NaN is "n/a", a half width of NaN is left out. With sign="+" a number above 0 has one.
    """
    if math.isnan(mean):
        return "n/a"
    width = "" if math.isnan(half) else f" ± {half:.{digits}f}"
    return f"{mean:{sign}.{digits}f}{width}".replace("-", "−")


def plain(value: Any) -> str:
    """A value for reading: "key value" pairs of a dictionary, lists with commas, 4 digits."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"
