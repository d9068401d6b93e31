"""Warnings about compositions that are allowed and seldom meant.

A run prints them before it begins and keeps them in its record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from pe_jax.encoding import Encoding, overrides
from pe_jax.spec.layers import layers_of
from pe_jax.spec.swap import kin


def advice(encodings: Sequence[Encoding], names: Sequence[str]) -> Iterator[str]:
    """A sentence, with its remedy, for each doubtful thing; `names` are what to call the encodings.

    Two things are doubtful: parameters that no training window of dims.train_len tokens reaches,
    and two members in one layer that are of one family or both have a `relative_bias`. The first
    is not judged if a member changes the positions, since windows may then reach further.
    """
    yield from _unreached(encodings, names)
    yield from _twice(encodings, names)


def _unreached(encodings: Sequence[Encoding], names: Sequence[str]) -> Iterator[str]:
    if any(overrides(encoding, "positions") for encoding in encodings):
        return
    for encoding, name in zip(encodings, names, strict=True):
        needed, length = encoding.trained_from(), encoding.dims.train_len
        if needed and needed > length:
            yield (
                f"{name}: training at {length} tokens does not reach its parameters of {length} "
                f"to {needed - 1}, which keep their initial values and are met beyond it; train "
                f"at {needed} or more, or give it a shorter reach"
            )


def _twice(encodings: Sequence[Encoding], names: Sequence[str]) -> Iterator[str]:
    members = zip(encodings, names, strict=True)
    for (a, a_name), (b, b_name) in itertools.combinations(members, 2):
        shared = [layer for layer in layers_of(a) if layer in layers_of(b)]
        if not shared:
            continue
        if kin(type(a), type(b)):
            twice = f"do what {a.family} does"
        elif overrides(a, "relative_bias") and overrides(b, "relative_bias"):
            twice = "add a bias of the distance, and only the sum acts"
        else:
            continue
        yield (
            f"{a_name} and {b_name} both {twice}, in layer {min(shared)} for example: leave one "
            "out, or give them layers of their own, as in a[::2]+b[1::2]"
        )
