"""The error that a user can mend, and the known name that a misspelt one resembles."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Refused(RuntimeError):
    """A run cannot begin or go on. The message gives the rule, the value and the remedy."""


def nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a sentence that says `name` is not known, with up to `most` of the `known` names
    that resemble it: "; did you mean 'rope'?", or "." where none does.
    """
    near = [repr(found) for found in difflib.get_close_matches(name, list(known), most)]
    return f"; did you mean {' or '.join(near)}?" if near else "."
