"""Grid navigation (MapFormer: Rambaud et al., 2025, arXiv:2511.19279).

An agent walks on a grid whose sides are joined, and sees what lies in each cell that it enters: a
blank with probability `empty`, else one of `objects` with equal probability. Where it comes back to
a cell with an object, it is to predict that. The walk is made of runs: a direction, and a number of
steps in it, 1 .. `longest_run`, each uniform. A sample of length n has n steps of two tokens, the
move and what is seen then; it is predicted at the move. Moves are 0 .. 3 in two dimensions (up,
down, left, right) and 0 .. 1 in one (left, right); then come the objects, then the blank. In one
dimension, with two objects (2 and 3) and the blank 4, n = 5:

    1 3  1 4  0 3  0 2  1 3        3 is predicted at the moves of steps 3 and 5

The paper trains on 128 steps on a grid of side 64 with 16 objects and `empty` 0.5, and tests on 64
steps, side 32 and 0.2 (dense) and on 256 or 512 (it says both), side 128 and 0.8 (sparse). Here is
what its text leaves open, read with a public replication (PrashRangarajan/mapformer):

- Each sample has a grid of its own.
- What is seen before the first move is not in the sequence, so the walk may begin anywhere.
- Blanks are not scored; the replication scores them. On the sparse grid they are four cells of
  five, so a constant would be right in 0.8, and the paper's RoPE has an accuracy of 0.39 there.
- In one dimension all is as in two, but for the cells and moves.
- The last step goes back the way that the one before it came, to a cell with an object, so that
  every sample has something to score.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.fields import BelowOne, Count
from pe_jax.task import Sample
from pe_jax.tasks.retrieval import Retrieval


@dataclasses.dataclass(frozen=True)
class GridNavigation(Retrieval):
    """What lies in a cell, when the agent comes back to it."""

    dimensions: Literal[1, 2] = 2
    """2: a grid of `side` times `side` cells; 1: a ring of `side`."""
    side: Count = 64
    """Cells of a side."""
    objects: Count = 16
    """Kinds of objects."""
    empty: BelowOne = 0.5
    """Probability of a cell to have no object."""
    longest_run: Count = 10
    """The most steps of a run in one direction."""

    def vocab(self):
        return 2 * self.dimensions + self.objects + 1

    def labels(self):
        return self.objects

    def first_label(self):
        return 2 * self.dimensions

    def has(self, n):
        return n >= 3

    def size(self, n):
        return 2 * n

    def sample(self, key, n, longest):
        for_walk, for_empty, for_objects = jax.random.split(key, 3)
        step = jnp.arange(longest)
        move = self._walk(for_walk, n, longest)
        axis, forward = jnp.divmod(move[None], 2)
        steps = (2 * forward - 1) * (axis == jnp.arange(self.dimensions)[:, None])
        cell = jnp.cumsum(steps, axis=1) % self.side  # [dimensions, longest]
        # A cell has what was drawn for the step that first entered it.
        first = (cell[:, :, None] == cell[:, None]).all(axis=0).argmax(axis=1)
        blank = jax.random.bernoulli(for_empty, self.empty, (longest,))
        blank &= step != first[n - 1]
        content = jax.random.randint(for_objects, (longest,), 0, self.objects)
        content = 2 * self.dimensions + jnp.where(blank, self.objects, content)
        tokens = jnp.stack([move, content[first]], axis=1).ravel()
        scored = (first < step) & ~blank[first] & (step < n)
        scored = jnp.stack([scored, jnp.zeros_like(scored)], axis=1).ravel()
        return Sample(tokens, jnp.repeat(content[first], 2), scored)

    def _walk(self, key, n, longest):
        for_directions, for_runs = jax.random.split(key)
        step = jnp.arange(longest)
        runs = jax.random.randint(for_runs, (longest,), 1, self.longest_run + 1)
        run = jnp.searchsorted(jnp.cumsum(runs), step, side="right")
        directions = jax.random.randint(for_directions, (longest,), 0, 2 * self.dimensions)
        move = directions[run]
        return jnp.where(step == n - 1, move[n - 2] ^ 1, move)

    def _sources(self, tokens):
        sources, seen, position = {}, {}, [0] * self.dimensions
        blank = 2 * self.dimensions + self.objects
        for place in range(0, len(tokens), 2):
            axis, forward = divmod(tokens[place], 2)
            position[axis] = (position[axis] + (1 if forward else -1)) % self.side
            cell = tuple(position)
            if cell in seen and tokens[place + 1] != blank:
                sources[place] = seen[cell]
            seen[cell] = place + 1
        return sources
