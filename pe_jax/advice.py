"""What a composition may do and seldom means to: told before a run, and recorded with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from pe_jax.encoding import Encoding, active, overrides, sites


def advice(encodings: Sequence[Encoding], names: Sequence[str]) -> Iterator[str]:
    """A sentence, with its remedy, for each thing that is doubtful; `names` are the members'.

    Parameters that training at dims.train_len does not reach (positions moved by another member
    may reach further, and are not judged), and two members that do the same in one layer.
    """
    moved = any(overrides(encoding, "positions") for encoding in encodings)
    for encoding, name in zip(encodings, names, strict=True):
        needed, length = encoding.trained_from(), encoding.dims.train_len
        if needed and needed > length and not moved:
            yield (
                f"{name}: training at {length} tokens does not reach its parameters of {length} "
                f"to {needed - 1}, which keep their initial values and are met beyond it; train "
                f"at {needed} or more, or give it a shorter reach"
            )
    for (a, one), (b, two) in itertools.combinations(zip(encodings, names, strict=True), 2):
        shared = [i for i in range(a.dims.layers) if active(a, i) and active(b, i)]
        if not shared:
            continue
        if base := kin(a, b):
            twice = f"do what {base} does"
        elif overrides(a, "relative_bias") and overrides(b, "relative_bias"):
            twice = "add a bias of the distance, and only the sum acts"
        else:
            continue
        yield (
            f"{one} and {two} both {twice}, in layer {shared[0]} for example: leave one out, or "
            "give them layers of their own, as in a[::2]+b[1::2]"
        )


def kin(a: Encoding, b: Encoding) -> str | None:
    """The nearest class that two encodings that do anything are both of, Encoding aside."""
    common = (c for c in type(a).__mro__ if issubclass(c, Encoding) and isinstance(b, c))
    nearest = next(common)
    return nearest.__name__ if nearest is not Encoding and sites(a) else None
