"""What the trained models of a run score: at the end of the run, and again whenever it is asked for
by another section `eval` or on other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from pe_jax.data.tokenizer import Tokens
from pe_jax.evaluation.evaluate import Evaluation, Models, evaluate
from pe_jax.runs import environment, programs
from pe_jax.runs.run import Run
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.training.session import Session
from pe_jax.training.step import State, init, structure


def final_states(run: Run, folder: Path) -> list[State]:
    """The states after the last step of a finished run in `folder`, one for each of its programs.

    ValueError if one of these checkpoints is damaged or gone; the one before it is not taken.
    """
    programs.keep()
    states = []
    for seeds in run.groups:
        like = jax.eval_shape(lambda seeds=seeds: init(run.lm, run.encodings, run.train, seeds))
        checkpoints = Checkpoints(folder / "checkpoints" / "-".join(map(str, seeds)), True)
        states.append(checkpoints.state(run.train.steps, like))
    return states


def scores(
    run: Run, states: Sequence[State], corpus: Tokens, session: Session | None = None
) -> Evaluation:
    """What the models of the programs' `states` score, by the run's metrics at its lengths."""
    session = session or Session()
    graphdef, _ = structure(run.lm, run.encodings)
    models = Models(
        graphdef,
        jax.tree.map(lambda *a: np.concatenate(a), *(state["params"] for state in states)),
        run.encodings,
        run.run.seeds,
        tuple(np.concatenate([state["diverged"] for state in states]).tolist()),
        run.train.length,
    )
    # XLA's CPU runs the blocks of attention one after another: a second core would be idle.
    alone = jax.default_backend() == "cpu" and not session.mesh
    return evaluate(
        models,
        corpus.splits[run.eval.split],
        run.eval,
        corpus.tokenizer.sizes,
        session,
        threads=environment.threads() if alone else 1,
    )
