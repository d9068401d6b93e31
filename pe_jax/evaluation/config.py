"""The section `eval` of a config, and the variants of a task that it names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from pe_jax import terms
from pe_jax.errors import nearest
from pe_jax.fields import Count, check
from pe_jax.metric import PromptMetric, SampleMetric, Scope, TextMetric
from pe_jax.metrics import METRICS, named
from pe_jax.record import AS_TRAINED, Replica, Way
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT

ALWAYS = "(the training length may be among them)"


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Metrics, lengths and ways of an evaluation, and the amount of text or samples."""

    lengths: tuple[Count, ...] = (64, 128, 256, 512, 1024)
    """Evaluation lengths: tokens of text, at least 2, or the n of a task's samples; the training
    length joins them, with by=place only where a longer one is among them."""
    metrics: tuple[str, ...] = ()
    """Names of metrics.METRICS, or path/to/file.py:NAME of your own; (): the task's, for text
    same_targets and nonoverlapping."""
    swaps: tuple[str, ...] = ("window",)
    """Specs of encodings that are swapped in on the trained model, one evaluation each."""
    variants: tuple[str, ...] = ()
    """Fields of a task that draws its samples, other than in training, as in "ignore=0.98": one
    evaluation each."""
    memory: tuple[Count, ...] = ()
    """Sizes of segment memories, in tokens, to evaluate with; that of training always joins them.
    With each, the same windows are evaluated once more, segment by segment."""
    targets: Count = 16384
    """Tokens that each metric scores at each length; of masked text the hidden ones among these."""
    last: Count | None = None
    """The k of same_targets, masked_tokens and last_bits, in tokens; None: half the training
    length."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """Of masked text, the share of hidden tokens; None: that of training, or 0.3 where it is
    drawn."""
    split: Literal["valid", "test", "all"] = "test"
    """The part of the text, or the samples, that are scored: test; valid, which serves choices; or
    all of a text, for models that were trained on other text."""
    source: str = ""
    """Other text than that of training, named as in data.source; "": the same."""
    samples: Count = 512
    """Samples at each length, of a task that draws them; or prompts, of a metric with prompts."""
    batch_tokens: Count = 4096
    """Tokens of the windows or samples evaluated at once, at least one window."""
    by: Literal["seed", "place"] = "seed"
    """What has a score of its own: seed, each seed's model, over all windows; or place, for a run
    of one seed, each place of the text and each prompt, computed one at a time."""
    reference: Count | None = None
    """The context, in tokens, of the unchanged model that kl, changed and longppl compare with;
    None: the training length."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """The dtype that matrices are stored in while they are scored; vectors, as of norms, stay
    float32."""

    def __post_init__(self):
        check(self, "eval.")
        for metric in self.metrics:
            named(metric)
        if not self.lengths:
            raise ValueError("eval.lengths is empty: give the lengths to evaluate at")

    def resolved(self, train_len: int, memory: int = 0, task: Task = TEXT) -> EvalConfig:
        """With the defaults that depend on training and the task: the training length joins
        `lengths`, the memory of training joins `memory`. ValueError where values do not fit.
        """
        if self.rate and _rate(task) is None:
            raise ValueError("eval.rate is of masked text: leave it unset, or use task=masked_text")
        joins = self.by == "seed" or max(self.lengths) > train_len
        config = dataclasses.replace(
            self,
            lengths=tuple(sorted({*self.lengths, *([train_len] if joins else ())})),
            metrics=tuple(dict.fromkeys(self.metrics or task.metrics)),
            swaps=tuple(dict.fromkeys(self.swaps)),
            variants=tuple(dict.fromkeys(filter(None, self.variants))),
            reference=self.reference or train_len,
            last=self.last or max(1, train_len // 2),
            rate=self.rate or _rate(task),
            memory=tuple(sorted({*self.memory, memory} - {0})),
        )
        _check_text(config, task) if task.reads_text else _check_samples(config, task)
        return config

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways in which a model is scored, in the order of the record."""
        return (
            AS_TRAINED,
            *(Way(swap=spec) for spec in self.swaps),
            *(Way(variant=fields) for fields in self.variants),
            *(Way(memory=size) for size in self.memory),
        )

    def replicas(self, metric: str, seeds: Sequence[int]) -> tuple[Replica, ...]:
        """The replicas that have a score of their own by a metric, in the order of the record."""
        if self.by == "seed":
            return tuple(Replica("seed", seed) for seed in seeds)
        if isinstance(named(metric), PromptMetric):
            return tuple(Replica("sample", number) for number in range(self.samples))
        return tuple(Replica("place", n) for n in range(self.targets // (self.last or 1)))

    @property
    def scope(self) -> Scope:
        """The part of this config that metrics read. ValueError unless it is resolved."""
        if self.last is None:
            raise ValueError("eval.last is not set: call `resolved` first")
        longest = max(self.lengths)
        if any(getattr(named(metric), "compares", "") for metric in self.metrics):
            longest = max(longest, self.reference or 0)
        return Scope(longest, self.targets, self.last, self.rate or 0.0)


def of_text(name: str) -> TextMetric | PromptMetric:
    """The metric of that name, of windows of text or of prompts; ValueError for any other."""
    metric = named(name)
    return metric if isinstance(metric, PromptMetric) else named(name, TextMetric)


# The share of hidden tokens in the training of masked text.
def _rate(task: Task) -> float | None:
    rate = getattr(task, "rate", 0.3) if task.reads_text and task.masks() else None
    return 0.3 if isinstance(rate, str) else rate


# ValueError unless windows of text can be scored by the config.
def _check_text(config: EvalConfig, task: Task) -> None:
    shortest, last = config.lengths[0], config.scope.last
    if shortest < 2:
        raise ValueError(
            f"eval.lengths of text must be at least 2 tokens, got {shortest} {ALWAYS}: give longer"
        )
    metrics = [of_text(name) for name in config.metrics]
    for metric in metrics:
        if bool(getattr(metric, "masks", "")) != task.masks():
            every = [m for m in METRICS.values() if isinstance(m, TextMetric)]
            known = [m.name for m in every if bool(m.masks) == task.masks()]
            raise ValueError(
                f"eval.metrics: {metric.name} does not go with {type(task).__name__}, which hides "
                f"{'tokens' if task.masks() else 'no token'}: use {', '.join(known)}"
            )
    if config.memory and not task.causal:
        raise ValueError("segment memories are for decoders: leave eval.memory and lm.memory unset")
    windows = [metric for metric in metrics if isinstance(metric, TextMetric)]
    if any("last" in metric.uses for metric in windows) and last >= shortest:
        raise ValueError(
            f"eval.last must be below the shortest evaluation length {shortest} {ALWAYS}, got "
            f"{last}: lower eval.last"
        )
    without_places = [m.name for m in windows if "last" not in m.uses]
    if config.by == "place" and without_places:
        raise ValueError(
            "eval.by=place needs metrics with windows for each place, as same_targets, got "
            f"{without_places[0]}: leave it out of eval.metrics"
        )
    compared = [metric.name for metric in windows if metric.compares]
    if config.memory and (compared or len(windows) < len(metrics)):
        raise ValueError(
            "prompts, kl and longppl have no segments: leave eval.memory and lm.memory unset"
        )
    if compared and last >= (config.reference or 0):
        raise ValueError(
            f"eval.last must be below eval.reference, {config.reference}, by which {compared[0]} "
            f"compares, got {last}: lower eval.last"
        )
    if config.variants:
        raise ValueError("eval.variants are of tasks that draw their samples: leave it unset")
    if config.targets < last:
        raise ValueError(f"eval.targets must be at least eval.last, {last}, got {config.targets}")


# ValueError unless the samples of a task can be scored by the config.
def _check_samples(config: EvalConfig, task: Task) -> None:
    name, shortest, last = type(task).__name__, config.lengths[0], config.scope.last
    for metric in (named(metric, SampleMetric) for metric in config.metrics):
        if isinstance(metric, PromptMetric):
            raise ValueError(f"{metric.name} writes prompts of text: leave it out of eval.metrics")
        if "last" in metric.uses and last > shortest:
            raise ValueError(
                f"eval.last must be at most the shortest evaluation length {shortest} {ALWAYS}, "
                f"got {last}: lower eval.last"
            )
        for hook in ("bayes", "distances"):
            if hook in metric.uses and getattr(type(task), hook) is getattr(Task, hook):
                raise ValueError(
                    f"eval.metrics: {metric.words} needs a task with `{hook}`, which {name} has "
                    "not: use bits or accuracy"
                )
    if config.by != "seed" or config.split == "all":
        raise ValueError("eval.by=place and eval.split=all are for text: leave them unset")
    if config.memory:
        raise ValueError("segment memories are for text: leave lm.memory and eval.memory unset")
    if config.source:
        raise ValueError(f"eval.source names text, and {name} draws its samples: leave it unset")
    for fields in ("", *config.variants):
        made = variant(task, fields)
        lacking = [n for n in config.lengths if not made.has(n)]
        if lacking:
            known = [n for n in range(1, 2 * lacking[0]) if made.has(n)]
            near = sorted(sorted(known, key=lambda n: abs(n - lacking[0]))[:4])
            raise ValueError(
                f"{name}{f' with {fields}' if fields else ''} has no samples of length "
                f"{lacking[0]}; the nearest lengths are {', '.join(map(str, near)) or 'longer'}: "
                "change eval.lengths or train.length"
            )


def variant(task: Task, text: str) -> Task:
    """The task with the fields of a text such as "ignore=0.98" or "types=2, deepest=12"; itself for
    "".

    ValueError for an unknown field, a wrong value, other tokens than the model was trained on, and
    where the scored samples stay the same.
    """
    if not text:
        return task
    name = type(task).__name__
    try:
        fields = terms.Term.of(f"_({text})").fields
    except ValueError:
        raise ValueError(
            f"eval.variants: cannot read {text!r}; a variant is field=value, ..., Python literals"
        ) from None
    known = [f.name for f in dataclasses.fields(task) if f.init and f.name != "causal"]
    for field in fields:
        if field not in known:
            raise ValueError(
                f"eval.variants: {name} has no field {field!r}{nearest(field, known)} It has "
                f"{', '.join(known) or 'none'}."
            )
    made = dataclasses.replace(task, **fields)
    if made.vocab() != task.vocab():
        raise ValueError(
            f"eval.variants: {name} has {made.vocab()} tokens with {text!r} and {task.vocab()} in "
            "training: a variant must have the same"
        )
    if made.scored_form() == task.scored_form():
        raise ValueError(f"eval.variants: {text!r} changes no sample that is scored: leave it out")
    return made
