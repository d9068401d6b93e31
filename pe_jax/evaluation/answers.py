"""Right predictions of trained models in the samples of a task, at one length at a time.

Samples are drawn inside the program, from keys of their length and number alone, which training
never uses: all models and seeds meet the same ones. Random positions differ between samples.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float, Int

from pe_jax.encoding import Encoding
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Pass
from pe_jax.evaluation.room import Room
from pe_jax.evaluation.scoring import Missing, batch_of, in_room, merged
from pe_jax.reason import Reason
from pe_jax.task import Task
from pe_jax.training.mesh import place_windows
from pe_jax.training.processes import gather
from pe_jax.training.session import Session

HELD_OUT = 2**32 - 1
"""The seed of the samples that are evaluated. Keys of training are folded in another way, so that
even a run of this seed would not meet them.
"""


class Counts(NamedTuple):
    """Of each sample, what a metric reads."""

    right: Int[Array | np.ndarray, "B"]
    """How many of its scored predictions are right: the most likely token is the target."""
    scored: Int[Array | np.ndarray, "B"]
    """How many predictions are scored."""
    nats: Float[Array | np.ndarray, "B"]
    """The sum of their -ln p."""


@functools.partial(
    jax.jit, static_argnames=("graphdef", "encodings", "task", "longest", "blockwise")
)
def count_right(
    params: Any,
    numbers: Int[Array, "B"],
    n: Int[Array, ""],
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    task: Task,
    longest: int,
    blockwise: bool = False,
) -> Counts:
    """The predictions of one seed's `params` in the samples of length n with these numbers, which
    are padded to the size of `longest`.
    """
    model = merged(graphdef, params, blockwise)
    key = jax.random.fold_in(jax.random.key(HELD_OUT), n)
    keys = jax.vmap(jax.random.split)(jax.vmap(jax.random.fold_in, (None, 0))(key, numbers))
    tokens, targets, scored = jax.vmap(lambda key: task.sample(key, n, longest))(keys[:, 0])
    size = jnp.asarray(task.size(n))
    logits, _ = model(tokens, encodings=encodings, key=keys[:, 1], size=size)
    right = (logits.argmax(-1) == targets) & scored
    nats = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    return Counts(right.sum(-1), scored.sum(-1), nats.sum(-1, where=scored))


def count(
    task: Task,
    part: Pass,
    graphdef: nnx.GraphDef,
    params: Any,
    config: EvalConfig,
    session: Session,
    room: Room,
) -> Counts | Missing:
    """The predictions in the samples of the length of a pass, or why there are none: there is too
    little memory, or a value is not finite.
    """
    tokens, samples = task.size(part.longest), config.samples
    batch = batch_of(tokens, config.batch_tokens, samples, session)
    program = functools.partial(
        count_right,
        graphdef=graphdef,
        encodings=part.encodings,
        task=task,
        longest=part.longest,
    )
    n = np.int32(part.length)

    def numbers(first: int) -> Any:
        return place_windows(session.mesh, np.arange(first, first + batch, dtype=np.int32))

    def compute(program: functools.partial) -> Counts:
        batches = [gather(program(params, numbers(first), n)) for first in range(0, samples, batch)]
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:samples], *batches)

    found = in_room(program, (params, numbers(0), n), tokens, session, room, compute)
    if isinstance(found, Missing):
        return found
    return found if np.isfinite(found.nats).all() else Missing(Reason.NOT_FINITE)
