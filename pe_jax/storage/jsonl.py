"""Files of JSON lines that are appended to, each with the first digits of its SHA-256. A line that
a kill cut off, or that is damaged, is left out by readers. History writes metrics.jsonl.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pe_jax.errors import concerning
from pe_jax.storage import atomic
from pe_jax.storage.hashes import canonical, sha256

TAIL_BYTES = 2**16  # of the end of a file, which hold its newest lines


def append(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Adds lines to the end of the file."""
    with concerning(path), open(path, "a", encoding="utf-8") as file:
        file.write("".join(map(encode, lines)))


def replace(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Makes these the lines of the file."""
    atomic.write(path, "".join(map(encode, lines)))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of the file; none where it is not there."""
    try:
        texts = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [line for line in map(decode, texts) if line is not None]


def encode(line: dict[str, Any]) -> str:
    """The text of a line."""
    return json.dumps(line | {"digest": _digest(line)}) + "\n"


def decode(text: bytes) -> dict[str, Any] | None:
    """The line of a text; None where it is not as it was written."""
    try:
        line = json.loads(text)
        return line if line.pop("digest") == _digest(line) else None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _digest(line: dict[str, Any]) -> str:
    return sha256(canonical(line))[:12]


class History:
    """metrics.jsonl, a JSON object on each line. Without a path nothing is written; `watch`
    gets every line after it is written.

    A line of training, for each call of the jitted program, has `seeds`, `step`, `of` (all steps),
    `loss` and `grad_norm` (one number a seed), `rate`, and of one seed `ms_per_step` and
    `tokens_per_second`; where validation text was scored, `valid`, bits per byte of each seed. A
    line of evaluation, for each pass that is done, has `evaluated` and `of`, in operations as
    `passes.work` counts them. Only lines of training have `loss`.
    """

    def __init__(
        self,
        path: Path | None = None,
        watch: Callable[[dict[str, Any]], object] = lambda line: None,
    ):
        self.path, self.watch = path, watch

    def rewind(self, seeds: Sequence[int], step: int) -> bool:
        """Removes the lines of evaluation, and of training `seeds` beyond `step`: a training
        that goes on from `step` writes them again. Lines of another program with any of these seeds
        go, too: it never got a checkpoint. Gives whether the line of `step` is there.
        """
        if self.path is None:
            return True
        kept = [
            line
            for line in read_lines(self.path)
            if "loss" in line
            and (
                {*seeds}.isdisjoint(line["seeds"])
                or (line["seeds"] == list(seeds) and line["step"] <= step)
            )
        ]
        replace(self.path, kept)
        return any((line["seeds"], line["step"]) == (list(seeds), step) for line in kept)

    def add(self, **line: Any) -> None:
        """Appends a line."""
        if self.path is not None:
            append(self.path, [line])
        self.watch(line)


def last_line(path: Path) -> dict[str, Any] | None:
    """The newest whole line of a file that may be growing; None without one."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            newest = map(decode, reversed(file.read().splitlines()))
            return next((line for line in newest if line is not None), None)
    except FileNotFoundError:
        return None
