"""The hash by which records identify configs, tokenizers and parameters, and the text of a value
that is hashed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256(text: str) -> str:
    """The SHA-256 of the UTF-8 bytes of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


Stamp = tuple[int, int]
"""Bytes and time of change of a file, which tell that it is still the same."""


def stamp(path: Path) -> Stamp:
    """The stamp of a file."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of the bytes of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces, tuples as lists: equal values give equal text.
    ValueError for NaN and infinities, which JSON does not have.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
