"""Which cells are bold, and how far a model holds."""

import math

import numpy as np
from scored import rows, scored
from studies import table_of, tables_of

from pe_jax.record import Way
from pe_jax.report import sheets, stats
from pe_jax.report.study import Study
from pe_jax.report.table import tables


def model(label, base, noise=0.001, seeds=3):
    """Values of all lengths near `base`, with noise of its own."""
    rng = np.random.default_rng(sum(map(ord, label)))
    return scored(label, [{64: v, 128: v} for v in base + noise * rng.normal(size=seeds)])


def bold(table):
    return {row.label: [cell.best for cell in row.cells] for row in table.rows if not row.method}


def test_a_third_of_the_rows_may_be_bold_and_no_more():
    assert stats.unless_many([True, False, False]) == [True, False, False]
    assert stats.unless_many([True, True, False, False, False]) == [False] * 5
    assert stats.unless_many([True, True, *[False] * 4]) == [True, True, *[False] * 4]
    assert stats.unless_many([True, False]) == [True, False]
    assert stats.unless_many([True]) == [False]


def test_a_column_of_models_that_no_test_tells_apart_has_no_bold():
    apart = table_of([model(f"e{i}", 2.0 + i) for i in range(4)])
    assert bold(apart) == {"e0": [True] * 2} | {f"e{i}": [False] * 2 for i in (1, 2, 3)}
    alike = table_of([model(f"e{i}", 2.0 + i / 9, noise=1.0) for i in range(4)])
    assert not any(any(marks) for marks in bold(alike).values())


def test_the_only_model_of_a_study_is_not_bold():
    assert bold(table_of([model("rope", 2.0)])) == {"rope": [False, False]}


def test_models_without_a_value_do_not_make_the_others_bold():
    config = {"eval": {"lengths": [64, 128]}}
    values = [{64: 2.0, 128: 3.0}, {64: 3.0, 128: 4.0}, *({64: 4.0 + i} for i in range(4))]
    made = [scored(f"e{i}", [one], config=config) for i, one in enumerate(values)]
    assert not any(any(marks) for marks in bold(table_of(made)).values())


def test_in_an_overview_a_model_is_not_held_against_its_swaps():
    def study(length):
        swaps = [rows([{64: 3.0, 128: 5.0}] * 3, way=Way(swap=name)) for name in ("pi", "ntk")]
        return scored("rope", [{64: 2.0, 128: 2.0}] * 3, length=length, more=sum(swaps, ()))

    results = [study(64), study(128)]
    assert [marks[1] for marks in bold(tables_of(results)[0]).values()] == [True, False, False]
    (row,) = sheets.overview(Study.of(results), tables(Study.of(results))).rows
    assert not any(cell.bold for cell in row)


ANSWERS = dict(metric="passkey", kind="sample")


def test_answers_to_the_same_questions_are_told_apart_by_mcnemars_test_alone():
    """All wrong against all right on four questions: p is 0.125, and no difference varies."""
    way = Way(swap="yarn")
    wrong = [{64: 100.0, 128: 0.0}] * 4
    right = rows([{64: 100.0, 128: 100.0}] * 4, way=way, **ANSWERS)
    table = table_of([scored("rope", wrong, more=right, **ANSWERS)], "passkey")
    found = [[cell.best for cell in row.cells] for row in table.rows if row.candidate]
    assert found == [[False, False]] * 2


def test_a_value_that_is_not_finite_ends_the_effective_length():
    """And none is known of a model that has none at its training length."""
    breaks = scored("rope", [{64: 2.0, 128: 2.0, 256: math.inf}] * 2)
    broken = scored("nope", [{64: math.inf, 128: math.inf, 256: math.inf}] * 2)
    rows = {row.label: row for row in table_of([breaks, broken]).rows}
    assert (rows["rope"].effective, rows["rope"].censored) == (128, False)
    assert (rows["nope"].effective, rows["nope"].censored) == (None, False)


def test_a_divergence_from_the_model_itself_has_no_effective_length():
    """It is 0 at the training length, and any other value is more than 1 % worse."""
    near = scored("rope", [{64: 0.0, 128: 1e-9}] * 2, metric="kl")
    assert table_of([near], "kl").rows[0].effective is None


def test_a_column_with_one_value_has_no_bold():
    table = table_of([model("rope", 2.0), scored("t5", [{128: 2.5}] * 3)])
    assert not any(row.cells[-1].best for row in table.rows if row.label == "t5")
