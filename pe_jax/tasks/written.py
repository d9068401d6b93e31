"""Tasks whose answer is written symbol by symbol until END, perhaps after a scratchpad.

Symbols have names, and a symbol's id is the place of its name: first the alphabet, then END, then
the others. Arrays of symbols may have holes, NOTHING, which are closed before a model reads them:
so numbers and steps of any length are written into arrays of one size.

A scratchpad (Kazemnejad et al., 2023, arXiv:2305.19466, with all five parts of a step) is

    in I comp C out O var V re R # in I comp C out O var V re R # ... thus ANSWER

One step each reads symbols of the input (in), computes (comp), has a result (out), keeps a variable
for the next step (var), and says which input remains (re). English words and brackets of the paper
are left out, and so are commas; the words that are left are symbols, and `var` stands for the name
of the variable, too. Every symbol is scored: an exact match has no mistake in any step, while the
paper reads the final answer alone out of what a model has written.
"""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Int

from pe_jax.tasks.answer import Answer, Drawn

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
    """A subclass has `_names` and gives what `_drawn` makes of symbols with holes."""

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
        known = {name: id for id, name in enumerate(self._names())}
        return [known[name] for name in names]

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
