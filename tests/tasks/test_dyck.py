"""Dyck-(k, m): well nested, no deeper than m, and drawn as in the source."""

import collections
import itertools

import numpy as np
import pytest
from test_tasks import samples

from pe_jax.tasks.dyck import Dyck


def test_worked_example():
    assert Dyck(types=2).oracle([0, 1, 3, 2]) == [None, 3, 2, None]
    assert Dyck(types=2, behind_closing=True).oracle([0, 1, 3, 2]) == [None, None, 2, None]


@pytest.mark.parametrize(("types", "deepest"), [(1, 1), (2, 4), (8, 10)])
def test_brackets_are_nested_and_reach_the_depth(types, deepest):
    reached = 0
    for tokens, *_ in samples(Dyck(types=types, deepest=deepest), 200, 50):
        stack = []
        for token in tokens:
            if token < types:
                stack.append(token)
                reached = max(reached, len(stack))
            else:
                assert token == types + stack.pop()
        assert not stack
    assert reached == deepest


def test_ways_have_the_probabilities_of_the_source():
    """With m = 2 a closing from depth 2 has a weight of 1, and every other step of 1/2."""
    weights = {}
    for steps in itertools.product((1, -1), repeat=8):
        depths = np.cumsum(steps)
        if depths[-1] == 0 and min(depths) >= 0 and max(depths) <= 2:
            weights[steps] = 2.0 ** np.sum(depths == 2)
    found = collections.Counter(
        tuple(1 if token == 0 else -1 for token in tokens)
        for tokens, *_ in samples(Dyck(types=1, deepest=2), 8, 4000)
    )
    assert set(found) == set(weights)
    for steps, weight in weights.items():
        assert found[steps] / 4000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


def test_the_guess_is_better_than_chance_and_far_from_right():
    task = Dyck(types=2, deepest=4)
    right = []
    for tokens, targets, scored in samples(task, 32, 1000):
        guess = task.guess(tokens)
        right += [guess[at] == targets[at] for at in range(32) if scored[at]]
    assert 0.6 < np.mean(right) < 0.9


def test_behind_a_closing_the_guess_is_at_chance():
    task = Dyck(types=2, deepest=4, behind_closing=True)
    right = []
    for tokens, targets, scored in samples(task, 32, 1000):
        answers = task.oracle([*map(int, tokens)])
        assert [int(t) if s else None for t, s in zip(targets, scored, strict=True)] == answers
        guess = task.guess(tokens)
        right += [guess[at] == targets[at] for at in range(32) if scored[at]]
    assert np.mean(right) == pytest.approx(0.5, abs=0.03)


def test_without_depth_no_closing_stands_behind_another():
    with pytest.raises(ValueError, match="no closing behind another at a depth of 1"):
        Dyck(deepest=1, behind_closing=True)
    assert not Dyck(behind_closing=True).has(2) and Dyck(behind_closing=True).has(4)
