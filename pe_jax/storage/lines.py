"""Files of JSON lines that are appended to, each with the first digits of its SHA-256. A line that
a kill cut off, or that is damaged, is left out by readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pe_jax.errors import concerning
from pe_jax.storage import atomic
from pe_jax.storage.hashes import canonical, sha256


def append(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Adds lines to the end of the file."""
    with concerning(path), open(path, "a", encoding="utf-8") as file:
        file.write("".join(map(encode, lines)))


def replace(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Makes these the lines of the file."""
    atomic.write(path, "".join(map(encode, lines)))


def texts(path: Path) -> list[bytes]:
    """The lines of the file as they are; none where it is not there."""
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of the file."""
    return [line for line in map(decode, texts(path)) if line is not None]


def encode(line: dict[str, Any]) -> str:
    """The text of a line."""
    return json.dumps(line | {"digest": _digest(line)}) + "\n"


def decode(text: bytes) -> dict[str, Any] | None:
    """The line of a text; None where it is not as it was written."""
    try:
        line = json.loads(text)
        return line if line.pop("digest") == _digest(line) else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def _digest(line: dict[str, Any]) -> str:
    return sha256(canonical(line))[:12]
