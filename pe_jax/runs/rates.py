"""Learning rates that are tried: a run for each of `train.rates`, of which the best is evaluated.

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
from pe_jax.runs.execute import execute, train_alone
from pe_jax.runs.folder import Folder
from pe_jax.runs.run import Run


def runs_of(config: Mapping[str, Any]) -> tuple[Run, ...]:
    """The run at each of train.rates of a config; without any, its one run. Raises as Run.of."""
    train = whole_sections(config).get("train", {})
    if not section("train", train).rates:
        return (Run.of(config),)
    one = [{**config, "train": {**train, "rate": rate, "rates": ()}} for rate in train["rates"]]
    return tuple(map(Run.of, one))


def tried(runs: Sequence[Run], workdir: str | Path) -> tuple[Tried, ...]:
    """The validation scores of runs that are trained. Refused where their texts differ."""
    begun = [Folder.of(run.id, workdir).begun() for run in runs]
    if len({one.corpus.hash for one in begun if one}) > 1:
        raise Refused(
            f"the text of {', '.join(run.id for run in runs)} in {workdir} has changed from rate "
            "to rate: delete these folders, or give another --workdir"
        )
    scores = []
    for run in runs:
        valid = Folder.of(run.id, workdir).valid_at_end(run.run.seeds, run.train.steps)
        every = {seed: valid.get(seed) for seed in run.run.seeds}
        scores.append(Tried(rate=run.train.rate, valid=every))
    return tuple(scores)


def best(runs: Sequence[Run], scores: Sequence[Tried]) -> Run:
    """The run whose mean over seeds is the lowest, the first of equal ones. Refused if a seed
    diverged at each rate.
    """
    means = [one.mean for one in scores]
    if math.isinf(min(means)):
        rates = ", ".join(f"{one.rate:g}" for one in scores)
        raise Refused(f"training diverged at each of train.rates, {rates}: give lower ones")
    return runs[means.index(min(means))]


def execute_best(
    runs: Sequence[Run], workdir: str | Path, command: str = "", verbose: bool = True
) -> Result:
    """Trains the runs, which differ in their rate alone, and executes the best, whose record has
    all rates. A single run is executed. Raises as `execute`, and as `best`.
    """
    if len(runs) == 1:
        return execute(runs[0], workdir, command, verbose)
    for run in runs:
        train_alone(run, workdir, command, verbose)
    scores = tried(runs, workdir)
    return execute(best(runs, scores), workdir, command, verbose, scores)
