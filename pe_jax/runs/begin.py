"""The beginning of a run: its config.json, and what has changed where it was begun before."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused
from pe_jax.record import Begun, Result, Vocabulary
from pe_jax.runs import environment
from pe_jax.runs.run import Run, users_files
from pe_jax.runs.view import View
from pe_jax.storage import atomic, records, state
from pe_jax.storage.hashes import canonical


def begin(run: Run, folder: Path, corpus: Tokens, command: str, view: View) -> Begun:
    """Writes config.json, and tokenizer.json if there is one. Where the run was begun before,
    checks that it goes on with the same text and tokens, and says what else has changed.
    """
    about = Begun(
        id=folder.name,
        label=run.label,
        command=command,
        config=json.loads(canonical(run.config)),  # as it is read back: lists, no tuples
        seeds=run.run.seeds,
        corpus=corpus.about,
        tokenizer=corpus.tokenizer.describe(),
        sources=users_files(run.config),
        parent=run.start.about() if run.start else None,
        advice=run.advice,
        started=state.now(),
        **vars(environment.process()),
    )
    records.read_whole(Result, folder / "result.json", view.say)  # it is made anew
    if earlier := records.read_whole(Begun, folder / "config.json", view.say):
        _check_begun(run, folder, earlier, about)
        commit = joined(earlier.commit, about.commit)
        about = dataclasses.replace(about, started=earlier.started, commit=commit)
        for part in ("versions", "device", "commit"):
            if getattr(earlier, part) != getattr(about, part):
                view.say(
                    f"{run.label}: {part} changed since the run was begun; "
                    "its results are not bit-reproducible"
                )
        if commit != earlier.commit:
            known = dataclasses.replace(earlier, commit=commit)
            records.write(folder / "config.json", known)
        return about
    if corpus.tokenizer.json is not None:
        atomic.write(folder / "tokenizer.json", corpus.tokenizer.json)
    if run.start:
        view.say(run.start.summary())
    for doubt in (*run.advice, *corpus.about.doubts()):
        view.say(f"note: {doubt}")
    records.write(folder / "config.json", about)
    return about


def joined(earlier: str, commit: str) -> str:
    """The commits that a run was carried out by, in their order."""
    return earlier if earlier.endswith(commit) else f"{earlier}, then {commit}"


def _check_begun(run: Run, folder: Path, earlier: Begun, about: Begun) -> None:
    """Refused where the run was begun with another text or other tokens."""
    if earlier.corpus.hash != about.corpus.hash:
        raise Refused(
            f"{folder} was begun on other text ({run.data.source} has changed since): "
            "delete the folder, or give another --workdir"
        )
    if _tokens(earlier) != _tokens(about):
        raise Refused(
            f"{folder} was begun with other tokens ({run.data.tokenizer} by another version of its "
            "library): delete the folder, or give another --workdir"
        )


def _tokens(begun: Begun) -> Vocabulary:
    """The tokenizer of a run, wherever its file lies."""
    return dataclasses.replace(begun.tokenizer, spec="")
