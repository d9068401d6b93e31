"""Swaps: other encodings evaluated with the parameters of a trained model, as pi for rope.

`replaces` is narrower than `kin`, one family: pi replaces rope and not xpos, whose decay would be
lost.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax

from pe_jax.encoding import Encoding, mixes, overrides
from pe_jax.encodings.partial_rope import PartialRoPE
from pe_jax.specs.parse import check_members, defaults, layers_of, parse


def kin(a: type[Encoding], b: type[Encoding]) -> bool:
    """Whether two encodings are of one family. NoPE is of none, not even its own."""
    return a.family is not None and a.family == b.family


def replaces(new: type[Encoding], old: type[Encoding]) -> bool:
    """Whether `new`, swapped into a model, takes the place of `old`: the class itself, one that
    `new` subclasses (as a user's own class may), or the plain class of its family.
    """
    return kin(new, old) and (issubclass(new, old) or old.__name__ == new.family)


def swap(encodings: tuple[Encoding, ...], spec: str) -> tuple[Encoding, ...]:
    """The encodings of a trained model with the members of `spec` swapped in.

    Each takes the place of the one encoding of its layers that it `replaces`, and keeps its values
    of the fields that the spec does not set, but no attention_factor where it sets mscale. If its
    spec names layers, as yarn[3::4] does, it takes that place in these layers alone. If it replaces
    none it is appended.

    If some layers of the model, but not all, have a window, as in Gemma 3, or a mixer, a member of
    the spec that names no layers acts in the others, if any: a longer text brings no new distances
    within a window. Encodings of the input, with a field `where`, and of positions are exempt.

    ValueError if it could replace two encodings of its layers, needs parameters that the replaced
    one does not have, shares parameters with the rest of it, or would act twice with one of its
    family, as pi after xpos.
    """
    out, far = list(encodings), _far_sighted(encodings)
    for member in parse(spec):
        placed = "layers" in member.fields or "where" in defaults(member.cls)
        placed |= member.cls.positions is not Encoding.positions
        if not placed and len(far) < encodings[0].dims.layers:
            if not far:  # there is no attention
                continue
            member = member.with_fields({"layers": ",".join(map(str, far))})
        new = member.encoding(encodings[0].dims)
        here = [i for i, e in enumerate(out) if {*layers_of(new)} & {*layers_of(e)}]
        places = [i for i in here if replaces(type(new), type(out[i]))]
        beside = here if placed or not overrides(new, "qk") else range(len(out))
        if len(places) > 1:
            raise ValueError(
                f"{spec!r} could replace {len(places)} members of this model: name layers of one "
                f"of them, as in [{layers_of(out[places[0]])[0]}]"
            )
        old = out[places[0]] if places else None
        if old:
            both = defaults(type(old)).keys() & defaults(type(new)).keys()
            afresh = {"attention_factor"} if "mscale" in member.fields else set()
            afresh |= {"rotary_pct"} if isinstance(new, PartialRoPE) else set()
            kept = {name: getattr(old, name) for name in both - member.fields.keys() - afresh}
            new = dataclasses.replace(new, **kept)
        needed, there = _shapes(new), _shapes(old) if old else {}
        if needed.items() - there.items():
            names = ", ".join(needed)
            raise ValueError(f"{spec!r} needs parameters ({names}) of its own: no swap")
        if old and (rest := sorted({*layers_of(old)} - {*layers_of(new)})):
            if there:
                whose = type(old).__name__
                raise ValueError(f"{spec!r} would share the parameters of {whose}: swap all layers")
            out[places[0]] = dataclasses.replace(old, layers=",".join(map(str, rest)))
            out.append(new)
        elif old:
            out[places[0]] = new
        elif doubled := [type(out[i]) for i in beside if kin(type(new), type(out[i]))]:
            own = doubled[0].__name__
            raise ValueError(f"{spec!r} would do a second time what this model's {own} does")
        elif overrides(new, "qk") and (turned := [out[i] for i in here if overrides(out[i], "qk")]):
            own = type(turned[0])
            raise ValueError(
                f"{spec!r} would turn queries and keys after this model's {own.__name__}; a class "
                f"of yours takes its place with family = {own.family!r}"
            )
        else:
            out.append(new)
    check_members(out, [type(encoding).__name__ for encoding in out])
    return tuple(out)


def _far_sighted(members: Sequence[Encoding]) -> list[int]:
    # The layers in which attention has no window; where all have one, those with attention
    mixed = {layer for e in members if mixes(e) for layer in layers_of(e)}
    narrow = {layer for e in members if e.reach() for layer in layers_of(e)}
    attending = [layer for layer in range(members[0].dims.layers) if layer not in mixed]
    return [layer for layer in attending if layer not in narrow] or attending


@functools.cache
def _shapes(encoding: Encoding) -> dict[str, jax.ShapeDtypeStruct]:
    return jax.eval_shape(lambda: encoding.init(jax.random.key(0)))
