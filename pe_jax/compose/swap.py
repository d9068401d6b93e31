"""Swaps: other encodings evaluated with the parameters of a trained model, as pi for rope.

`Encoding.family` is compared here. `kin`: whether two encodings are of one family, which advice.py,
runs/start.py and runs/start.py ask too. `replaces`, for swaps alone, is narrower: an encoding
replaces its own class, one that it subclasses, or the plain class of its family, so that pi
replaces rope and not xpos, whose decay would be lost.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax

from pe_jax.compose.parse import defaults, layers_of, parse
from pe_jax.encoding import Encoding

Class = type[Encoding]


def kin(a: Class, b: Class) -> bool:
    """Whether two encodings are of one family. NoPE is of none, not even its own."""
    return a.family is not None and a.family == b.family


def replaces(new: Class, old: Class) -> bool:
    """Whether `new`, swapped into a model, takes the place of `old`: the class itself, one that
    `new` subclasses (as a user's own class may), or the plain class of its family.
    """
    return kin(new, old) and (issubclass(new, old) or old.__name__ == new.family)


def swap(encodings: tuple[Encoding, ...], spec: str) -> tuple[Encoding, ...]:
    """The encodings of a trained model with those of `spec` swapped in.

    Each takes the place of the one encoding that it `replaces`, and keeps that one's values of the
    fields that both have and the spec does not set. If its spec names layers, as yarn[3::4] does,
    it takes that place in these layers alone, and the replaced one stays in its others. If it
    replaces none it is appended.

    Of several that it could replace, as in Gemma 3, it takes the place of the one that acts in all
    the layers that its spec names, or, where it names none, in all layers without a window: what
    lies within a window, a longer text does not change.

    ValueError if it could still replace two, if it needs parameters that the replaced one does not
    have, if it takes the place of one with parameters in a part of the layers, and if it would be
    appended beside one of its family (pi beside xpos would rotate twice).
    """
    out = list(encodings)
    for member in parse(spec):
        new = member.encoding(encodings[0].dims)
        places = [i for i, old in enumerate(out) if replaces(type(new), type(old))]
        if len(places) > 1:
            meant = {*layers_of(new)} if "layers" in member.fields else _without_window(out)
            places = [i for i in places if meant <= {*layers_of(out[i])}] or places
        if len(places) > 1:
            raise ValueError(
                f"{spec!r} could replace {len(places)} members of this model: no swap is clear; "
                f"name layers of one of them, as {member.name}[{layers_of(out[places[0]])[0]}]"
            )
        old = out[places[0]] if places else None
        if old:
            both = defaults(type(old)).keys() & defaults(type(new)).keys()
            kept = {name: getattr(old, name) for name in both - member.fields.keys()}
            new = dataclasses.replace(new, **kept)
        needed, there = _shapes(new), _shapes(old) if old else {}
        if needed.items() - there.items():
            raise ValueError(
                f"{spec!r} needs parameters ({', '.join(needed)}) that this model does not "
                "have: no swap"
            )
        if old and (rest := sorted({*layers_of(old)} - {*layers_of(new)})):
            if there:
                raise ValueError(
                    f"{spec!r} would share the parameters of {type(old).__name__} with it: no "
                    "swap in a part of the layers"
                )
            out[places[0]] = dataclasses.replace(old, layers=",".join(map(str, rest)))
            out.append(new)
        elif old:
            out[places[0]] = new
        elif doubled := [type(e).__name__ for e in out if kin(type(new), type(e))]:
            raise ValueError(
                f"{spec!r} would do a second time what this model's {doubled[0]} does: no swap"
            )
        else:
            out.append(new)
    return tuple(out)


def _without_window(members: Sequence[Encoding]) -> set[int]:
    """The layers in which no window acts."""
    windowed = {layer for e in members if e.reach() for layer in layers_of(e)}
    return {*range(members[0].dims.layers)} - windowed


@functools.cache
def _shapes(encoding: Encoding) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes and dtypes of its parameters by name."""
    return jax.eval_shape(lambda: encoding.init(jax.random.key(0)))
