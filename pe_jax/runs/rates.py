"""Learning rates that are tried: a run for each of `train.rates`, scored at its training length
alone; the best is evaluated as the config asks.

The rate is chosen by the validation score at the training length, the mean over all seeds. Scores
beyond that length, or on other text, have no part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pe_jax.errors import Refused
from pe_jax.record import Result, Tried
from pe_jax.runs.config import section, whole_sections
from pe_jax.runs.execute import execute
from pe_jax.runs.folder import Folder
from pe_jax.runs.run import Run


def runs_of(config: Mapping[str, Any]) -> tuple[Run, ...]:
    """The run at each of train.rates of a config; without any, its one run. Raises as Run.of."""
    train = whole_sections(config).get("train", {})
    if not section("train", train).rates:
        return (Run.of(config),)
    one = [{**config, "train": {**train, "rate": rate, "rates": ()}} for rate in train["rates"]]
    return tuple(map(Run.of, one))


def trial(run: Run) -> Run:
    """The run, scored at its training length alone, as it was trained."""
    ways = {"swaps": (), "variants": (), "memory": ()}
    evaluation = run.config["eval"] | ways | {"lengths": (run.train.length,)}
    return Run.of(run.config | {"eval": evaluation})


def best(runs: Sequence[Run], workdir: str | Path) -> tuple[Run, tuple[Tried, ...]]:
    """The run whose mean over seeds is the lowest, the first of equal ones, and all that were
    tried. Refused where a run has no result or no validation score, where their texts differ, and
    if a seed diverged at each rate.
    """
    folders = [Folder.of(run.id, workdir) for run in runs]
    tried, texts = [], set()
    for run, folder in zip(runs, folders, strict=True):
        if (result := folder.answer(run.run.seeds)) is None:
            raise Refused(f"{folder.path} has no result yet")
        if not result.train.valid and {*result.seeds} - {*result.diverged}:
            raise Refused(
                f"train.rates are chosen among by validation text, and {folder.path} has no score "
                f"at the end of training: give text with a window of {run.train.length} tokens, or "
                "one train.rate; if its metrics.jsonl is damaged, delete the folder"
            )
        scores = dict(zip(result.seeds, result.train.valid, strict=False))
        valid = {seed: scores.get(seed) for seed in run.run.seeds}
        tried.append(Tried(rate=run.train.rate, run=run.id, valid=valid))
        texts.add(result.corpus.hash)
    if len(texts) > 1:
        raise Refused(
            f"the text of {', '.join(run.id for run in runs)} in {workdir} has changed from rate "
            "to rate: delete these folders, or give another --workdir"
        )
    means = [one.mean for one in tried]
    if math.isinf(min(means)):
        rates = ", ".join(f"{one.rate:g}" for one in tried)
        raise Refused(f"training diverged at each of train.rates, {rates}: give lower ones")
    return runs[means.index(min(means))], tuple(tried)


def execute_best(
    runs: Sequence[Run], workdir: str | Path, command: str = "", verbose: bool = True
) -> Result:
    """Trains the runs, which differ in their rate alone, and executes the best, whose record has
    all rates. A single run is executed. Raises as `execute`, and as `best`.
    """
    if len(runs) == 1:
        return execute(runs[0], workdir, command, verbose)
    for run in runs:
        if not Folder.of(run.id, workdir).answer(run.run.seeds):
            execute(trial(run), workdir, command, verbose)
    run, tried = best(runs, workdir)
    return execute(run, workdir, command, verbose, tried)
