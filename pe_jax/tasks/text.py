"""Language modelling on text: each token of a window is predicted from those before it."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from pe_jax.task import Sample, Task


@dataclasses.dataclass(frozen=True)
class Text(Task):
    """The next token of text. A window of length n has n tokens that are predicted."""

    reads_text: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("same_targets", "nonoverlapping")

    def vocab(self):
        return 256  # bytes; the tokenizer may have more

    def cut(self, window, key, vocab):
        return Sample(window[:-1], window[1:], jnp.ones(len(window) - 1, bool))


TEXT = Text()
