"""Positions that are made of the tokens of an addition: the papers' examples, draws, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import one
from helpers import DIMS

from pe_jax.attention.bound import fold_positions
from pe_jax.specs.parse import make
from pe_jax.tasks.addition import Addition
from pe_jax.tasks.copy import Copy
from pe_jax.tasks.parity import Parity
from pe_jax.tasks.reverse import Reverse

ADDITION = [*"0123456789", "end", "+", "="]
LONG = DIMS._replace(train_len=64)


def sampled(task, n, count):
    """The tokens of samples of length n."""
    keys = jax.random.split(jax.random.key(1), count)
    return jax.jit(jax.vmap(lambda key: task.sample(key, jnp.int32(n), n).tokens))(keys)


def moved(spec, tokens, key=None, dims=DIMS):
    tokens = jnp.asarray(tokens)
    pos = jnp.arange(len(tokens))
    return np.asarray(one(spec, dims).positions(tokens, pos, key, key is not None))


def ids(text):
    return [ADDITION.index(symbol) for symbol in text]


@pytest.mark.parametrize(
    ("spec", "text", "wanted"),
    [
        ("position_coupling", "653+049=2070", [4, 3, 2, 1, 4, 3, 2, 1, 2, 3, 4, 5]),
        ("position_coupling", "653+49=207", [4, 3, 2, 1, 3, 2, 1, 2, 3, 4]),
        ("position_coupling(backwards=False)", "356+94=207", [2, 3, 4, 1, 2, 3, 1, 2, 3, 4]),
        ("abacus", "356+94=207", [1, 2, 3, 0, 1, 2, 0, 1, 2, 3]),
        ("abacus", "653+049=2070", [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4]),
    ],
)
def test_examples_of_the_papers(spec, text, wanted):
    np.testing.assert_array_equal(moved(spec, ids(text)), wanted)
    behind = moved(spec, [*ids(text), 10, 10, -1, -1])  # END, and padding
    np.testing.assert_array_equal(behind, [*wanted, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("task", "spec", "input", "answer"),
    [
        (Copy(alphabet=9), "(backwards=False,digits=9,equals=10)", [2, 3, 4, 5], [1, 2, 3, 4, 5]),
        (Reverse(alphabet=9), "(digits=9,equals=10)", [5, 4, 3, 2], [1, 2, 3, 4, 5]),
        (
            Parity(running=True),
            "(backwards=False,digits=2,equals=3)",
            [2, 3, 4, 5],
            [1, 2, 3, 4, 5],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_coupled_positions_of_other_tasks(task, spec, input, answer):
    tokens = sampled(task, 4, 2)[0]
    np.testing.assert_array_equal(moved("position_coupling" + spec, tokens), input + answer)


@pytest.mark.parametrize(
    ("spec", "task"),
    [
        ("position_coupling(max_position=40)", Addition(order="reversed_answer", padded=True)),
        ("position_coupling(max_position=40)", Addition(order="reversed_answer")),
        ("abacus(max_shift=30)", Addition(order="reversed")),
        ("abacus(max_shift=30)", Addition(order="reversed", padded=True)),
    ],
)
def test_digits_of_equal_significance_have_equal_positions_wherever_they_begin(spec, task):
    tokens = sampled(task, 9, 400)
    pos = np.asarray(
        fold_positions(
            make(spec, LONG), tokens, jnp.arange(len(tokens[0])), jax.random.key(0), True
        )
    )
    starts = set()
    for row, places in zip(tokens.tolist(), pos.tolist(), strict=True):
        plus, equals = row.index(11), row.index(12)
        end = row.index(10) if 10 in row else len(row)
        runs = [places[:plus], places[plus + 1 : equals], places[equals + 1 : end]]
        low_first = runs if task.order == "reversed" else [runs[0][::-1], runs[1][::-1], runs[2]]
        starts.add(low_first[0][0])
        for run in low_first:
            assert run == list(range(low_first[0][0], low_first[0][0] + len(run)))
    assert len(starts) == 31 if "abacus" in spec else len(starts) >= 29
    assert pos.max() in (39, 40)


@pytest.mark.parametrize("name", ["abacus", "position_coupling"])
def test_each_sequence_has_its_draw_and_evaluation_none(name):
    encodings, pos = make(f"{name}+learned(length=300)", LONG), jnp.arange(12)
    tokens = jnp.asarray([ids("653+049=2070")] * 20)
    train = fold_positions(encodings, tokens, pos, jax.random.key(0), True)
    assert len({tuple(row) for row in train.tolist()}) > 10
    for key in (None, jax.random.key(0)):
        test = fold_positions(encodings, tokens, pos, key, False)
        np.testing.assert_array_equal(test, [moved(name, tokens[0])] * 20)
    with pytest.raises(ValueError, match="draws positions: pass `key`"):
        fold_positions(encodings, tokens, pos, None, True)
