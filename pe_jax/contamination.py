"""Contamination: the share of a validation or test split that also stands in the training text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

HELD_OUT = {"test": "test", "valid": "validation"}  # the splits that are scored, in words
TOLD = 0.05  # the share of a split in the training text from which on people are told of it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overlap:
    """How much of a split also stands in the training text, as data/overlap.py measures it."""

    share: float  # of its bytes, with case and white space folded
    copies: int = 0  # its documents that are equal to one of the training text
    document: str = ""  # a copy, or the one that shares the most; "": none shares any
    beside: str = ""  # the document of the training text that shares the most with it


def doubts(overlaps: Mapping[str, Overlap], splits: Iterable[str]) -> tuple[str, ...]:
    """A sentence for each of these splits that has a copy of a training document, or shares at
    least TOLD with the training text. Less may be what many texts have, such as a licence.
    """
    found = ((HELD_OUT.get(split, split), overlaps.get(split)) for split in splits)
    return tuple(
        f"{100 * overlap.share:.3g} % of the {name} text also stands in the training text ("
        + (f"copies: {overlap.copies}, such as " if overlap.copies else "most of it: ")
        + f"{overlap.document} has that of {overlap.beside})"
        for name, overlap in found
        if overlap and (overlap.copies or overlap.share >= TOLD)
    )
