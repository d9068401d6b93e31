"""Evaluates a pretrained model as it is and with encodings swapped in, at several lengths. Nothing
is trained.

The record has a row for each place of the text, or depth of a passkey, in the field `seed`.
metrics.jsonl gets a line as soon as one place is scored in one way at one length, place after
place, so that what was cut off goes on.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from pe_jax import record
from pe_jax.errors import Refused
from pe_jax.evaluation.by_place import Key, Line, by_place, key_of
from pe_jax.reason import Reason
from pe_jax.record import Begun, Curve, Result, Row
from pe_jax.runs import environment
from pe_jax.runs.begin import joined
from pe_jax.runs.carry_out import keep_state
from pe_jax.runs.extension import Extension, Material
from pe_jax.runs.view import View
from pe_jax.storage import atomic, locks, records, state
from pe_jax.storage.hashes import canonical
from pe_jax.storage.history import History, read_lines
from pe_jax.training.session import Session, stopping


def extend(asked: Extension, workdir: Path, command: str, view: View) -> Result:
    """The scores, of which those that are known are read. Refused where the text is too short or
    has changed, Interrupted where the process is asked to stop.
    """
    folder = asked.folder(workdir)
    try:
        material = asked.material()
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error
    with locks.locked(folder, say=view.say) as check, stopping(view.say) as stop:
        begun = _begin(asked, folder, material.about, command, view)
        with keep_state(folder, check):
            path = folder / "metrics.jsonl"
            lines = {key_of(line): line for line in read_lines(path)}
            view.begin()
            session = Session(History(path, view.watch, check), view.say, stop)
            scored = material.scorer(session)
            for line in by_place(asked.passes, asked.places, scored, {**lines}, session):
                lines[key_of(line)] = line
            result = _result(asked, begun, material, lines)
            records.write(folder / "result.json", result)
            return result


def _begin(asked: Extension, folder: Path, about: record.Corpus, command: str, view: View) -> Begun:
    """Writes config.json. Refused where scores are there of other text."""
    model = asked.model
    config = {
        "pe": {"spec": model.spec},
        "lm": vars(model.lm),
        "train": {"length": model.length, "init_from": model.source, "weights": model.weights},
        "eval": vars(asked.eval),
        "data": {"source": asked.source},
    }
    begun = Begun(
        id=folder.name,
        label=model.name,
        command=command,
        config=json.loads(canonical(config)),
        seeds=tuple(range(asked.places)),
        corpus=about,
        tokenizer=model.tokenizer.describe(),
        sources=asked.files,
        started=state.now(),
        **vars(environment.process()),
    )
    records.read_whole(Result, folder / "result.json", view.say)  # it is made anew
    earlier = records.read_whole(Begun, folder / "config.json", view.say)
    if earlier and earlier.corpus.hash != about.hash:
        raise Refused(
            f"{folder} has scores of other text ({asked.source} has changed since): delete the "
            "folder, or give another --workdir"
        )
    if earlier:
        commit = joined(earlier.commit, begun.commit)
        begun = dataclasses.replace(begun, started=earlier.started, commit=commit)
    records.write(folder / "config.json", begun)
    if model.tokenizer.json is not None:
        atomic.write(folder / "tokenizer.json", model.tokenizer.json)
    return begun


def _result(asked: Extension, begun: Begun, material: Material, lines: dict[Key, Line]) -> Result:
    model, ways = asked.model, ("", *asked.eval.swaps)
    keys = [
        (place, swap, length)
        for swap in ways
        for length in asked.eval.lengths
        for place in range(asked.places)
    ]
    rows = [_row(lines[key], asked.metric) for key in keys]
    curves = [] if material.depths is None else [_curve(row, material.depths) for row in rows]
    return Result(
        **vars(begun),
        replicate="place" if material.depths is None else "depth",
        rows=tuple(rows),
        curves=tuple(curves),
        train=record.Training(length=model.length, steps=0),
        targets={asked.metric: asked.eval.targets} if material.bytes else {},
        target_bytes={asked.metric: material.bytes} if material.bytes else {},
        parameters=record.Parameters(total=model.size, encoding=0),
        peak_memory_mib=environment.peak_memory_mib(),
        scored_by=(environment.process(),),
    )


def _row(line: Line, metric: str) -> Row:
    return Row(
        seed=line["place"],
        metric=metric,
        length=line["length"],
        value=line["value"],
        swap=line["swap"],
        reason=Reason(line["reason"]) if line["reason"] else None,
        at=line["at"],
        seconds=line["seconds"],
    )


def _curve(row: Row, depths: np.ndarray) -> Curve:
    """The score of a place as that of its depth."""
    return Curve(
        seed=row.seed,
        length=row.length,
        position=(float(depths[row.seed]),),
        value=(row.value,),
        swap=row.swap,
        metric=row.metric,
    )
