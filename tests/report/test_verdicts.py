"""What a difference is said to be, against computations of its own."""

import math

import numpy as np
import pytest
import scipy.stats
from drawn import texts
from scored import rows, scored
from studies import table_of

from pe_jax.record import Replica, Way
from pe_jax.report import sheets, stats
from pe_jax.report.differences import versus
from pe_jax.report.phrases import plusminus, rounded

BASE = scored("rope", [{64: 2.0 + seed / 100} for seed in range(4)])


def shifted(label, by_seed):
    """BASE with something added for each seed."""
    values = [{64: 2.0 + seed / 100 + more} for seed, more in enumerate(by_seed)]
    return scored(label, values)


def against(*others, **options):
    """The sheet's text and the numbers of each other model against BASE."""
    (found,) = versus([table_of([BASE, *others])], "rope", **options)
    printed = {row[0]: row[1] for row in texts(sheets.differences(found))}
    return {row.label: (printed[row.label], cells[0]) for row, cells in found.rows}


def test_differences_have_thousandths():
    assert plusminus(4e-3, 1e-4, sign="+") == "+0.004 ± 0.000"
    assert plusminus(2e-10, 1e-10, sign="+") == "+0.000 ± 0.000"
    assert plusminus(-0.0123, math.nan, sign="+") == "−0.012"
    assert [*map(rounded, (0.0123, 9.84, 164.2, 1234))] == ["0.012", "9.8", "160", "1,200"]
    assert plusminus(2.0123, 0.02) == "2.01 ± 0.02"
    gains = [scored("rope", [{64: 2.0, 128: 2.0 + 2e-10}]), scored("t5", [{64: 2.0, 128: 2.004}])]
    (sheet,) = sheets.extrapolation([table_of(gains)])
    column = sheet.columns.index("change")
    assert [row[column] for row in texts(sheet)[:2]] == ["+0.000", "+0.004"]


def test_only_the_same_values_to_the_bit_are_equal():
    found = against(shifted("same", [0.0] * 4), shifted("near", [1e-6, 2e-6, 3e-6, 1e-6]))
    assert found["same"][0] == found["same"][1].verdict(1) == "equal"
    assert found["near"][1].verdict(1) != "equal" and found["near"][0].startswith("+0.000")


def test_equivalent_is_what_two_one_sided_tests_show_within_the_margin():
    """The p of scipy's one-sided tests against both ends of the margin, Holm's for three models."""
    shifts = {
        "close": [0.001, 0.003, 0.002, 0.004],
        "noisy": [0.02, -0.03, 0.01, -0.01],
        "far": [0.5, 0.501, 0.502, 0.499],
    }
    found = against(*(shifted(*pair) for pair in shifts.items()), margin=0.01)
    larger = {
        label: max(
            scipy.stats.ttest_1samp(by_seed, -0.01, alternative="greater").pvalue,
            scipy.stats.ttest_1samp(by_seed, 0.01, alternative="less").pvalue,
        )
        for label, by_seed in shifts.items()
    }
    assert found["close"][1].p_within == pytest.approx(3 * larger["close"])
    assert found["noisy"][1].p_within == pytest.approx(2 * larger["noisy"])
    assert [label for label in shifts if "equivalent within 0.01" in found[label][0]] == ["close"]
    without = against(*(shifted(*pair) for pair in shifts.items()))
    assert not any("equivalent" in text for text, _ in without.values())


def by_the_book(p, level=0.05):
    """Which hypotheses Holm (1979) rejects: the least p at level / m, the next at level / (m - 1),
    and so on until one is not.
    """
    rejected, order = set(), sorted(range(len(p)), key=lambda i: p[i])
    for step, i in enumerate(order):
        if p[i] > level / (len(p) - step):
            break
        rejected.add(i)
    return rejected


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(3)
    for _ in range(200):
        p = rng.beta(0.3, 3, size=rng.integers(1, 12)).tolist()
        adjusted = stats.holm([*p, math.nan])  # not tested: it does not count
        assert {i for i, value in enumerate(adjusted) if value <= 0.05} == by_the_book(p)


def test_the_best_of_a_column_is_held_against_the_family_of_all_pairs():
    rng = np.random.default_rng(5)
    for _ in range(50):
        values = rng.normal(size=8) + rng.normal(0, 0.2, size=(6, 8)) + rng.normal(size=(6, 1))
        first = int(values.mean(axis=1).argmin())
        pairs = [(i, j) for i in range(6) for j in range(i)]
        p = [scipy.stats.ttest_rel(values[i], values[j]).pvalue for i, j in pairs]
        apart = {pair for k, pair in enumerate(pairs) if k in by_the_book(p)}
        wanted = [not apart & {(i, first), (first, i)} for i in range(6)]
        assert stats.best([dict(enumerate(row)) for row in values], digits=12) == wanted


def test_answers_to_the_same_questions_have_mcnemars_exact_test():
    """Of 12 questions the swap answers 9 alone, and the model 1 alone; a sign test by scipy."""
    model = [{64: value} for value in [0] * 9 + [100, 100, 0]]
    swap = [{64: value} for value in [100] * 9 + [0, 100, 0]]
    of = {"metric": "passkey", "kind": "sample"}
    more = rows(swap, way=Way(swap="yarn"), **of)
    few = rows(model[:5], way=Way(swap="ntk"), **of)  # the model's own first five answers
    result = scored("rope", model, more=(*more, *few), **of)
    (found,) = versus([table_of([result], "passkey")])
    cells = {row.label: cells[0] for row, cells in found.rows}
    exact = scipy.stats.binomtest(1, 10, 0.5).pvalue
    assert cells["rope, yarn"].p == pytest.approx(2 * exact)
    assert cells["rope, yarn"].verdict(-1) == "better" and math.isnan(
        cells["rope, yarn"].change.half
    )
    assert cells["rope, ntk"].verdict(-1) == "equal" and cells["rope, ntk"].p == 1.0
    five = {Replica("sample", i): 100.0 for i in range(5)}
    assert stats.mcnemar(five, dict.fromkeys(five, 0.0)) == 2 * 0.5**5
    assert not stats.yes_or_no([{Replica("seed", 0): 100.0}])


def test_the_equivalence_of_answers_has_an_exact_test():
    """300 questions answered alike show that less than 1 % are answered differently; one of them
    answered differently, or two questions, do not.
    """
    for asked, differ in ((300, 0), (300, 1), (2, 0)):
        model = {Replica("sample", i): 100.0 for i in range(asked)}
        other = model | {Replica("sample", i): 0.0 for i in range(differ)}
        exact = scipy.stats.binom.cdf(differ, asked, 0.01)
        assert stats.equivalence(model, other, 1.0) == pytest.approx(exact)
        assert (exact < 0.05) == ((asked, differ) == (300, 0))
