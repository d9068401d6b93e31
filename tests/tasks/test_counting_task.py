"""Counting: the value of a variable, and programs drawn as in the source."""

import collections
import itertools

from test_tasks import samples

from pe_jax.tasks.counting import (
    EQUALS,
    FIRST_VARIABLE,
    INCREMENT,
    LARGEST,
    PASS,
    PRINT,
    SEMICOLON,
    Counting,
)

WORDS = {"=": EQUALS, ";": SEMICOLON, "++;": INCREMENT, "pass;": PASS, "print": PRINT, "0": 0}
WORDS |= {"a": FIRST_VARIABLE, "b": FIRST_VARIABLE + 1}


def test_worked_example():
    program = "pass; a = 0 ; a ++; pass; b = 0 ; a ++; print a"
    tokens = [WORDS[word] for word in program.split()]
    task = Counting(variables=2)
    assert task.has(len(tokens))
    assert task.oracle(tokens) == [None] * (len(tokens) - 1) + [2]


def programs(values, room, passes):
    """(probability, program) for every program that fills the room, by the rules of the source."""
    if not room:
        yield 1.0, ()
        return
    drawn = [(passes, ("pass;",), values)]
    for variable in "ab":
        drawn.append((1 / 2, (variable, "=", "0", ";"), values | {variable: 0}))
        if values.get(variable, LARGEST) < LARGEST:
            more = values | {variable: values[variable] + 1}
            drawn.append((7 / len(values), (variable, "++;"), more))
    drawn = [(weight, words, after) for weight, words, after in drawn if len(words) <= room]
    total = sum(weight for weight, *_ in drawn)
    for weight, words, after in drawn:
        for probability, rest in programs(after, room - len(words), passes):
            yield weight / total * probability, words + rest


def test_programs_have_the_probabilities_of_the_source():
    wanted = collections.Counter()
    for probability, program in programs({}, 9, 3.0):
        if "=" in program:
            known = {name for name, after in itertools.pairwise(program) if after == "="}
            for variable in known:
                wanted[(*program, "print", variable)] += probability / len(known)
    total = sum(wanted.values())
    words = {token: word for word, token in WORDS.items()}
    found = collections.Counter(
        tuple(words[token] for token in tokens)
        for tokens, *_ in samples(Counting(variables=2, passes=3.0), 11, 8000)
    )
    assert set(found) <= set(wanted)
    difference = sum(abs(found[program] / 8000 - wanted[program] / total) for program in wanted)
    assert difference / 2 < 0.06


def test_no_variable_exceeds_ten_and_every_value_comes():
    task = Counting(variables=1, passes=0.01)
    values = [targets[-1] for _, targets, _ in samples(task, 80, 500)]
    assert set(values) == set(range(LARGEST + 1))
