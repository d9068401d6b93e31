"""The table of encodings, and how a spec such as "randomized+rope(base=500000.0)[::2]" becomes a
tuple of them.

A spec is a sum of members, applied in order. A member is a name of the table or a class of your
own, `dir/file.py:Class`, then optionally fields that differ from their defaults in parentheses,
then optionally the layers it acts in as a slice in brackets.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import hashlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from pe_jax.encoding import Dims, Encoding
from pe_jax.encodings.alibi import ALiBi
from pe_jax.encodings.learned import Learned
from pe_jax.encodings.nope import NoPE
from pe_jax.encodings.pi import PI
from pe_jax.encodings.randomized import Randomized
from pe_jax.encodings.rope import RoPE
from pe_jax.encodings.sinusoidal import Sinusoidal
from pe_jax.encodings.t5 import T5
from pe_jax.encodings.transformer_xl import TransformerXL
from pe_jax.encodings.window import Window

ENCODINGS: dict[str, type[Encoding]] = {
    "nope": NoPE,
    "learned": Learned,
    "sinusoidal": Sinusoidal,
    "rope": RoPE,
    "pi": PI,
    "t5": T5,
    "transformer_xl": TransformerXL,
    "alibi": ALiBi,
    "randomized": Randomized,
    "window": Window,
}


@dataclasses.dataclass(frozen=True)
class Member:
    """One term of a spec."""

    id: str
    """Its section in a config: the table's name or the class name, numbered from the second use
    on.
    """
    name: str
    cls: type[Encoding]
    fields: dict[str, Any]

    def with_fields(self, fields: Mapping[str, Any]) -> Member:
        """These fields on top of its own; those unknown are an error with the nearest name."""
        known = defaults(self.cls)
        for field in fields:
            if field not in known:
                near = difflib.get_close_matches(field, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                raise ValueError(
                    f"{self.name} has no field {field!r}{hint} It has {', '.join(known)}."
                )
        return dataclasses.replace(self, fields={**self.fields, **fields})

    def __str__(self) -> str:
        changed = {f: v for f, v in self.fields.items() if v != defaults(self.cls)[f]}
        layers = changed.pop("layers", ":")
        inside = ",".join(f"{field}={value!r}" for field, value in changed.items())
        return (
            self.name + (f"({inside})" if inside else "") + (f"[{layers}]" if layers != ":" else "")
        )


def defaults(cls: type[Encoding]) -> dict[str, Any]:
    """The fields that a user may set, with their defaults."""
    return {f.name: f.default for f in dataclasses.fields(cls) if f.name != "dims"}


def parse(spec: str) -> tuple[Member, ...]:
    """The members of a spec, in order. ValueError, with the nearest names, for what it cannot
    read.
    """
    members, seen = [], {}
    for text in re.split(r"\+(?![^(\[]*[)\]])", spec.replace(" ", "")):
        match = re.fullmatch(r"([^(\[]+)(\(.*\))?(\[[^\]]*\])?", text)
        if not match:
            raise ValueError(
                f"cannot read {text!r} in the encoding {spec!r}: "
                "a member is name(field=value)[layers]"
            )
        name, inside, layers = match.groups()
        cls = _find(name)
        stem = cls.__name__ if ":" in name else name
        seen[stem] = seen.get(stem, 0) + 1
        fields = _fields(inside or "()", text) | ({"layers": layers[1:-1]} if layers else {})
        member = Member(stem if seen[stem] == 1 else f"{stem}_{seen[stem]}", name, cls, {})
        members.append(member.with_fields(fields))
    return tuple(members)


def make(
    spec: str, dims: Dims, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Encoding, ...]:
    """The encodings of a spec for a model of `dims`; `overrides` maps a member's id to fields.

    >>> make("learned+t5", dims, {"t5": {"buckets": 16}})
    """
    members = parse(spec)
    ids = [member.id for member in members]
    if unknown := sorted(set(overrides or {}) - set(ids)):
        raise ValueError(
            f"{spec!r} has the members {', '.join(ids)}; there is no {', '.join(unknown)}"
        )
    members = [member.with_fields((overrides or {}).get(member.id, {})) for member in members]
    return tuple(member.cls(dims, **member.fields) for member in members)


def label(spec: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The spec with the fields that differ from their defaults: what tables show."""
    return "+".join(str(m.with_fields((overrides or {}).get(m.id, {}))) for m in parse(spec))


def swap(encodings: tuple[Encoding, ...], spec: str) -> tuple[Encoding, ...]:
    """The encodings with those of `spec` swapped in, over the same parameters.

    Each replaces the one member whose class it subclasses, and keeps those of its fields that the
    spec does not set, or is appended if it subclasses none. Two candidates are an error, and so is
    an appended one that needs parameters.
    """
    out = list(encodings)
    for member in parse(spec):
        new = member.cls(encodings[0].dims, **member.fields)
        places = [i for i, e in enumerate(out) if type(e) is not NoPE and isinstance(new, type(e))]
        if len(places) > 1:
            raise ValueError(
                f"{spec!r} could replace {len(places)} members of this model: no swap is clear"
            )
        if places:
            shared = [name for name in defaults(type(out[places[0]])) if name not in member.fields]
            kept = {name: getattr(out[places[0]], name) for name in shared}
            out[places[0]] = dataclasses.replace(new, **kept)
        elif drawn := jax.eval_shape(lambda new=new: new.init(jax.random.key(0))):
            raise ValueError(
                f"{spec!r} needs parameters ({', '.join(drawn)}) that this model does not "
                "have: no swap"
            )
        else:
            out.append(new)
    return tuple(out)


def sources(spec: str) -> dict[str, str]:
    """SHA-256 of each file outside the package that a spec names: part of a run's identity."""
    paths = [m.name.rpartition(":")[0] for m in parse(spec) if ":" in m.name]
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def _fields(text: str, member: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        return {
            keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg
        }
    except (SyntaxError, ValueError, AssertionError):
        raise ValueError(
            f"cannot read the fields of {member!r}: they are name=value, the values Python literals"
        ) from None


def _find(name: str) -> type[Encoding]:
    if ":" in name:
        return _load(*name.rsplit(":", 1))
    if name in ENCODINGS:
        return ENCODINGS[name]
    near = difflib.get_close_matches(name, ENCODINGS, 1)
    raise ValueError(
        f"unknown encoding {name!r}{f'; did you mean {near[0]!r}?' if near else '.'} "
        f"Known: {', '.join(sorted(ENCODINGS))}, or your own as dir/file.py:Class."
    )


def _load(path: str, name: str) -> type[Encoding]:
    """The class of a user's own file, imported once a process and again when the file changes."""
    file = Path(path).resolve()
    if not file.is_file():
        raise ValueError(f"no file {path!r} for the encoding {path}:{name}")
    identity = hashlib.sha256(str(file).encode() + b"\0" + file.read_bytes()).hexdigest()
    module_name = f"pe_jax_user_{identity[:16]}"
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, file)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path!r} is not a Python file")
        module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise ValueError(f"{path} does not import: {type(error).__name__}: {error}") from error
    cls = getattr(module, name, None)
    known = [
        n
        for n, c in vars(module).items()
        if isinstance(c, type) and issubclass(c, Encoding) and c.__module__ == module_name
    ]
    if not (isinstance(cls, type) and issubclass(cls, Encoding)):
        raise ValueError(f"{path} has no encoding {name!r}; it has {', '.join(known) or 'none'}")
    if "__dataclass_fields__" not in vars(cls):
        raise ValueError(
            f"{path}:{name} lacks the line @dataclasses.dataclass(frozen=True) above its class"
        )
    return cls
