"""The predictions of trained models by jitted forward passes: -ln p of the targets of windows of
text, and predictions in the samples of a task.

Random positions depend on a window's index alone, so every seed and encoding meets the same ones.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int
from jaxtyping import Key as RandomKey

from pe_jax.encoding import Encoding
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Key, Pass, Scored
from pe_jax.evaluation.windows import Windows
from pe_jax.model.lm import LM, of_logits
from pe_jax.model.memory import Memory
from pe_jax.record import Reason, Replica, Row, sentence
from pe_jax.task import Sample, Task
from pe_jax.tasks.text import TEXT
from pe_jax.training.device_memory import Budget, needed
from pe_jax.training.mesh import copies, place_windows
from pe_jax.training.session import Session

LOG = logging.getLogger("pe_jax")

NATS = optax.softmax_cross_entropy_with_integer_labels
"""-ln p of each target."""


def nats_and_lag(logits, targets):
    """-ln p of each target, and 0 where greedy decoding takes it, else 1: [..., 2]."""
    return jnp.stack([NATS(logits, targets), logits.argmax(-1) != targets], axis=-1)


class Missing(NamedTuple):
    """The reason of a missing score, as in a record.Row."""

    reason: Reason
    at: int | None = None
    free: int | None = None

    def scored(self, key: Key) -> Scored:
        """A score without a value, for this reason."""
        return Scored(Row(**key._asdict(), value=None, **self._asdict()))


# Windows of text


@functools.partial(
    jax.jit,
    static_argnames="graphdef encodings last segment memory measure same blockwise".split(),
)
def target_nats(
    params,
    tokens,
    first,
    reference=None,
    offset=0,
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    last: int,
    segment: int = 0,
    memory: int = 0,
    measure: Callable | None = NATS,
    same: bool = False,
    blockwise: bool = False,
):
    """-ln p of each window's last targets, in nats, float32 [B, last].

    Args:
        params: of one seed.
        tokens: [B, E + 1]. Of a model that is not causal the last E are the targets and, with those
            below 0 hidden, the input; of a pretrained encoder [CLS] and [SEP] take the place of the
            first and the last one.
        first: the index of the first window among all, which its random positions depend on.
        reference: rows [W, last, D] of the same targets. The result is then [B, last, 3]: -ln q,
            KL(p || q) = sum_v p_v (ln p_v - ln q_v) over the vocabulary, p predicted from these
            rows and q in the windows, and 1 where another token is the most likely, else 0.
        offset: the index of the first of the W windows.
        segment: tokens of a segment, with a `memory`. They are counted from a window's end, so that
            the first may be shorter.
        memory: tokens before a segment that each layer also sees, as they entered it.
        measure: another function of logits and targets than -ln p, without a memory; None: the rows
            [B, last, D] that logits are computed from (`LM.logits_of`).
        same: the reference rows are the windows' own, and are not computed again.
        blockwise: attention is blockwise whatever the model's config says.
    """
    model, inputs, until = _merged(graphdef, params, blockwise), tokens[:, :-1], None
    if not model.config.causal:
        hidden, until = model.config.hidden
        inputs = jnp.where(tokens < 0, hidden, tokens)[:, 1:]
        inputs = model.config.framed(inputs[:, 1:-1] if model.config.special else inputs)
        tokens = jnp.where(tokens < 0, ~tokens, tokens)
    targets = tokens[:, -last:]
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(
        first + jnp.arange(len(tokens))
    )
    if memory:
        return _by_segments(model, encodings, tokens, keys, segment, memory)[:, -last:]
    if reference is not None:
        number = first - offset + jnp.arange(len(tokens))
        reference = jnp.take(reference, number, axis=0, mode="clip")  # copies may fill up a batch
    rows: Any = reference
    if not same:
        rows, _ = model(inputs, encodings=encodings, key=keys, last=last, scan=True, rows=True)
    if measure is None:
        return rows
    if reference is None:
        return of_logits(measure, model, rows, targets, until)

    def divergence(logits, given):
        p, q = jax.nn.log_softmax(model.logits_of(given[1])), jax.nn.log_softmax(logits)
        kl = optax.losses.kl_divergence_with_log_targets(q, p)
        changed = (p.argmax(-1) != q.argmax(-1)).astype(kl.dtype)
        return jnp.stack([NATS(logits, given[0]), kl, changed], axis=-1)

    return of_logits(divergence, model, rows, (targets, reference))


# -ln p of every target of the windows, [B, E], segment by segment.
def _by_segments(model: LM, encodings: tuple[Encoding, ...], tokens, keys, segment, memory):
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


# Samples of a task
#
# Samples are drawn inside the program, from keys of their length and number alone (of a task
# whose samples are `nested`, of their number), which training never uses: all models and seeds
# meet the same ones. Random positions differ between samples.


SEEDS = {"test": 2**32 - 1, "valid": 2**32 - 2}
"""The seeds of the samples that are evaluated, by `eval.split`; those of runs are below 2**31."""


class Answers(NamedTuple):
    """The predictions of a model in samples."""

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
) -> tuple[Sample, RandomKey[Array, "B"]]:
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
    logits = logits[..., :-1] if task.masks() else logits
    right = (logits.argmax(-1) == targets) & scored
    nats = NATS(logits, targets)
    first, labels = task.first_label(), task.labels()
    among = NATS(logits[..., first : first + labels], jnp.clip(targets - first, 0, labels - 1))
    return Answers(sample, right, jnp.where(scored, nats, 0), jnp.where(scored, among, 0))


def _merged(graphdef: nnx.GraphDef, params: Any, blockwise: bool) -> LM:
    model = nnx.merge(graphdef, params, copy=True)
    if blockwise:
        for layer in model.blocks:
            layer.config = dataclasses.replace(layer.config, attention="blockwise")
    return model


# The programs of a run's models, within the memory that is free


@dataclasses.dataclass(frozen=True)
class Models:
    """The trained models of a run's seeds."""

    graphdef: nnx.GraphDef
    params: Mapping[int, Any]
    """The parameters of each seed."""
    encodings: tuple[Encoding, ...]
    diverged: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """The step at which the training of a seed diverged, by seed."""
    segment: int = 0
    """Tokens of a segment, for segment memories: the training length."""
    task: Task = TEXT

    def seed(self, replica: Replica) -> int:
        """The seed whose model a replica is scored with; for a place or a sample, the only seed."""
        return replica.number if replica.kind == "seed" else next(iter(self.params))

    def missing(self, part: Pass, replica: Replica) -> Missing | None:
        """The reason why a pass is not computed for a replica; None where it is."""
        if part.beyond is not None:
            return Missing(Reason.BEYOND_POSITIONS, part.beyond)
        step = self.diverged.get(self.seed(replica))
        return None if step is None else Missing(Reason.DIVERGED, step)


class Programs:
    """Runs the programs above for a run's models, on the devices of the session."""

    def __init__(self, models: Models, config: EvalConfig, session: Session):
        self.models, self.config, self.session = models, config, session
        self.budget = Budget(session.mesh)
        self.params = {seed: copies(session.mesh, tree) for seed, tree in models.params.items()}

    def text(
        self,
        cut: Windows,
        replica: Replica,
        encodings: tuple[Encoding, ...],
        *reference: Any,
        **options: Any,
    ) -> np.ndarray | Missing:
        """`target_nats` of each window's last targets, [W, last, ...], with its arguments
        `reference` and `offset`, and its options.
        """
        program = functools.partial(
            target_nats,
            graphdef=self.models.graphdef,
            encodings=encodings,
            last=cut.last,
            **options,
        )
        params, mesh = self.params[self.models.seed(replica)], self.session.mesh
        calls = (
            (params, place_windows(mesh, tokens), np.int32(cut.first + first), *reference)
            for tokens, first in cut.batches(self._batch(cut.length, len(cut.tokens)))
        )
        return self._results(program, calls, cut.length, len(cut.tokens))

    def samples(self, part: Pass, replica: Replica) -> Answers | Missing:
        """The predictions in the samples of the length of a pass."""
        tokens, samples = part.task.size(part.longest), self.config.samples
        batch, mesh = self._batch(tokens, samples), self.session.mesh
        program = functools.partial(
            predict,
            graphdef=self.models.graphdef,
            encodings=part.encodings,
            task=part.task,
            longest=part.longest,
            split=self.config.split,
        )
        params, length = self.params[replica.number], np.int32(part.length)
        numbers = (np.arange(i, i + batch, dtype=np.int32) for i in range(0, samples, batch))
        calls = ((params, place_windows(mesh, n), length) for n in numbers)
        return self._results(program, calls, tokens, samples)

    # About eval.batch_tokens tokens of the `count` sequences, and equally many sequences on each
    # device.
    def _batch(self, tokens: int, count: int) -> int:
        devices = self.session.mesh.size if self.session.mesh else 1
        return min(max(1, self.config.batch_tokens // tokens // devices) * devices, count)

    # program(*call) of all calls, whose arguments have equal shapes, for `count` sequences of so
    # many tokens. Where the program needs more memory than is free, attention is blockwise.
    def _results(
        self,
        program: functools.partial,
        calls: Iterator[tuple[Any, ...]],
        tokens: int,
        count: int,
    ) -> Any:
        call = next(calls)
        size = needed(program, *call)
        if (left := self.budget.lacks(size)) is not None:
            why = sentence(Reason.OUT_OF_MEMORY, size, left)
            program, dense = functools.partial(program, blockwise=True), size
            size = needed(program, *call)
            if (left := self.budget.lacks(size)) is not None:
                return Missing(Reason.OUT_OF_MEMORY, min(size, dense), left)
            LOG.info("%s tokens: attention is blockwise, since the pass %s", tokens, why)
        try:
            with self.budget.take(size):
                every = itertools.chain([call], calls)
                batches = [jax.device_get(program(*call)) for call in every]
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return Missing(Reason.OUT_OF_MEMORY)
        found = jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *batches)
        nats = found.nats if isinstance(found, Answers) else found
        return found if np.isfinite(nats).all() else Missing(Reason.NOT_FINITE)
