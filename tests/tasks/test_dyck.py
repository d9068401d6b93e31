"""Dyck-(k, m): well nested, no deeper than m, and drawn as in the source."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_tasks import samples

from pe_jax.evaluation.baselines import baselines
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.scoring import held_out
from pe_jax.tasks.dyck import Dyck


def test_worked_example():
    assert Dyck(types=2).oracle([0, 1, 3, 2]) == [None, 3, 2, None]


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


def test_distances_are_those_of_openings_to_their_closings():
    task = Dyck(types=2)
    assert task.distances([0, 1, 3, 2]) == [None, 1, 3, None]
    for tokens, _, scored in samples(task, 32, 50):
        for at, distance in enumerate(task.distances(tokens)):
            assert (distance is not None) == scored[at]
            if distance is not None:
                assert tokens[at + 1] == tokens[at + 1 - distance] + 2


def test_the_3_gram_knows_short_distances_and_nothing_of_long_ones():
    """By hand: the counts of the closings behind each three tokens of other samples."""
    task, n, B = Dyck(types=2, deepest=4), 16, 400
    config = EvalConfig(metrics=("by_distance", "accuracy"), samples=B, last=1)
    found = {(one.name, one.metric): one.value for one in baselines(task, n, config)}
    numbers = jnp.arange(2 * B, dtype=jnp.int32)
    draw = jax.jit(held_out, static_argnames=("task", "longest", "split"))
    (tokens, targets, scored), _ = draw(task, jnp.int32(n), numbers, 16, "test")
    counts, by_distance, right = collections.Counter(), collections.defaultdict(list), []
    places = [(row, at) for row, at in np.argwhere(np.asarray(scored))]
    rows = np.asarray(tokens).tolist()

    def before(row, at):
        return tuple(([None, None, *rows[row]])[at : at + 3])

    for row, at in places:
        if row >= B:
            counts[before(row, at), int(targets[row, at])] += 1
    for row, at in places:
        if row < B:
            seen = [counts[before(row, at), label] + 1 for label in (2, 3)]
            answer = int(targets[row, at]) - 2
            by_distance[task.distances(rows[row])[at]].append(seen[answer] / sum(seen))
            right.append(int(np.argmax(seen)) == answer)
    means = [np.mean(values) for values in by_distance.values()]
    assert found["3-gram", "by_distance"] == pytest.approx(100 * np.mean(means))
    assert found["3-gram", "accuracy"] == pytest.approx(100 * np.mean(right))
    assert ("guess", "by_distance") not in found
    assert np.mean(by_distance[1]) > 0.95 and np.mean(by_distance[13]) < 0.6
