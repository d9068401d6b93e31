"""What trained models predict, by jitted forward passes: -ln p of the targets of windows of text,
and predictions in the samples of a task.

Random positions depend on a window's index alone, so every seed and encoding meets the same ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from pe_jax.encoding import Encoding
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Pass
from pe_jax.evaluation.windows import Windows
from pe_jax.model.lm import LM
from pe_jax.model.logits import of_logits
from pe_jax.model.memory import Memory
from pe_jax.record import Reason, sentence
from pe_jax.task import Sample, Task
from pe_jax.training.mesh import place_windows
from pe_jax.training.need import Budget, needed
from pe_jax.training.session import Session

NATS = optax.softmax_cross_entropy_with_integer_labels
"""-ln p of each target."""


def nats_and_lag(logits, targets):
    """-ln p of each target, and 0 where greedy decoding takes it, else 1: [..., 2]."""
    return jnp.stack([NATS(logits, targets), logits.argmax(-1) != targets], axis=-1)


class Missing(NamedTuple):
    """Why there is no score: the fields of a record.Row that say it."""

    reason: Reason
    at: int | None = None
    free: int | None = None


# Windows of text


@functools.partial(
    jax.jit,
    static_argnames=("graphdef", "encodings", "last", "segment", "memory", "measure", "blockwise"),
)
def target_nats(
    params,
    tokens,
    first,
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    last: int,
    segment: int = 0,
    memory: int = 0,
    measure: Callable = NATS,
    blockwise: bool = False,
):
    """-ln p of each window's last targets, in nats, float32 [B, last], from tokens [B, E + 1] and
    one seed's `params`; `first` is the first window's index among all, which its random positions
    depend on. Without a memory, another `measure` of the logits takes the place of -ln p.

    With a `memory`, a window is taken in segments of `segment` tokens, counted from its end, so
    that the first may be shorter; each layer then also sees what entered it at the `memory` tokens
    before a segment. With `blockwise`, attention is blockwise whatever the model's config says.
    """
    model = _merged(graphdef, params, blockwise)
    keys = _keys(first, len(tokens))
    if memory:
        return _by_segments(model, encodings, tokens, keys, segment, memory)[:, -last:]
    rows, _ = model(tokens[:, :-1], encodings=encodings, key=keys, last=last, scan=True, rows=True)
    return of_logits(measure, model, rows, tokens[:, -last:])


def _by_segments(model: LM, encodings: tuple[Encoding, ...], tokens, keys, segment, memory):
    """-ln p of every target of the windows, [B, E], segment by segment."""

    def score_segment(kept, piece):
        number, inputs, targets = piece
        own = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        rows, kept = model(inputs, kept, encodings=encodings, key=own, rows=True)
        return kept, of_logits(NATS, model, rows, targets)

    B, E = tokens.shape[0], tokens.shape[1] - 1
    kept, count, out = Memory.empty(model.config, B, memory), E // segment, []
    if head := E % segment:
        kept, nats = score_segment(kept, (count, tokens[:, :head], tokens[:, 1 : head + 1]))
        out = [nats]
    if count:
        inputs, targets = (
            jnp.moveaxis(part.reshape(B, count, segment), 1, 0)
            for part in (tokens[:, head:-1], tokens[:, head + 1 :])
        )
        _, nats = jax.lax.scan(score_segment, kept, (jnp.arange(count), inputs, targets))
        out.append(jnp.moveaxis(nats, 0, 1).reshape(B, -1))
    return jnp.concatenate(out, axis=1)


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings", "last", "blockwise"))
def last_rows(
    params,
    tokens,
    first,
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    last: int,
    blockwise: bool = False,
):
    """The rows [B, last, D] that the logits of each window's last targets are computed from
    (`LM.logits_of`). Arguments as in `target_nats`.
    """
    model, keys = _merged(graphdef, params, blockwise), _keys(first, len(tokens))
    return model(tokens[:, :-1], encodings=encodings, key=keys, last=last, scan=True, rows=True)[0]


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings", "last", "blockwise", "own"))
def divergence(
    given,
    tokens,
    first,
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    last: int,
    blockwise: bool = False,
    own: bool = False,
):
    """Of each window's last targets -ln q, in nats, and KL(p || q) = sum_v p_v (ln p_v - ln q_v)
    over the vocabulary, float32 [B, last, 2]: q is what the model predicts in these windows, p what
    it predicts from other `rows` of the same targets. With `own`, these are the rows of the windows
    themselves, and are not computed again.

    `given` is (params, rows [W, last, D], the index of the first of these W windows); other
    arguments are as in `target_nats`.
    """
    params, rows, offset = given
    model, keys = _merged(graphdef, params, blockwise), _keys(first, len(tokens))
    number = first - offset + jnp.arange(len(tokens))
    theirs = jnp.take(rows, number, axis=0, mode="clip")  # a batch may be filled up with copies
    ours, inputs = theirs, tokens[:, :-1]
    if not own:
        ours, _ = model(inputs, encodings=encodings, key=keys, last=last, scan=True, rows=True)

    def compare(logits, targets):
        p, q = jax.nn.log_softmax(model.logits_of(targets[1])), jax.nn.log_softmax(logits)
        kl = optax.losses.kl_divergence_with_log_targets(q, p)
        return jnp.stack([NATS(logits, targets[0]), kl], axis=-1)

    return of_logits(compare, model, ours, (tokens[:, -last:], theirs))


def _keys(first, count: int):
    """The keys of random positions of `count` windows from the one with index `first` on."""
    return jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(first + jnp.arange(count))


def score(
    windows: Windows,
    program: functools.partial,
    params: Any,
    batch_tokens: int,
    session: Session,
    budget: Budget,
) -> np.ndarray | Missing:
    """What the program gives of each window's last targets, [W, last, ...], or why there is none.

    `program` is one of those above with all but `params`, `tokens`, `first` and `last` given.
    `batch_tokens` tokens of windows are computed at once.
    """
    mesh = session.mesh
    batch = _batch_size(windows.length, batch_tokens, len(windows.tokens), session)
    like = place_windows(mesh, np.repeat(windows.tokens[:1], batch, axis=0))
    program = functools.partial(program, last=windows.last)

    def compute(program: functools.partial) -> np.ndarray:
        def on_devices(tokens: np.ndarray, first: int) -> Any:
            return jax.device_get(
                program(params, place_windows(mesh, tokens), np.int32(windows.first + first))
            )

        return by_batches(windows, on_devices, batch)

    arguments = params, like, np.int32(0)
    return _within_budget(program, arguments, windows.length, session, budget, compute)


def by_batches(
    windows: Windows, program: Callable[[np.ndarray, int], Any], batch: int
) -> np.ndarray:
    """program(tokens [B, E + 1], index of the first window), [B, last, ...], of all windows, with
    `batch` of them at a time. The last batch is filled up with copies of the last window, so that
    all have one shape.
    """
    count = len(windows.tokens)
    batch = min(batch, count)
    out = []
    for first in range(0, count, batch):
        part = windows.tokens[first : first + batch]
        full = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
        out.append(np.asarray(program(full, first))[: len(part)])
    return np.concatenate(out)


# Samples of a task
#
# Samples are drawn inside the program, from keys of their length and number alone (of a task
# whose samples are `nested`, of their number), which training never uses: all models and seeds
# meet the same ones. Random positions differ between samples.


SEEDS = {"test": 2**32 - 1, "valid": 2**32 - 2}
"""The seeds of the samples that are evaluated, by `eval.split`. Keys of training are folded in
another way, so that even a run of these seeds would not meet them.
"""


class Answers(NamedTuple):
    """What a model predicts in samples."""

    sample: Sample
    """The samples, [B, S] each."""
    right: Bool[Array | np.ndarray, "B S"]
    """Which of the scored predictions are right: the most likely token is the target."""
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
    model = _merged(graphdef, params, blockwise)
    sample, keys = held_out(task, n, numbers, longest, split)
    tokens, targets, scored = sample
    size = jnp.asarray(task.size(n))
    logits, _ = model(tokens, encodings=encodings, key=keys, size=size, scan=True)
    right = (logits.argmax(-1) == targets) & scored
    nats = NATS(logits, targets)
    first, labels = task.first_label(), task.labels()
    among = NATS(logits[..., first : first + labels], jnp.clip(targets - first, 0, labels - 1))
    return Answers(sample, right, jnp.where(scored, nats, 0), jnp.where(scored, among, 0))


def answers(
    part: Pass,
    graphdef: nnx.GraphDef,
    params: Any,
    config: EvalConfig,
    session: Session,
    budget: Budget,
) -> Answers | Missing:
    """The predictions in the samples of the length of a pass, or why there are none."""
    tokens, samples = part.task.size(part.longest), config.samples
    batch = _batch_size(tokens, config.batch_tokens, samples, session)
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
        batches = [
            jax.device_get(program(params, numbers(first), n)) for first in range(0, samples, batch)
        ]
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:samples], *batches)

    return _within_budget(program, (params, numbers(0), n), tokens, session, budget, compute)


# For windows and samples: how many at once, within the memory that is free


Computed = TypeVar("Computed", np.ndarray, Answers)


def _within_budget(
    program: functools.partial,
    arguments: tuple[Any, ...],
    tokens: int,
    session: Session,
    budget: Budget,
    compute: Callable[[functools.partial], Computed],
) -> Computed | Missing:
    """compute(program), or why there is none: there is too little memory, or a value is not finite.

    `program` is called with such `arguments`, on sequences of so many tokens. Where it needs more
    memory than is free, attention is blockwise, which the session is told.
    """
    size = needed(program, *arguments)
    if (left := budget.lacks(size)) is not None:
        why = sentence(Reason.OUT_OF_MEMORY, size, left)
        program, dense = functools.partial(program, blockwise=True), size
        size = needed(program, *arguments)
        if (left := budget.lacks(size)) is not None:
            return Missing(Reason.OUT_OF_MEMORY, min(size, dense), left)
        session.say(f"{tokens} tokens: attention is blockwise, since the pass {why}")
    try:
        with budget.take(size):
            found = compute(program)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return Missing(Reason.OUT_OF_MEMORY)
    nats = found.nats if isinstance(found, Answers) else found
    return found if np.isfinite(nats).all() else Missing(Reason.NOT_FINITE)


def _batch_size(tokens: int, batch_tokens: int, count: int, session: Session) -> int:
    """How many of `count` sequences of so many tokens are computed at once: about `batch_tokens`
    tokens, and equally many, at least one, on each device of the mesh.
    """
    devices = session.mesh.size if session.mesh else 1
    return min(max(1, batch_tokens // tokens // devices) * devices, count)


def _merged(graphdef: nnx.GraphDef, params: Any, blockwise: bool) -> LM:
    """The model; with `blockwise`, its attention is blockwise whatever its config says."""
    model = nnx.merge(graphdef, params, copy=True)
    if blockwise:
        for layer in model.blocks:
            layer.config = dataclasses.replace(layer.config, attention="blockwise")
    return model
