"""Hashes that identify configs, texts and arrays, made of one canonical form of JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces, tuples as lists: equal values give equal text.

    ValueError for NaN and infinities, which JSON does not have.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(text: str) -> str:
    """The SHA-256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
