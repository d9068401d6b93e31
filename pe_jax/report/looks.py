"""Which colour, dash and marker an encoding has: the same in every figure, from its name."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import product

from pe_jax.record import Result
from pe_jax.report import labels
from pe_jax.report.style import COLOURS, Look

MORE = ("#332288", "#882255", "#999933", "#7a4b2a", "#808080")  # some of them Tol's muted ones
PALETTE = (*COLOURS, *MORE)
COMMON: dict[str, str] = dict(
    zip(
        ("rope", "alibi", "learned", "transformer_xl", "sinusoidal", "t5", "nope"),
        COLOURS,
        strict=True,
    )
)
"""The colours of the encodings that most studies compare; the others' follow from a hash."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D")


def looks(results: Sequence[Result]) -> dict[str, Look]:
    """The look of each result by its id; no two of a study look alike.

    The colour depends on nothing but the encoding's name, without its arguments and layers: a sum
    of encodings has a colour of its own. Where several results have a colour, those of a common
    encoding's plain name come first, then the others by their labels; each takes the first dash,
    then the first marker, that is free. A hash says where the search begins, so that a label
    mostly looks alike in different studies.
    """
    called = labels.names(results)
    specs = {result.id: _spec(result) for result in results}
    order = sorted(specs, key=lambda id: (specs[id] not in COMMON, len(called[id]), called[id], id))
    taken: set[Look] = set()
    found = {}
    for id in order:
        spec = specs[id]
        start = 0 if spec in COMMON else _hash(spec)
        variants = list(_variants(_colour(spec), start))
        found[id] = next((look for look in variants if look not in taken), variants[0])
        taken.add(found[id])
    return found


def _spec(result: Result) -> str:
    """The spec that the config names; the label where there is no config, as in a frame."""
    return result.config.get("pe", {}).get("spec") or result.label


def _colour(spec: str) -> str:
    name = re.sub(r"\(.*?\)|\[.*?\]", "", spec).split()[0]
    return COMMON.get(name) or PALETTE[_hash(name) % len(PALETTE)]


def _variants(colour: str, start: int) -> Iterator[Look]:
    """Looks of this colour: four dashes from the one at `start` on, with each marker; then those of
    the next colours.
    """
    first = PALETTE.index(colour)
    for tint, marker, dash in product(range(len(PALETTE)), MARKERS, range(len(DASHES))):
        turn = (start + dash) % len(DASHES)
        yield Look(PALETTE[(first + tint) % len(PALETTE)], DASHES[turn], marker)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())  # Python's own differs from process to process
