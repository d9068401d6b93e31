"""Indirect indexing: the samples of the paper, and how letters and shifts are drawn."""

import collections
import string

import numpy as np
import pytest
from test_tasks import samples

from pe_jax.tasks.indirect_indexing import IndirectIndexing

LETTERS = string.ascii_uppercase + string.ascii_lowercase


@pytest.mark.parametrize(
    ("sample", "answer"),
    [
        ("TzbkWoKDyscBepYvfwxEVQtgPa, c, -8", "b"),
        ("NZTUIGWkXFrhCJDzscat, N, +4", "I"),
        ("RBEvOPgtaGDnjhbJCLScruZpMNsyWfQxXFAzUT, x, +2", "F"),
        ("QEOHOUDKfeSrMVNlCzXu, z, -3", "N"),
    ],
)
@pytest.mark.parametrize("causal", [True, False])
def test_the_samples_of_the_paper(sample, answer, causal):
    letters, letter, shift = sample.split(", ")
    text = f"{letters},{letter},{shift[0]}{int(shift[1:]):02}"
    task = IndirectIndexing(causal)
    tokens = [(LETTERS + string.digits + "+-,").index(symbol) for symbol in text] + [task.symbols]
    assert len(tokens) == task.size(len(letters))
    assert task.oracle(tokens) == [None] * (len(tokens) - 1) + [LETTERS.index(answer)]


def test_letters_and_shifts_are_uniform():
    places, shifts = [], collections.defaultdict(list)
    for tokens, *_ in samples(IndirectIndexing(), 20, 4000):
        letters = tokens[:20]
        assert len(set(letters)) == 20
        assert max(letters) < 52
        place = letters.index(tokens[21])
        size = int("".join(str(token - 52) for token in tokens[24:26]))
        places.append(place)
        shifts[place].append(size if tokens[23] == 62 else -size)
    np.testing.assert_allclose(np.bincount(places) / 4000, np.full(20, 0.05), atol=0.02)
    assert set(shifts[0]) == set(range(1, 16))
    assert set(shifts[10]) == {*range(-10, 0), *range(1, 10)}
    assert set(shifts[19]) == set(range(-15, 0))


def test_a_shift_has_two_digits():
    with pytest.raises(ValueError, match="farthest must be .* at most 99, got 100"):
        IndirectIndexing(farthest=100)
