"""Which results a published number means: by the task and the encoding that its line names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax import terms
from pe_jax.errors import nearest
from pe_jax.record import Result
from pe_jax.report.references import Reference
from pe_jax.report.words import join


def does(result: Result, task: str) -> bool:
    """Whether a result is of a task, with the fields that are named."""
    name, asked = member(task)
    fields = _task(result)
    return fields.get("name", "text") == name and _named(fields, asked)


def _task(result: Result) -> dict[str, Any]:
    """The task of a result with its fields; records from before there were tasks have none."""
    return result.config.get("task", {})


def spec_of(result: Result) -> str:
    """The spec of a result's encodings, as its config has it."""
    return result.config.get("pe", {}).get("spec", "")


def fits(result: Result, wanted: str) -> bool:
    """Whether a result has the encodings of a published spec, with the fields that it names."""
    fields = result.config.get("pe", {})
    sections = {id: found for id, found in fields.items() if isinstance(found, dict)}
    try:
        return _reads(wanted, spec_of(result), sections)
    except ValueError:  # a spec that cannot be read is of no published encoding
        return False


def _reads(wanted: str, found: str, fields: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether an encoding `found`, with the `fields` of its members by their ids, is the one that
    is `wanted`: it has the same members, with each field that `wanted` names.
    """
    ours, theirs = _members(found), _members(wanted)
    if [(name, layers) for name, _, layers in ours] != [(name, at) for name, _, at in theirs]:
        return False
    used: dict[str, int] = {}
    for (name, own, _), (_, asked, _) in zip(ours, theirs, strict=True):
        used[name] = used.get(name, 0) + 1
        id = name if used[name] == 1 else f"{name}_{used[name]}"
        if not _named({**own, **fields.get(id, {})}, asked):
            return False
    return True


def _named(fields: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether the fields have the values that are asked for."""
    return all(name in fields and fields[name] == value for name, value in asked.items())


def member(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the fields of a task or of a member of a spec."""
    term = terms.Term.of(text, text)
    return term.name, terms.literals(term.fields, text)


def variant(text: str) -> dict[str, Any] | str:
    """The fields of a task's variant, in any order and spacing; the text itself if it is none."""
    try:
        return member(f"_({text})")[1] if "=" in text else text
    except ValueError:
        return text


def _members(spec: str) -> list[tuple[str, dict[str, Any], str | None]]:
    parts = [(part, terms.Term.of(part, spec)) for part in terms.members(spec)]
    return [(term.name, terms.literals(term.fields, part), term.layers) for part, term in parts]


def nothing(results: Sequence[Result], reference: Reference) -> str:
    """Why a reference cannot be used: in one line, the tasks and encodings of both sides."""
    specs = list(dict.fromkeys(entry.spec for entry in reference.entries))
    ours = list(dict.fromkeys(map(spec_of, results)))
    done = list(dict.fromkeys(map(_done, results)))
    if any(does(result, task) for result in results for task in reference.tasks):
        return (
            f"the reference {reference.name} has other encodings than these runs"
            f"{nearest(ours[0], specs)} It has {join(specs)}; the runs have {join(ours)}: run some "
            "of its encodings"
        )
    return (
        f"the reference {reference.name} has other tasks than these runs"
        f"{nearest(done[0], reference.tasks)} It has {join(reference.tasks)}, with the encodings "
        f"{join(specs)}; the runs have {join(done)}, with {join(ours)}: give another file"
    )


def _done(result: Result) -> str:
    """The task of a result in a word, with the fields that are not at their defaults."""
    return result.corpus.source if _task(result).get("name", "text") != "text" else "text"
