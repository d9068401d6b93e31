"""Tasks that answer an input, in two forms from one definition.

With i input and m answer symbols a sequence has i + m tokens:

    decoder   input, SEPARATOR, answer but for its last symbol; each symbol of the answer is
              predicted at the token before it
    encoder   input, then m times EMPTY; the answer is predicted in these places, all at once

SEPARATOR and EMPTY are one id, the first after the symbols: no model reads both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from pe_jax.task import Sample, Task


class Drawn(NamedTuple):
    """An input with its answer. Only the first `counts(n)` symbols of each are read."""

    input: Int[Array, "I"]
    answer: Int[Array, "M"]
    scored: Bool[Array, "M"] | bool = True
    """Which symbols of the answer count."""
    length: Int[Array, ""] | None = None
    """How many symbols the input has, where that is drawn, too: at most `counts(n)`."""


@dataclasses.dataclass(frozen=True)
class Answer(Task):
    """A task that answers an input; a subclass overrides `_counts`, `_draw` and `_answer`."""

    bidirectional: ClassVar[bool] = True
    symbols: ClassVar[int]
    """How many symbols an input and its answer are made of: their ids are 0 .. symbols - 1."""
    answers: ClassVar[int | None] = None
    """How many of these an answer is made of, the first ones. None: all."""

    def _counts(self, n):
        """(i, m): the symbols of an input of length n, and of its answer. n may be traced."""
        return n, 1

    def _draw(self, key: Key[Array, ""], n: Int[Array, ""], longest: int) -> Drawn:
        """An input of length n and its answer, padded to `_counts(longest)` symbols or more."""
        raise NotImplementedError

    def _answer(self, input: list[int]) -> list[int]:
        """The scored symbols of the answer, in plain Python: they are its first."""
        raise NotImplementedError

    def vocab(self):
        return self.symbols + 1

    def labels(self):
        return self.answers or self.symbols

    def size(self, n):
        i, m = self._counts(n)
        return i + m

    def sample(self, key, n, longest):
        drawn = self._draw(key, n, longest)
        i, m = self._counts(n)
        i = i if drawn.length is None else drawn.length
        place = jnp.arange(self.size(longest))
        answering = (place >= i) & (place < i + m)

        def answer(place):
            return drawn.answer[jnp.clip(place, 0, len(drawn.answer) - 1)]

        after = answer(place - i - 1) if self.causal else self.symbols
        tokens = jnp.where(place == i, self.symbols, after)
        tokens = jnp.where(place < i, drawn.input[jnp.clip(place, 0, len(drawn.input) - 1)], tokens)
        counts = jnp.broadcast_to(drawn.scored, drawn.answer.shape)
        scored = answering & counts[jnp.clip(place - i, 0, len(counts) - 1)]
        return Sample(tokens, answer(place - i), scored)

    def oracle(self, tokens: Sequence[int]):
        input = list(tokens[: tokens.index(self.symbols)])
        answer = self._answer(input)
        rest = len(tokens) - len(input) - len(answer)
        return [*[None] * len(input), *answer, *[None] * rest]
