"""The contract of a task: tokens, targets and scored positions. A frozen dataclass whose methods
are pure hooks, as an encoding is.

A task has samples of length n, for every n that it `has`. What n counts is the task's own affair:
input symbols, digits, tokens. A sample is one sequence of `size(n)` tokens; its length is traced,
and the arrays are padded, so one program serves many lengths. `sample` runs inside the jitted
training step, vmapped over a batch whose sequences all have one n.

Axes: S tokens of a padded sequence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from pe_jax import contract
from pe_jax.fields import check


class Sample(NamedTuple):
    """One sequence and its targets."""

    tokens: Int[Array, "S"]
    """The input. Tokens beyond `size(n)` are padding, which the model does not see."""
    targets: Int[Array, "S"]
    """The target at each token."""
    scored: Bool[Array, "S"] | Float[Array, "S"]
    """Where a prediction counts: in the loss (unless train.loss is all) and the metrics of samples.
    Of a window of text it may be float, weights w: the loss is the mean of -w ln p over all tokens.
    """


@dataclasses.dataclass(frozen=True)
class Task:
    """A task. One of your own is a subclass, a frozen dataclass whose fields
    are its settings; TypeError for a hook that is not known, ValueError for a value that a field
    does not allow.
    """

    causal: bool = True
    """Whether the model is a decoder, lm.causal; False for a task that `masks`."""

    bidirectional: ClassVar[bool] = False
    """Whether it has a form for models that are not causal."""
    reads_text: ClassVar[bool] = False
    """Whether its samples are windows of the text of section `data` (`cut`), and not drawn."""
    nested: ClassVar[bool] = False
    """Whether the sample of length n is part of every longer one with the same key: its last n
    tokens, or the middle n if the task `masks`. Its targets are then the same at every length.
    """
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "exact_match")
    """Its metrics, by their names in metrics.METRICS, where eval.metrics names none."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        contract.check_class(cls, Task)

    def __post_init__(self):
        """Checks every task; the __post_init__ of its class, if any, runs after this one."""
        check(self, f"{type(self).__name__}'s ")
        if self.masks():
            object.__setattr__(self, "causal", False)
        elif not self.causal and not self.bidirectional:
            rule = "has each token predicted from earlier ones: use lm.causal=True"
            raise ValueError(f"{type(self).__name__} {rule}")

    # Facts, known when a program is traced.

    def vocab(self) -> int:
        """How many tokens there are: their ids are 0 .. vocab - 1."""
        raise NotImplementedError

    def labels(self) -> int:
        """How many tokens may be the target of a scored prediction; a random guess is right with
        probability 1 / labels.
        """
        return self.vocab()

    def first_label(self) -> int:
        """The lowest token that may be such a target. The ids of all `labels` are consecutive."""
        return 0

    def masks(self) -> bool:
        """Whether tokens are hidden and predicted from both sides. The model then is no decoder,
        whatever lm.causal says, and reads the last id of its vocabulary where a token is hidden; no
        target has that id, and predictions give it no probability.
        """
        return False

    def has(self, n: int) -> bool:
        """Whether there are samples of length n."""
        return n >= 1

    def size(self, n):
        """Tokens of a sample of length n. n may be traced."""
        return n

    # Samples.

    def sample(self, key: Key[Array, ""], n: Int[Array, ""], longest: int) -> Sample:
        """A sample of length n, drawn by `key` alone, padded to S = size(longest) tokens."""
        raise NotImplementedError

    def scored_form(self) -> Task:
        """The task whose samples are scored, with the tokens of this one; itself where training and
        evaluation have the same samples.
        """
        return self

    def cut(self, window: Int[Array, "S1"], key: Key[Array, ""], vocab: int) -> Sample:
        """The sample of a window of text, S + 1 tokens, with what `key` draws, for a model that
        reads `vocab` tokens.
        """
        raise NotImplementedError

    # In plain Python, to check the samples and to compare models with.

    def oracle(self, tokens: Sequence[int]) -> list[int | None]:
        """What is to be predicted at each of the tokens of a sample; None: it is not scored."""
        raise NotImplementedError

    def bayes(self, tokens: Sequence[int]) -> Float[np.ndarray, "S V"] | None:
        """The Bayes-optimal prediction, for a task whose targets are drawn: the probability of each
        of the V = `vocab` tokens as the target of each of the S tokens of a sample, given the
        tokens up to that one, or all tokens where the model is not causal. Rows at tokens that are
        not scored are not read. None: `oracle` knows the target.
        """
        return None

    def guess(self, tokens: Sequence[int]) -> list[int] | None:
        """What a simple method without a model predicts at each token; None: there is no method
        but the most frequent target of each place.
        """
        return None

    def depths(self, tokens: Sequence[int]) -> list[float | None] | None:
        """The depth of the item to be retrieved, for each prediction: its place among the tokens
        read so far, from 0, the first token, to 1, the token at which it is predicted. None for a
        token that is not scored; None in place of the list if the task retrieves nothing.
        """
        return None

    def distances(self, tokens: Sequence[int]) -> list[int | None] | None:
        """For each target, how many tokens before it the token that decides it lies. None for a
        token that is not scored; None in place of the list if no single token decides a target.
        """
        return None
