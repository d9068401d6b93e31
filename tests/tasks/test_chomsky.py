"""The tasks of Deletang et al.: worked examples, impossible lengths, and what is drawn."""

from collections import Counter

import numpy as np
import pytest
import scipy.stats
from test_tasks import drawn, solved

from pe_jax.tasks import TASKS

WORKED = [
    ("even_pairs", "001110", "0"),
    ("even_pairs", "0101001", "1"),
    ("even_pairs", "1", "0"),
    ("parity_check", "1010100", "1"),
    ("parity_check", "01111", "0"),
    ("cycle_navigation", "20100", "3"),
    ("cycle_navigation", "2220", "2"),
    ("modular_arithmetic", "15273", "2"),
    ("modular_arithmetic", "071547362", "0"),
    ("modular_arithmetic_brackets", "880639639", "4"),
    ("modular_arithmetic_brackets", "84786399", "3"),
    ("modular_arithmetic_brackets", "836639", "1"),
    ("solve_equation", "7 0 6 7 9 8 8 10 2", "3"),
    ("solve_equation", "6 9 10 4", "1"),
    ("solve_equation", "9 10 4", "4"),
    ("solve_equation", "00", "0"),
    ("solve_equation", "0", "0"),
    ("stack_manipulation", "0110422", "1102"),
    ("stack_manipulation", "110222", "2"),
    ("stack_manipulation", "1", "12"),
    ("duplicate_string", "101", "101101"),
    ("duplicate_string", "0", "00"),
    ("odds_first", "00110101", "01110100"),
    ("odds_first", "110", "110"),
    ("missing_duplicate_string", "01100210", "1"),
    ("missing_duplicate_string", "1011213", "0"),
    ("missing_duplicate_string", "1", "1"),
    ("bucket_sort", "10204112", "00111224"),
    ("bucket_sort", "431", "134"),
    ("binary_addition", "001201101", "010112"),
    ("binary_addition", "10012000001", "1001012"),
    ("binary_addition", "00", "02"),
    ("binary_addition", "10", "12"),
    ("binary_addition", "01", "012"),
    ("binary_addition", "0", "02"),
    ("binary_multiplication", "001201101", "00011012"),
    ("binary_multiplication", "10012000001", "0000010012"),
    ("binary_multiplication", "00", "02"),
    ("binary_multiplication", "0", "2"),
    ("compute_sqrt", "100101", "110"),
    ("compute_sqrt", "111", "10"),
    ("compute_sqrt", "1", "1"),
]


def test_worked_examples_of_the_hierarchy():
    for name, input, answer in WORKED:
        symbols = input.split() if " " in input else input
        found = solved(name, True, symbols), solved(name, False, symbols)
        assert found == (answer, answer), (name, input)


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("stack_manipulation", {("0", "02"), ("1", "12")}),
        ("missing_duplicate_string", {("1", "1")}),
        ("compute_sqrt", {("1", "1")}),
        ("binary_addition", {("0", "02")}),
        ("binary_multiplication", {("0", "2")}),
        ("binary_addition", {("00", "020"), ("10", "120"), ("01", "012")}),
        ("binary_multiplication", {("00", "02"), ("10", "02"), ("01", "02")}),
        ("solve_equation", {("00", "0")}),
    ],
)
def test_the_whole_answers_of_one_and_two_symbols(name, whole):
    ((input, _), *_) = whole
    assert set(pairs(name, len(input))) == whole


def batch(name, n, count):
    """(the inputs, the whole answers, which of their symbols are scored) of samples of length n."""
    task = TASKS[name](causal=False)
    i, m = task._counts(n)
    sample = drawn(task, np.int32(n), max(n, 40), count)  # few paddings, so few programs
    tokens, targets, scored = (np.asarray(part)[:, : i + m] for part in sample)
    return tokens[:, :i], targets[:, i:], scored[:, i:]


def pairs(name, n, count=4000):
    """(an input, its whole answer) of samples of length n, as strings."""
    inputs, answers, _ = batch(name, n, count)
    return [
        ("".join(map(str, input)), "".join(map(str, answer)))
        for input, answer in zip(inputs.tolist(), answers.tolist(), strict=True)
    ]


def shares(name, n, count=20000):
    """How often each answer of one symbol is drawn."""
    counts = np.bincount(batch(name, n, count)[1][:, 0])
    return counts / count


CLOSE = {"atol": 0.015}  # four standard deviations of a share among 20,000


@pytest.mark.parametrize(
    ("name", "n", "wanted"),
    [
        ("cycle_navigation", 1, np.array([1, 1, 0, 0, 1]) / 3),
        ("cycle_navigation", 2, np.array([3, 2, 1, 1, 2]) / 9),
        ("cycle_navigation", 10, np.full(5, 0.2)),
        ("modular_arithmetic", 3, [0.2533, *[0.1867] * 4]),
        ("modular_arithmetic", 5, [0.2320, *[0.1920] * 4]),
        ("modular_arithmetic", 9, [0.2087, *[0.1978] * 4]),
        ("solve_equation", 3, np.full(5, 0.2)),
        ("solve_equation", 14, np.full(5, 0.2)),
    ],
)
def test_how_often_each_answer_is_drawn(name, n, wanted):
    np.testing.assert_allclose(shares(name, n), wanted, **CLOSE)


@pytest.mark.parametrize(("n", "zeros"), [(4, 0.2), (5, 0.253), (10, 0.263), (40, 0.292)])
def test_how_often_an_expression_with_brackets_is_0(n, zeros):
    np.testing.assert_allclose(shares("modular_arithmetic_brackets", n)[0], zeros, **CLOSE)


def test_x_has_one_solution():
    for tokens in batch("solve_equation", 20, 20000)[0][:50].tolist():
        assert tokens.count(9) == tokens.count(10) == 1
        *left, _, right = tokens
        words = dict(enumerate(["0", "1", "2", "3", "4", "+", "-", "(", ")"]))
        text = ["".join(words.get(symbol, str(digit)) for symbol in left) for digit in range(5)]
        assert sum(eval(equation) % 5 == right for equation in text) == 1


def test_x_is_the_first_digit_from_a_uniform_place_on():
    hits, chances = [], []
    for tokens in batch("solve_equation", 12, 20000)[0].tolist():
        digits = [at for at, symbol in enumerate(tokens[:10]) if symbol < 5 or symbol == 9]
        hits.append(tokens[digits[0]] == 9)
        chances.append((10 - digits[-1] + digits[0]) / 10)
    np.testing.assert_allclose(np.mean(hits), np.mean(chances), **CLOSE)
    assert np.mean(chances) < 0.9


def test_both_parts_of_an_expression_have_any_size():
    """( e(l) operator e(n - 3 - l) ), l uniform in 1 .. n - 4."""
    sizes = []
    for tokens in batch("modular_arithmetic_brackets", 8, 4000)[0].tolist():
        depths = np.cumsum([(symbol == 8) - (symbol == 9) for symbol in tokens])
        operator = max(at for at in range(2, 7) if depths[at] == 1 and 5 <= tokens[at] <= 7)
        sizes.append(operator - 1 - (tokens[operator] == 6 and 5 <= tokens[operator - 1] <= 7))
    assert set(sizes) == {1, 2, 3, 4}
    assert scipy.stats.chisquare(np.bincount(sizes)[1:]).pvalue > 1e-3


def test_how_long_the_stacks_are():
    _, answers, scored = batch("stack_manipulation", 40, 20000)
    np.testing.assert_allclose(scored.sum(axis=1).mean(), 27.6, atol=0.3)
    assert (np.sort(answers, axis=1)[:, -1] == 2).all() and ((answers == 2).sum(axis=1) == 1).all()
    assert (answers[~scored] == 0).all()
    _, answers, _ = batch("stack_manipulation", 10, 20000)
    np.testing.assert_allclose((answers[:, 0] == 2).mean(), 0.018, atol=0.004)


@pytest.mark.parametrize("name", ["binary_addition", "binary_multiplication"])
def test_operands_are_at_least_1_and_results_end_once(name):
    sizes = Counter()
    for input, answer in pairs(name, 12):
        a, b = input.split("2")
        sizes[len(a)] += 1
        a, b = int(a[::-1], 2), int(b[::-1], 2)
        assert a >= 1 and b >= 1
        result, rest = answer.split("2")
        assert int(result[::-1], 2) == (a + b if name == "binary_addition" else a * b)
        assert not result.endswith("0") and set(rest) <= {"0"}
    assert set(sizes) == set(range(1, 11)) and min(sizes.values()) > 300


@pytest.mark.parametrize("n", [9, 10, 300])
def test_roots(n):
    leading = 0
    for input, answer in pairs("compute_sqrt", n):
        number, root = int(input, 2), int(answer, 2)
        assert 1 <= number < 2**n and root**2 <= number < (root + 1) ** 2
        leading += answer[0] == "1"
    np.testing.assert_allclose(leading / 4000, 0.75 if n % 2 == 0 else 0.5, atol=0.03)


@pytest.mark.parametrize("n", [8, 9])
def test_the_hidden_bit_is_at_any_place_and_the_rest_agrees(n):
    places = Counter()
    for input, _ in pairs("missing_duplicate_string", n):
        first, second = input[:4], input[4:8]
        differing = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
        assert len(differing) == 1 and "2" in differing[0] and input[8:] == "3" * (n - 8)
        places[input.index("2")] += 1
    assert set(places) == set(range(8)) and min(places.values()) > 400
