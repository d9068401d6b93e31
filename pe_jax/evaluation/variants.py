"""Variants of a task: the same task with other values of its fields than in training."""

from __future__ import annotations

import dataclasses

from pe_jax import terms
from pe_jax.errors import nearest
from pe_jax.task import Task


def variant(task: Task, text: str) -> Task:
    """The task with the fields of a text such as "ignore=0.98" or "types=2, deepest=12".

    ValueError for a text that is no list of fields, for a field that the task does not have, with
    the nearest name, for a value that it does not allow, and where the tokens are not the same: a
    trained model could not read them.
    """
    name, member = type(task).__name__, f"_({text})"
    try:
        fields = terms.literals(terms.Term.of(member, member).fields, member)
    except ValueError:
        raise ValueError(
            f'eval.variants: cannot read {text!r}; a variant is "field=value", or several such '
            "with commas between them, the values Python literals"
        ) from None
    known = [field.name for field in dataclasses.fields(task) if field.name != "causal"]
    for field in fields:
        if field not in known:
            raise ValueError(
                f"eval.variants: {name} has no field {field!r}{nearest(field, known)} It has "
                f"{', '.join(known) or 'none'}."
            )
    made = dataclasses.replace(task, **fields)
    if made.vocab() != task.vocab():
        raise ValueError(
            f"eval.variants: {name} has {made.vocab()} tokens with {text!r} and {task.vocab()} in "
            "training: a variant must have the same"
        )
    return made
