"""Evaluates a pretrained model as it is and with encodings swapped in, at several lengths. Nothing
is trained.

The scored tokens are those of the metric same_targets: the last ones before places that are spread
over all documents of a text, the same at every length and with every swap. The record has a row for
each place, in the field `seed`, and its intervals are over places. scores.jsonl gets a line as soon
as one place is scored in one way at one length, place after place, so that what was cut off goes
on, and what is there after an hour compares all ways.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from pe_jax import record
from pe_jax.data import tokenizer
from pe_jax.data.corpus import SPLITS
from pe_jax.data.load import load
from pe_jax.errors import Refused
from pe_jax.evaluation import effect
from pe_jax.evaluation.by_place import Key, Line, by_place, key_of
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import plan
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.pretrained.load import Pretrained
from pe_jax.reason import Reason
from pe_jax.record import Begun, Result, Row
from pe_jax.runs import environment
from pe_jax.runs.begin import joined
from pe_jax.runs.run import run_id
from pe_jax.runs.view import View
from pe_jax.storage import atomic, locks, records, state
from pe_jax.storage.hashes import canonical
from pe_jax.storage.history import History, read_lines
from pe_jax.training.session import Session, stopping

METRIC = "same_targets"


class Extension(NamedTuple):
    """What is asked of a pretrained model."""

    model: Pretrained
    source: str
    """The text, as data.source names it."""
    eval: EvalConfig
    """Resolved. `targets` over `last` are the places."""

    @classmethod
    def of(
        cls,
        model: Pretrained,
        source: str,
        lengths: Sequence[int],
        swaps: Sequence[str],
        places: int,
        last: int,
    ) -> Extension:
        """ValueError for lengths and swaps that are not possible with the model."""
        asked = EvalConfig(
            lengths=tuple(lengths),
            metrics=(METRIC,),
            swaps=tuple(swaps),
            targets=places * last,
            last=last,
            batch_tokens=1,  # one window at a time
        )
        config = asked.resolved(model.length)
        effect.check(model.encodings, config)
        return cls(model, source, config)

    @property
    def places(self) -> int:
        """How many places are scored."""
        return self.eval.targets // (self.eval.last or 1)

    def folder(self, workdir: Path) -> Path:
        """The folder of these scores: more lengths within the longest, or more swaps, are scored
        beside those that are there.
        """
        fixed = [self.model.files, self.source, self.places, self.eval.last, max(self.eval.lengths)]
        return workdir / run_id(self.model.name, {"extend": fixed, "weights": self.model.weights})


def extend(asked: Extension, workdir: Path, command: str, view: View) -> Result:
    """The scores, of which those that are known are read. Refused where the text is too short or
    has changed, Interrupted where the process is asked to stop.
    """
    folder = asked.folder(workdir)
    documents, about = _text(asked)
    try:
        cuts = {
            length: windows(documents, METRIC, length, asked.eval, asked.model.tokenizer.sizes)
            for length in asked.eval.lengths
        }
    except ValueError as error:
        raise Refused(str(error)) from error
    with locks.locked(folder, say=view.say) as check, stopping(view.say) as stop:
        begun = _begin(asked, folder, about, command)
        path = folder / "scores.jsonl"
        lines = {key_of(line): line for line in read_lines(path)}
        view.begin()
        session = Session(History(path, view.watch, check), view.say, stop)
        model, passes = asked.model, plan(asked.model.encodings, asked.eval)
        for line in by_place(model.graphdef, model.params, passes, cuts, {**lines}, session):
            lines[key_of(line)] = line
        result = _result(asked, begun, cuts, lines)
        records.write(folder / "result.json", result)
        return result


def _text(asked: Extension) -> tuple[list[np.ndarray], record.Corpus]:
    """The documents of all splits in the model's tokens, since it was trained on none of them here,
    and what records hold of them.
    """
    try:
        corpus = load(asked.source, "")
        tokens = tokenizer.cut(corpus, asked.model.tokenizer)
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error
    return [document for split in SPLITS for document in tokens.splits[split]], tokens.about


def _begin(asked: Extension, folder: Path, about: record.Corpus, command: str) -> Begun:
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
        sources=model.files,
        started=state.now(),
        **vars(environment.process()),
    )
    earlier = records.read(Begun, folder / "config.json")
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


def _result(
    asked: Extension,
    begun: Begun,
    cuts: dict[int, Windows],
    lines: dict[Key, Line],
) -> Result:
    model, ways = asked.model, ("", *asked.eval.swaps)
    rows = tuple(
        _row(lines[place, swap, length])
        for swap in ways
        for length in asked.eval.lengths
        for place in range(asked.places)
    )
    size = sum(leaf.size for leaf in jax.tree.leaves(model.params))
    return Result(
        **vars(begun),
        replicate="place",
        rows=rows,
        train=record.Training(length=model.length, steps=0),
        targets={METRIC: asked.eval.targets},
        target_bytes={METRIC: {length: cut.bytes for length, cut in cuts.items()}},
        parameters=record.Parameters(total=size, encoding=0),
        peak_memory_mib=environment.peak_memory_mib(),
        scored_by=(environment.process(),),
    )


def _row(line: Line) -> Row:
    return Row(
        seed=line["place"],
        metric=METRIC,
        length=line["length"],
        value=line["value"],
        swap=line["swap"],
        reason=Reason(line["reason"]) if line["reason"] else None,
        at=line["at"],
    )
