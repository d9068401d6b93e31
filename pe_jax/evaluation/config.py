"""What is evaluated, on which text: the section `eval` of a config."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import msgspec

from pe_jax.fields import Count, check
from pe_jax.metric import METRICS, Scope, named


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Which metrics are computed at which lengths, in which ways, on how much text."""

    lengths: tuple[Annotated[int, msgspec.Meta(ge=2)], ...] = (64, 128, 256, 512, 1024)
    """Evaluation lengths, in tokens."""
    metrics: tuple[str, ...] = ("same_targets", "nonoverlapping")
    """Names of metric.METRICS."""
    swaps: tuple[str, ...] = ("window",)
    """Specs of encodings that are swapped in on the trained model, one evaluation each."""
    memory: tuple[Count, ...] = ()
    """Sizes of segment memories, in tokens. With each, the same windows are evaluated a second
    time, segment by segment."""
    targets: Count = 16384
    """Scored tokens of each metric at each length."""
    stride: Count | None = None
    """The stride of sliding, in tokens; None: half the training length."""
    last: Count | None = None
    """The k of same_targets and last_k, in tokens; None: half the training length."""
    split: Literal["valid", "test"] = "test"
    """The part of the text: "valid" or "test"."""
    source: str = ""
    """Other text than that of training, as data.source names it; "": the same."""
    batch_tokens: Count = 4096
    """Tokens of the windows evaluated at once (at least one window)."""

    def __post_init__(self):
        check(self, "eval.")
        for metric in self.metrics:
            named(metric)
        if not self.metrics:
            raise ValueError(f"eval.metrics is empty; known: {', '.join(METRICS)}")
        if not self.lengths:
            raise ValueError("eval.lengths is empty: give the lengths to evaluate at")

    def resolved(self, train_len: int, memory: int = 0) -> EvalConfig:
        """With the defaults that depend on training: the training length joins `lengths`, the
        memory of training joins `memory`. ValueError where the values do not fit each other.
        """
        half = max(1, train_len // 2)
        lengths = tuple(sorted({*self.lengths, train_len}))
        stride, last = self.stride or half, self.last or half
        for name, value in (("stride", stride), ("last", last)):
            used = any(name in named(metric).uses for metric in self.metrics)
            if used and not 1 <= value < lengths[0]:
                raise ValueError(
                    f"eval.{name} must be below the shortest evaluation length {lengths[0]}, "
                    f"got {value}; lower eval.{name} or raise eval.lengths"
                )
        if self.targets < last:
            raise ValueError(f"eval.targets must be at least eval.last, {last}, got {self.targets}")
        sizes = tuple(sorted({*self.memory, memory} - {0}))
        return dataclasses.replace(self, lengths=lengths, stride=stride, last=last, memory=sizes)

    @property
    def scope(self) -> Scope:
        """What metrics are told of this config. ValueError unless it is resolved."""
        if self.last is None or self.stride is None:
            raise ValueError("eval.last and eval.stride are not set: call `resolved` first")
        return Scope(max(self.lengths), self.targets, self.last, self.stride)
