"""A process that measures cases: sizes, clock, and the loop over the cases of its command line.

Imports nothing but the standard library, since peers.py runs where pe_jax is not installed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple


class Sizes(NamedTuple):
    """How large the cases are."""

    tokens: int
    """Of a batch of attention, whatever its length."""
    heads: int
    head: int
    layers: int
    vocab: int
    length: int
    batch: int
    """Windows of a training step."""
    evaluated: int
    """Tokens of an evaluated window."""


SIZES = {
    "full": Sizes(16384, 12, 64, 12, 50304, 1024, 64, 16384),  # the model is configs/gpt2_small.py
    "tiny": Sizes(64, 2, 16, 2, 256, 32, 2, 64),
}
WINDOW = {"full": 512, "tiny": 8}
"""Tokens of the window in attention."""
TURNS = 5


def milliseconds(call: Callable[[], Any], wait: Callable[[Any], Any], scale: str) -> list[float]:
    """Milliseconds of a call in each of TURNS turns, a turn being as many calls in a row as take
    0.2 s; of a tiny case a single call.
    """
    wait(call())
    begun = time.perf_counter()
    wait(call())
    once = time.perf_counter() - begun
    count = 1 if scale == "tiny" else max(1, round(0.2 / once))
    turns = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        for _ in range(count - 1):
            call()
        wait(call())
        turns.append(1e3 * (time.perf_counter() - begun) / count)
    return turns


def serve(parts: Mapping[str, type], about: Mapping[str, Any], threads: int, given: Sequence[str]):
    """Prints a row for each case of `given`, one line of JSON with the facts `about` the process.
    PART/WORD/... is made as parts[PART](scale, WORD, ...), which compiles it; `row()` measures it.
    Of as many cases as there are `threads` all are compiled before the first is measured. A case
    that raises is refused, with the message.
    """
    scale, *cases = given
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not mix with rows
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(cases), threads):
            some = cases[first : first + threads]
            making = []
            for case in some:
                part, *words = case.split("/")
                making.append(pool.submit(parts[part], scale, *words))
            for made in making:
                made.exception()  # waits for it
            for case, made in zip(some, making, strict=True):
                row = {"case": case, **about}
                try:
                    row |= made.result().row()
                except Exception as error:  # of a library: this size, this card, this version
                    row["refused"] = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
                print(json.dumps(row), file=answers, flush=True)
