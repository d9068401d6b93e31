"""Every task: samples are what its oracle says, in every form and length; the papers' examples."""

import dataclasses

import jax
import numpy as np
import pytest

from pe_jax.task import Task
from pe_jax.tasks import TASKS, section
from pe_jax.tasks.answer import Written
from pe_jax.tasks.copy import Copy
from pe_jax.testing import check_task
from pe_jax.testing.tasks import drawn

DRAWN = {name: cls for name, cls in TASKS.items() if not cls.reads_text}
FORMS = [(name, True) for name in DRAWN]
FORMS += [
    pytest.param(name, False, marks=() if name == "reverse_string" else pytest.mark.slow)
    for name, cls in DRAWN.items()
    if cls.bidirectional
]
LENGTHS = (*range(1, 21), 39, 40, 41, 42, 80)
LONG = ["stack_manipulation", "binary_addition", "binary_multiplication", "compute_sqrt"]
LONG += ["modular_arithmetic", "modular_arithmetic_brackets", "solve_equation"]


def lengths(task):
    return [n for n in LENGTHS if task.has(n)]


def samples(task, n, count=50, longest=None, seed=0):
    """(tokens, targets, scored) of samples of length n, without their padding, as lists."""
    batch = jax.device_get(drawn(task, np.int32(n), longest or n, count, seed))
    size = int(task.size(n))
    assert batch.tokens.shape == (count, int(task.size(longest or n)))
    assert not batch.scored[:, size:].any()
    return [[row[:size].tolist() for row in sample] for sample in zip(*batch, strict=True)]


@pytest.mark.parametrize(("name", "causal"), FORMS)
def test_the_oracle_agrees_with_every_sample(name, causal):
    task = TASKS[name](causal)
    check_task(task, tuple(lengths(task)), 50)


def kinds():
    """The tasks, slow but for the first of each way to lay out a sample, `addition`, whose operands
    are drawn in a way of its own, and those of LONG.
    """
    seen = set()
    for name, cls in DRAWN.items():
        kind = cls.sample, issubclass(cls, Written)
        slow = kind in seen and name not in (*LONG, "addition")
        yield pytest.param(name, marks=pytest.mark.slow if slow else ())
        seen.add(kind)


@pytest.mark.parametrize("name", [*kinds()])
def test_samples_do_not_depend_on_padding(name):
    task = TASKS[name]()
    n, longest = lengths(task)[5], max(lengths(task))
    assert samples(task, n) == samples(task, n, longest=longest)


@pytest.mark.parametrize("name", DRAWN)
def test_samples_differ_and_depend_on_the_key_alone(name):
    task = TASKS[name]()
    longest = max(lengths(task))
    first, again, other = (samples(task, longest, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert len({str(sample) for sample in first + other}) == 100


@pytest.mark.parametrize("name", LONG)
def test_long_samples(name):
    check_task(TASKS[name](), (99, 100, 101, 400), 40)


@dataclasses.dataclass(frozen=True)
class Lies(Copy):
    def _answer(self, input):
        return [0] * len(input)


@dataclasses.dataclass(frozen=True)
class Large(Copy):
    def vocab(self):
        return 2


@dataclasses.dataclass(frozen=True)
class Unscored(Copy):
    def sample(self, key, n, longest):
        sample = super().sample(key, n, longest)
        return sample._replace(scored=sample.scored & False)

    def oracle(self, tokens):
        return [None] * len(tokens)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Lies(), "has the targets .* and its oracle says"),
        (Large(), "ids beyond its vocabulary"),
        (Unscored(), "must have a scored token"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_sample_that_breaks_the_contract_is_shown(task, said):
    with pytest.raises(ValueError, match=rf"^the sample \[.*\] of length 1.* {said}"):
        check_task(task, (1, 2), 20)


def solved(name, causal, input):
    """The answer to an input, given as a string of digits, by the oracle."""
    task = TASKS[name](causal)
    symbols = [int(symbol) for symbol in input]
    n = next(n for n in range(1, 99) if task.has(n) and task._counts(n)[0] == len(symbols))
    tokens = symbols + [task.symbols] * (int(task.size(n)) - len(symbols))
    return "".join(str(symbol) for symbol in task.oracle(tokens) if symbol is not None)


@pytest.mark.parametrize(
    ("name", "input", "answer"),
    [
        ("reverse_string", "011010", "010110"),
        ("reverse_string", "001", "100"),
        ("query_kernel", "001", "0"),
        ("query_kernel", "1", "1"),
    ],
)
def test_worked_examples(name, input, answer):
    assert solved(name, True, input) == solved(name, False, input) == answer


def test_a_misspelt_method_is_an_error():
    with pytest.raises(TypeError, match=r"Wrong.lables is not a hook of Task; did you mean"):

        class Wrong(Task):
            def lables(self):
                return 2


def test_a_task_for_decoders_alone_says_so():
    with pytest.raises(ValueError, match=r"Text has each token .* use lm.causal=True"):
        TASKS["text"](causal=False)


def test_fields_of_earlier_releases_keep_the_identity_of_a_task():
    old = {"name": "dyck", "types": 2, "deepest": 10, "behind_closing": False}
    assert section.identity(section.whole(old)) == old
    assert section.make(section.whole(old)) == TASKS["dyck"](types=2)
    with pytest.raises(ValueError, match="dyck has no field 'behind_closing'"):
        section.make(section.whole(old | {"behind_closing": True}))
