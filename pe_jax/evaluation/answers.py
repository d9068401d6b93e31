"""Predictions of trained models in the samples of a task, at one length at a time.

Samples are drawn inside the program, from keys of their length and number alone (of a task whose
samples are `nested`, of their number), which training never uses: all models and seeds meet the
same ones. Random positions differ between samples.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from pe_jax.encoding import Encoding
from pe_jax.evaluation.budget import Budget
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Pass
from pe_jax.evaluation.scoring import Missing, batch_of, merged, within_budget
from pe_jax.record import Reason
from pe_jax.task import Sample, Task
from pe_jax.training.mesh import place_windows
from pe_jax.training.processes import gather
from pe_jax.training.session import Session

SEEDS = {"test": 2**32 - 1, "valid": 2**32 - 2}
"""The seeds of the samples that are evaluated, by `eval.split`. Keys of training are folded in
another way, so that even a run of these seeds would not meet them.
"""


class Answers(NamedTuple):
    """What a model predicts in samples."""

    right: Bool[Array | np.ndarray, "B S"]
    """Which of the scored predictions are right: the most likely token is the target."""
    scored: Bool[Array | np.ndarray, "B S"]
    """Which predictions are scored."""
    nats: Float[Array | np.ndarray, "B S"]
    """-ln p of the targets; 0 where none is scored."""
    label_nats: Float[Array | np.ndarray, "B S"]
    """-ln of p(target) / p(all labels); 0 where none is scored."""


def held_out(
    task: Task, n: Int[Array, ""], numbers: Int[Array, "B"], longest: int, split: str
) -> tuple[Sample, Key[Array, "B"]]:
    """(the samples of a split of length n with these numbers, padded to the size of `longest`; for
    each a key for random positions).
    """
    key = jax.random.key(SEEDS[split])
    key = key if task.nested else jax.random.fold_in(key, n)
    keys = jax.vmap(jax.random.split)(jax.vmap(jax.random.fold_in, (None, 0))(key, numbers))
    return jax.vmap(lambda key: task.sample(key, n, longest))(keys[:, 0]), keys[:, 1]


@functools.partial(
    jax.jit, static_argnames=("graphdef", "encodings", "task", "longest", "split", "blockwise")
)
def predict(
    params: Any,
    numbers: Int[Array, "B"],
    n: Int[Array, ""],
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    task: Task,
    longest: int,
    split: str,
    blockwise: bool = False,
) -> Answers:
    """The predictions of one seed's `params` in the samples of a split of length n with these
    numbers, which are padded to the size of `longest`.
    """
    model = merged(graphdef, params, blockwise)
    (tokens, targets, scored), keys = held_out(task, n, numbers, longest, split)
    size = jnp.asarray(task.size(n))
    logits, _ = model(tokens, encodings=encodings, key=keys, size=size, scan=True)
    right = (logits.argmax(-1) == targets) & scored
    nats = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    first, labels = task.first_label(), task.labels()
    among = optax.softmax_cross_entropy_with_integer_labels(
        logits[..., first : first + labels], jnp.clip(targets - first, 0, labels - 1)
    )
    return Answers(right, scored, jnp.where(scored, nats, 0), jnp.where(scored, among, 0))


def answers(
    part: Pass,
    graphdef: nnx.GraphDef,
    params: Any,
    config: EvalConfig,
    session: Session,
    budget: Budget,
) -> Answers | Missing:
    """The predictions in the samples of the length of a pass, or why there are none: there is too
    little memory, or a value is not finite.
    """
    tokens, samples = part.task.size(part.longest), config.samples
    batch = batch_of(tokens, config.batch_tokens, samples, session)
    program = functools.partial(
        predict,
        graphdef=graphdef,
        encodings=part.encodings,
        task=part.task,
        longest=part.longest,
        split=config.split,
    )
    n = np.int32(part.length)

    def numbers(first: int) -> Any:
        return place_windows(session.mesh, np.arange(first, first + batch, dtype=np.int32))

    def compute(program: functools.partial) -> Answers:
        batches = [gather(program(params, numbers(first), n)) for first in range(0, samples, batch)]
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:samples], *batches)

    found = within_budget(program, (params, numbers(0), n), tokens, session, budget, compute)
    if isinstance(found, Missing):
        return found
    return found if np.isfinite(found.nats).all() else Missing(Reason.NOT_FINITE)
