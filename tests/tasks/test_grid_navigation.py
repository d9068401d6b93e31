"""Grid navigation: what is scored, and how grids and walks are drawn."""

import itertools

import numpy as np
import pytest
from test_tasks import samples

from pe_jax.tasks.grid_navigation import GridNavigation


def test_worked_example():
    tokens = [1, 3, 1, 4, 0, 3, 0, 2, 1, 3]
    task = GridNavigation(dimensions=1, objects=2)
    wanted = task.oracle(tokens)
    assert {place: want for place, want in enumerate(wanted) if want is not None} == {4: 3, 8: 3}


def test_sides_are_joined_and_blanks_are_not_scored():
    task = GridNavigation(side=2, objects=3)
    up, down, left, right, blank = 0, 1, 2, 3, 7
    tokens = [up, 4, up, blank, down, 4, left, 5, right, 4, down, blank, up, 4]
    assert task.oracle(tokens) == [*[None] * 4, 4, *[None] * 3, 4, *[None] * 3, 4, None]


@pytest.mark.parametrize("dimensions", [1, 2])
def test_grids_and_walks_have_their_distributions(dimensions):
    task = GridNavigation(dimensions=dimensions, side=4096 // dimensions**2, empty=0.3)
    moves, runs, seen = [], [], []
    for tokens, *_ in samples(task, 128, 200):
        walk = tokens[0:254:2]
        moves += walk
        runs.append(1 + sum(a != b for a, b in itertools.pairwise(walk)))
        at, cells = [0, 0], {}
        for move, content in zip(tokens[::2], tokens[1::2], strict=True):
            at[move // 2] += 2 * (move % 2) - 1
            cells[tuple(at)] = content
        assert tokens[-2] == tokens[-4] ^ 1
        seen += cells.values()
    kinds = 2 * dimensions
    np.testing.assert_allclose(
        np.bincount(moves) / len(moves), np.full(kinds, 1 / kinds), atol=0.03
    )
    # Runs of 5.5 steps in the mean, some of which go on in the direction of the last.
    assert np.mean(runs) == pytest.approx(1 + 126 / 5.5 * (1 - 1 / kinds), rel=0.06)
    share = np.bincount(np.subtract(seen, kinds)) / len(seen)
    np.testing.assert_allclose(share, [*[0.7 / 16] * 16, 0.3], atol=0.02)
