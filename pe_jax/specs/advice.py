"""Warnings about compositions that are allowed and seldom meant.

A run prints them before it begins and keeps them in its record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pe_jax.encoding import Encoding, overrides
from pe_jax.specs.parse import layers_of
from pe_jax.specs.swap import kin


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
            far = f"{length} to {needed - 1}" if needed - 1 > length else f"{length}"
            yield (
                f"{name}: training at {length} tokens never uses its parameters for {far} tokens, "
                "which keep their initial values and are used in longer texts; train at "
                f"{needed} or more, or make its table shorter"
            )


def _twice(encodings: Sequence[Encoding], names: Sequence[str]) -> Iterator[str]:
    members = list(zip(encodings, names, strict=True))
    for i, (b, b_name) in enumerate(members):
        for a, a_name in members[:i]:
            biases = overrides(a, "relative_bias") and overrides(b, "relative_bias")
            twice = "add a bias of the distance, and only the sum acts" * biases
            if kin(type(a), type(b)):
                twice = f"do what {a.family} does"
            if twice and (shared := {*layers_of(a)} & {*layers_of(b)}):
                yield (
                    f"{a_name} and {b_name} both {twice}, in layer {min(shared)} for example: "
                    "leave one out, or give them layers of their own, as in a[::2]+b[1::2]"
                )
                break  # of many that do the same, each is told once
