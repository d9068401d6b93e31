"""Carries out a run: trains its seeds, evaluates them, writes the record. The same call goes on
after a kill; with more seeds, or another section `eval`, it trains and scores what is missing.

With several train.rates a run has a run inside for each of them, of some of its seeds. The rate is
chosen by the bits per byte of validation text at the training length, and all seeds are trained at
it. What they score beyond that length, or on other text, has no part in the choice.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import jax

from pe_jax import record
from pe_jax.reason import divergence
from pe_jax.record import Result, Tried
from pe_jax.runs import folder as folders
from pe_jax.runs import layout, measured, programs
from pe_jax.runs.carry_out import carry_out, keep_state, tuned
from pe_jax.runs.follow import Done, follow
from pe_jax.runs.progress import RunView
from pe_jax.runs.run import Run
from pe_jax.runs.trackers import require
from pe_jax.runs.view import SILENT, Parts, View
from pe_jax.storage import locks, records
from pe_jax.storage.history import History, read_lines
from pe_jax.training.processes import broadcast


def execute(
    run: Run,
    workdir: str | Path,
    command: str = "",
    view: View | None = None,
    verbose: bool = True,
) -> Result:
    """Trains the seeds of a run, scores them and gives the result: `rows` are the scores, a Row for
    each seed, swap, metric and length in tokens. All of it is kept in <workdir>/<run.id>, and what
    that folder has already is not computed again.

    On a terminal a bar shows how far the run is, in a notebook a line that is written over,
    elsewhere a line every 20 s on stderr; nothing with verbose=False. `view` is another view in
    their place. `command` is what the record says reproduces the run.

    Raises Refused for what the user can mend, as text that is too short, and Interrupted after
    SIGINT or SIGTERM, with the training state saved: the same call goes on. state.json says how the
    run ended.

    Of several processes all call it. Only the first uses the arguments, reads and writes the work
    directory and shows anything; all get the result, or what was raised.
    """
    programs.keep()
    if jax.process_index() > 0:
        return follow()
    folder = folders.find(run, Path(workdir))
    if view or not verbose:
        chosen = contextlib.nullcontext(view or SILENT)
    else:
        chosen = RunView(run.label, len(run.run.seeds))
    with chosen as shown:
        return broadcast(lambda: Done(_execute(run, folder, command, shown))).result


def _execute(run: Run, folder: Path, command: str, view: View) -> Result:
    if done := folders.complete(run, folder):
        return done
    require(run.log.trackers)
    if run.train.rates:
        return _at_the_best_rate(run, folder, command, view)
    return carry_out(run, folder, command, view)


def _at_the_best_rate(run: Run, folder: Path, command: str, view: View) -> Result:
    run.load()  # what is wrong with its text is told before anything is written
    with locks.locked(folder, say=view.say) as check, keep_state(folder, check) as told:
        records.read_whole(Result, folder / "result.json", view.say)  # it is made anew
        planned = record.Planned(label=run.label, config=run.config)
        records.write(folder / "queued.json", planned)
        (folder / "metrics.jsonl").unlink(missing_ok=True)  # the parts give theirs anew
        history = History(folder / "metrics.jsonl", view.watch, check)
        parts = Parts(view, history, len(run.train.rates) + 1)
        inside, tried, seconds = folder / layout.RATES, [], {}
        for rate in run.train.rates:
            part = run.at_rate(rate, run.run.choosing)
            own = folders.find(part, inside)
            tried.append(Tried(rate=rate, valid=tuned(part, own, command, parts.next())))
            seconds[rate] = measured.seconds(read_lines(own / "metrics.jsonl"))
        best = layout.chosen(tried)
        part = run.at_rate(best.rate, run.run.seeds)
        found = carry_out(part, folders.find(part, inside), command, parts.next())
        del seconds[best.rate]  # they are among those of `found`
        result = dataclasses.replace(
            found,
            id=folder.name,
            config=run.config,
            rates=tuple(tried),
            command=command,
            seconds=found.seconds and _with_training(found.seconds, sum(seconds.values())),
        )
        check()
        records.write(folder / "result.json", result)
        told(divergence(result.diverged))
        return result


def _with_training(seconds: record.Seconds, more: float) -> record.Seconds:
    """The wall time with `more` seconds of training."""
    train, total = seconds.train + more, seconds.total + more
    return record.Seconds(train=train, evaluate=seconds.evaluate, total=total)
