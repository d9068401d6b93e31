"""Tasks that answer an input, in two forms from one definition.

With i input and m answer symbols a sequence has i + m tokens:

    decoder   input, SEPARATOR, answer but for its last symbol; each symbol of the answer is
              predicted at the token before it
    encoder   input, then m times EMPTY; the answer is predicted in these places, all at once

SEPARATOR and EMPTY are one id, the first after the symbols: no model reads both.

Some tasks write their answer symbol by symbol until END, perhaps after a scratchpad. Their symbols
have names, and a symbol's id is the place of its name: first the alphabet, then END, then the
others. Arrays of symbols may have holes, NOTHING, which are closed before a model reads them: so
numbers and steps of any length are written into arrays of one size.

A scratchpad (Kazemnejad et al., 2023, arXiv:2305.19466, with all five parts of a step) is

    in I comp C out O var V re R # in I comp C out O var V re R # ... thus ANSWER

One step each reads symbols of the input (in), computes (comp), has a result (out), keeps a variable
for the next step (var), and says which input remains (re). English words and brackets of the paper
are left out, and so are commas; the words that are left are symbols, and `var` stands for the name
of the variable, too. Every symbol is scored: an exact match has no mistake in any step, while the
paper reads the final answer alone out of what a model has written.
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


NOTHING = -1
STEP = ("in", "comp", "out", "var", "re", "=", "#", "thus")
"""The symbols of a scratchpad."""


def upto(symbols: Int[Array, "N"], count) -> Int[Array, "N"]:
    """The first `count` symbols, and holes."""
    return jnp.where(jnp.arange(len(symbols)) < count, symbols, NOTHING)


def two_digits(number: Int[Array, "T"]) -> Int[Array, "T 2"]:
    """Numbers below 100, with a hole in the place of a leading zero."""
    return jnp.stack([jnp.where(number < 10, NOTHING, number // 10), number % 10], axis=1)


def closed(symbols: Int[Array, "N"], room: int, end: int):
    """(the symbols without the holes and then `end`, in an array of `room`; their number)."""
    here = symbols != NOTHING
    place = jnp.where(here, jnp.cumsum(here) - 1, room)
    return jnp.full(room, end).at[place].set(symbols, mode="drop"), here.sum()


@dataclasses.dataclass(frozen=True)
class Written(Answer):
    """An answer that is written until END. A subclass has `_names`, and `_draw` gives what `_drawn`
    makes of symbols with holes.
    """

    metrics: ClassVar[tuple[str, ...]] = ("exact_match", "accuracy")

    def __post_init__(self):
        if getattr(self, "scratchpad", False) and not self.causal:
            raise ValueError(
                f"{type(self).__name__}'s scratchpad is written one token after another: use "
                "lm.causal=True"
            )

    def _names(self) -> tuple[str, ...]:
        """The name of each symbol, one of which is "end"."""
        raise NotImplementedError

    @property
    def symbols(self):
        return len(self._names())

    def _id(self, name: str) -> int:
        return self._names().index(name)

    def _ids(self, names: list[str]) -> list[int]:
        return [self._id(name) for name in names]

    def _drawn(self, input: Int[Array, "I"], answer: Int[Array, "M"], longest: int) -> Drawn:
        """An input and its answer, both with holes; END is scored where there is room for it."""
        i, m = self._counts(longest)
        input, length = closed(input, i, self._id("end"))
        answer, size = closed(answer, m, self._id("end"))
        return Drawn(input, answer, jnp.arange(m) <= size, length)

    def _steps(self, count, *parts: str | Int[Array, "T ..."]) -> Int[Array, "S"]:
        """The first `count` of T steps; a part is the name of a symbol, or a row for each step."""
        T = max(len(part) for part in parts if not isinstance(part, str))
        step = jnp.arange(T)[:, None]
        last = jnp.where(step == count - 1, self._id("thus"), self._id("#"))
        columns = [
            jnp.full((T, 1), self._id(part)) if isinstance(part, str) else part.reshape(T, -1)
            for part in parts
        ]
        rows = jnp.concatenate([*columns, last], axis=1)
        return jnp.where(step < count, rows, NOTHING).reshape(-1)
