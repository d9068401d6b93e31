"""Other encodings over the parameters of a trained model, and what encodings are to each other.

`Encoding.family` answers three questions, each in its own way. Two encodings do the same, and one
can take over the other's parameters, if their family is one (`kin`). One that is swapped in
replaces only its own class, or the plain class of its family (`replaces`): pi replaces rope, and
not xpos, whose decay would be lost.
"""

from __future__ import annotations

import dataclasses

import jax

from pe_jax.encoding import Encoding
from pe_jax.spec.parse import defaults, parse

Class = type[Encoding]


def kin(a: Class, b: Class) -> bool:
    """Whether two encodings are of one family."""
    return a.family is not None and a.family == b.family


def replaces(new: Class, old: Class) -> bool:
    """Whether `new`, swapped into a model, takes the place of `old`: of the class itself, of one
    that it subclasses (a user's own class may), or of the plain class of its family.
    """
    return kin(new, old) and (issubclass(new, old) or old.__name__ == new.family)


def swap(encodings: tuple[Encoding, ...], spec: str) -> tuple[Encoding, ...]:
    """The encodings with those of `spec` swapped in, over the same parameters.

    Each takes the place of the one member that it `replaces`, and that member's values of the
    fields that both have and the spec does not set. It is appended if there is none.

    ValueError if it could replace two members, if it needs parameters that are not there, and if it
    would be appended beside one of its family (pi beside xpos would rotate a second time).
    """
    out = list(encodings)
    for member in parse(spec):
        new = member.encoding(encodings[0].dims)
        places = [i for i, old in enumerate(out) if replaces(type(new), type(old))]
        if len(places) > 1:
            raise ValueError(
                f"{spec!r} could replace {len(places)} members of this model: no swap is clear"
            )
        old = out[places[0]] if places else None
        if old:
            both = defaults(type(old)).keys() & defaults(type(new)).keys()
            kept = {name: getattr(old, name) for name in both - member.fields.keys()}
            new = dataclasses.replace(new, **kept)
        drawn, there = _drawn(new), _drawn(old) if old else {}
        if drawn.items() - there.items():
            raise ValueError(
                f"{spec!r} needs parameters ({', '.join(drawn)}) that this model does not "
                "have: no swap"
            )
        if old:
            out[places[0]] = new
        elif doubled := [type(e).__name__ for e in out if kin(type(new), type(e))]:
            raise ValueError(
                f"{spec!r} would do a second time what this model's {doubled[0]} does: no swap"
            )
        else:
            out.append(new)
    return tuple(out)


def _drawn(encoding: Encoding) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of its parameters."""
    return jax.eval_shape(lambda: encoding.init(jax.random.key(0)))
