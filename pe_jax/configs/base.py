"""The defaults of a run, from which the other configs start.

    pe-jax run --config=base.py:pe=randomized+rope --config.train.steps=200 --workdir=DIR

`pe-jax list fields` prints every field with its default and a sentence. Each section is a
dataclass: lm in model/config.py, train in training/config.py, eval in evaluation/config.py, data,
run and log in runs/config.py, resources in runs/resources.py.

The argument pe=SPEC chooses the encodings; specs/parse.py says how a spec is written. With
task=NAME,pe=SPEC the model learns another task than language modelling, one of pe_jax/tasks/.
"""

import dataclasses
import re
import typing
from typing import Any, Literal

from ml_collections import ConfigDict, FieldReference
from ml_collections.config_dict import placeholder


def get_config(arg="pe=rope") -> Any:
    """The defaults, with the encodings and the task that `arg`, "task=NAME,pe=SPEC", names."""
    name, spec = chosen(arg)
    c = ConfigDict({"pe": encodings(spec), "task": task(name)})
    from pe_jax.runs.config import SECTIONS  # imports much: after the spec was checked

    for section, kind in SECTIONS.items():
        values = {field.name: field.default for field in dataclasses.fields(kind)}
        c[section] = _fields(values, typing.get_type_hints(kind))
    return c


def chosen(arg):
    """(NAME, SPEC) of the argument "task=NAME,pe=SPEC"; text and rope where one is left out."""
    match = re.fullmatch(r"(?:task=([^,]+))?(?:(?:^|,)pe=(.+))?", arg or "")
    if not match:
        raise ValueError(f"a config's argument is pe=SPEC or task=NAME,pe=SPEC, got {arg!r}")
    return match[1] or "text", match[2] or "rope"


def task(name):
    """Section task: the name, and all fields of the task."""
    from pe_jax.tasks.section import make, whole

    return _fields(whole({"name": name}), typing.get_type_hints(type(make({"name": name}))))


def encodings(spec):
    """Section pe: the spec, and for each member a section with all its fields, by its id."""
    from pe_jax.specs.parse import defaults, parse

    section = ConfigDict({"spec": spec})
    for member in parse(spec):
        fields = defaults(member.cls) | member.fields
        section[member.id] = _fields(fields, typing.get_type_hints(member.cls))
    return section


def _fields(values, hints):
    # None is a placeholder for any value: Run.of checks its type; 4 becomes 4.0. So is a number
    # that may be a word
    section = ConfigDict()
    for name, value in values.items():
        kinds = typing.get_args(hints.get(name))
        if value is None:
            value = placeholder(float if float in kinds else object)
        elif any(typing.get_origin(kind) is Literal for kind in kinds):
            value = FieldReference(value, field_type=object)
        section[name] = value
    return section
