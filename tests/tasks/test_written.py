"""Answers until END: the papers' examples in every format, scratchpads, how samples are drawn."""

import collections

import numpy as np
import pytest
import scipy.stats
from test_tasks import drawn, samples

from pe_jax.tasks.addition import Addition
from pe_jax.tasks.copy import Copy
from pe_jax.tasks.parity import Parity
from pe_jax.tasks.reverse import Reverse
from pe_jax.tasks.sort import Sort
from pe_jax.tasks.summation import Summation
from pe_jax.testing import check_task

ALIGNED = {
    "coupled": Addition(order="reversed_answer", padded=True),
    "abacus": Addition(order="reversed"),
    "hints": Addition(order="reversed", hints=15),
    "padded hints": Addition(order="reversed_answer", padded=True, hints=15),
    "plain hints": Addition(hints=15),
    "all reversed": Addition(order="reversed", padded=True, hints=15),
    "encoder": Addition(False, order="reversed", hints=15),
}
APART = ("abacus", "hints", "padded hints", "all reversed")  # what is of others together
FORMS = [
    *(Copy(variant=variant, alphabet=5) for variant in ("rsc", "cmc2x", "rsc2x", "rdc")),
    *(Reverse(variant=variant, alphabet=5) for variant in ("mc2x", "mcrv")),
    Parity(running=True),
    *(cls(scratchpad=True) for cls in (Parity, Summation, Sort, Addition)),
    *(
        pytest.param(task, marks=pytest.mark.slow if form in APART else (), id=str(task))
        for form, task in ALIGNED.items()
    ),
]


def written(task, input):
    """The answer to an input, in words."""
    answer = task.oracle([*task._ids(input.split()), task.symbols])
    return " ".join(task._names()[symbol] for symbol in answer if symbol is not None)


@pytest.mark.parametrize("task", FORMS, ids=str)
def test_every_form_is_what_its_oracle_says(task):
    check_task(task, (1, 2, 3, 9), 40)


EXAMPLES = [
    (Copy(), "10 3 10", "10 3 10 end"),
    (Copy(variant="cmc2x"), "10 3", "10 3 next 10 3 end"),
    (Copy(variant="rsc2x"), "3 3", "3 3 3 3 end"),
    (Copy(variant="rdc"), "6 9 6 6 6", "9 9 9 end"),
    (Reverse(), "10 3 11", "11 3 10 end"),
    (Reverse(variant="mc2x"), "10 3 11", "11 3 10 next 11 3 10 end"),
    (Reverse(variant="mcrv"), "10 3 11", "11 3 10 next 10 3 11 end"),
    (Addition(), "5 7 + 9 6 8", "1 0 2 5 end"),
    (Summation(), "3 + 8 + 6", "7"),
    (Parity(), "1 0 1 1", "1"),
    (Parity(running=True), "1 0 1 0", "1 1 0 0 end"),
    (Sort(), "24 8 24 1", "1 8 24 24 end"),
    (ALIGNED["coupled"], "6 5 3 + 0 4 9", "2 0 7 0 end"),
    (ALIGNED["abacus"], "3 5 6 + 9 4", "2 0 7 end"),
    (ALIGNED["padded hints"], "h0 0 h1 9 h2 7 + h0 0 h1 0 h2 5", "h2 2 h1 0 h0 1 end"),
    (ALIGNED["hints"], "h0 3 h1 5 h2 6 + h0 9 h1 4", "h0 2 h1 0 h2 7 end"),
    (ALIGNED["plain hints"], "h4 9 h5 7 + h5 5", "h3 1 h4 0 h5 2 end"),
]


def test_examples(subtests):
    for task, input, answer in EXAMPLES:
        with subtests.test(task=task):
            assert written(task, input) == answer


STEPS = {
    (Addition, "5 7 + 9 6 8"): (
        "in 7 8 comp 7 + 8 + var = 1 5 + 0 = 1 5 out 5 var 1 re 5 + 9 6",
        "in 5 6 comp 5 + 6 + var = 1 1 + 1 = 1 2 out 2 var 1 re 0 + 9",
        "in 0 9 comp 0 + 9 + var = 9 + 1 = 1 0 out 0 var 1 re +",
        "in 0 0 comp 0 + 0 + var = 0 + 1 = 1 out 1 var 0 re + thus 1 0 2 5 end",
    ),
    (Summation, "3 + 8 + 6"): (
        "in 3 comp 3 + var = 3 + 0 = out 3 var 3 = 3 re 8 + 6",
        "in 8 comp 8 + var = 8 + 3 = out 1 1 var 1 1 = 1 re 6",
        "in 6 comp 6 + var = 6 + 1 = out 7 var 7 = 7 re thus 7 end",
    ),
    (Parity, "1 0 1 1"): (
        "in 1 comp 1 ** var = 1 ** 0 out 1 var 1 re 0 1 1",
        "in 0 comp 0 ** var = 0 ** 1 out 1 var 1 re 1 1",
        "in 1 comp 1 ** var = 1 ** 1 out 0 var 0 re 1",
        "in 1 comp 1 ** var = 1 ** 0 out 1 var 1 re thus 1 end",
    ),
    (Sort, "4 1 4 0"): (
        "in 4 out 0 re 1 4 4",
        "in 1 out 1 re 4 4",
        "in 4 out 4 re 4",
        "in 4 out 4 re thus 0 1 4 4 end",
    ),
}


@pytest.mark.parametrize(("cls", "input"), STEPS)
def test_scratchpads(cls, input):
    assert written(cls(scratchpad=True), input) == " # ".join(STEPS[cls, input])


def test_a_scratchpad_has_room_for_its_longest_answer():
    nines = [9] * 5
    for task, n, input, spare in (
        (Addition(scratchpad=True), 5, [*nines, 11, *nines], 2),
        (Summation(scratchpad=True), 6, [9, 11] * 5 + [9], 2),
        (Parity(scratchpad=True), 6, [1] * 6, 0),
        (Sort(scratchpad=True), 6, [3] * 6, 0),
    ):
        assert len(task._answer(input)) == task._counts(n)[1] - spare


def test_the_lengths_of_two_numbers_are_every_pair_equally_often_and_their_digits_uniform():
    tokens = np.asarray(drawn(Addition(), np.int32(3), 3, 8000).tokens)
    lengths, numbers = collections.Counter(), collections.Counter()
    for row in tokens.tolist():
        a, b = row[: row.index(11)], row[row.index(11) + 1 : row.index(12)]
        lengths[len(a), len(b)] += 1
        numbers.update([int("".join(map(str, x))) for x in (a, b) if len(x) == 1])
        assert all(x[0] > 0 for x in (a, b) if len(x) > 1)
    assert set(lengths) == {(i, j) for i in (1, 2, 3) for j in (1, 2, 3) if max(i, j) == 3}
    assert set(numbers) == set(range(10))
    for counts in (lengths, numbers):
        assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_markers_begin_everywhere_and_mean_equal_significance():
    task, starts = ALIGNED["hints"], collections.Counter()
    for tokens, _, _ in samples(task, 9, 2000, longest=9):
        numbers = "".join(chr(65 + token) for token in tokens).split(chr(65 + task._id("+")))
        first = [ord(letter) - 65 for letter in numbers[0][::2]]
        assert first == list(range(first[0], first[0] + len(first)))
        assert numbers[1].startswith(chr(65 + first[0]))
        starts[first[0] - task._id("h0")] += 1
    assert set(starts) == set(range(15 - 9))
    assert scipy.stats.chisquare(list(starts.values())).pvalue > 1e-3
    assert task.has(14) and not task.has(15)


@pytest.mark.parametrize(
    ("task", "n", "chances"),
    [
        (Summation(), 1, {label: 1 / 9 for label in range(1, 10)}),
        (Summation(), 8, {label: 0.1 for label in range(10)}),
        (Parity(), 5, {0: 0.5, 1: 0.5}),
    ],
    ids=str,
)
def test_the_answers_are_balanced(task, n, chances):
    batch = drawn(task, np.int32(n), 8, 5000)
    targets = np.asarray(batch.targets)[np.asarray(batch.scored)]
    counts = collections.Counter(targets.tolist())
    assert set(counts) == set(chances)
    wanted = [5000 * chances[label] for label in sorted(chances)]
    assert scipy.stats.chisquare([counts[label] for label in sorted(counts)], wanted).pvalue > 1e-3


def test_a_replacement_is_another_symbol():
    task = Copy(variant="rdc", alphabet=3)
    pairs = collections.Counter(
        tuple(tokens[:2]) for tokens, _, _ in samples(task, 3, 1000, longest=9)
    )
    assert set(pairs) == {(s, t) for s in range(3) for t in range(3) if s != t}
    assert scipy.stats.chisquare(list(pairs.values())).pvalue > 1e-3


@pytest.mark.parametrize("cls", [Parity, Summation, Sort, Addition])
def test_a_scratchpad_is_for_decoders(cls):
    with pytest.raises(ValueError, match=r"one token after another: use lm.causal=True"):
        cls(False, scratchpad=True)


@pytest.mark.parametrize(
    ("cls", "fields", "said"),
    [
        (Copy, {"alphabet": 1}, "alphabet must be an integer of at least 2, got 1"),
        (Parity, {"scratchpad": True, "running": True}, "not both"),
        (Addition, {"scratchpad": True, "padded": True}, "without padding and hints"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(cls, fields, said):
    with pytest.raises(ValueError, match=said):
        cls(**fields)
