"""The share of the headroom that a model uses, from its bits and the Bayes-optimal prediction's."""

from dataclasses import replace

import pytest
from drawn import drawn, texts
from studies import sheet_of, tables_of

from pe_jax.record import Baseline, Reason, Replica, Row, Way
from pe_jax.report.page import Report
from pe_jax.report.study import BITS, Study

BAYES = {20: 3.0, 40: 2.8, 80: 2.6, 160: 2.4}


def result(spec, values, *, variant="", bayes=BAYES):
    """A result with bits by seed and length, and Bayes' bits by length."""
    way = Way(variant=variant)
    rows = tuple(
        Row(replica=Replica("seed", seed), way=way, metric=BITS, length=length, value=value)
        for seed, by_length in enumerate(values)
        for length, value in by_length.items()
    )
    known = tuple(
        Baseline(name="bayes", metric=BITS, length=n, value=v, way=way) for n, v in bayes.items()
    )
    made = drawn("markov", spec, 1, seeds=tuple(range(len(values))), labels=8)
    return replace(made, rows=rows, baselines=known)


ALIBI = result("alibi", [{40: 2.9, 80: 2.8, 160: 2.7}, {20: 3.1, 40: 3.0, 80: 3.0, 160: 3.1}])


def shares(result):
    scores = Study.of([result]).scores
    found = [(key[3], own.values) for key, own in scores.items() if key[2] == "headroom"]
    return {(replica.number, n): v for n, values in found for replica, v in values.items()}


def test_it_is_the_gain_over_the_gain_of_the_best_prediction():
    """Seed 0 gains 0.1 and 0.2 of 0.2 and 0.4; seed 1 nothing, and then loses 0.1."""
    assert shares(ALIBI) == pytest.approx({(0, 80): 50, (0, 160): 50, (1, 80): 0, (1, 160): -25})
    with_swap = result("alibi", [{40: 2.9, 80: 2.8}], variant="symbols=16")
    assert shares(with_swap) == pytest.approx({(0, 80): 50})


def test_where_the_best_prediction_gains_nothing_there_is_no_share():
    flat = result("alibi", [{40: 2.9, 80: 2.8, 160: 2.7}], bayes={40: 2.8, 80: 2.8, 160: 2.6})
    assert shares(flat) == pytest.approx({(0, 160): 100})


def test_a_missing_value_says_why_and_other_tasks_have_none():
    rows = tuple(
        replace(row, value=None, reason=Reason.DIVERGED, at=7) if row.length == 40 else row
        for row in ALIBI.rows
    )
    scores = Study.of([replace(ALIBI, rows=rows)]).scores
    found = [own for key, own in scores.items() if key[2] == "headroom"]
    assert {m.sentence for own in found for m in own.missing.values()} == {rows[0].why}
    assert not any(own.values for own in found) and not shares(drawn("even_pairs", "rope", 2))


def test_tables_have_it_and_the_best_prediction_as_a_row():
    other = result("rope", [{40: 3.0, 80: 3.0, 160: 3.0}] * 2)
    bits, share = tables_of([ALIBI, other])
    assert (bits.metric.name, share.metric.name) == (BITS, "headroom")
    best = bits.rows[-1]
    assert best.label == "no model: Bayes" and best.change.mean == pytest.approx(-0.4)
    assert best.effective == 160 and best.beyond is None
    sheet = sheet_of([ALIBI, other], "headroom")
    assert [row[0] for row in texts(sheet)] == ["alibi", "rope"]
    assert sheet.columns[-2:] == ("mean beyond 40", "90 % used up to")
    assert any(note.question == "90 % used up to" for note in sheet.notes)
    assert share.rows[0].beyond.mean == pytest.approx((50 + 50 + 0 - 25) / 4)


def test_models_far_from_the_best_prediction_at_the_training_length_are_not_compared():
    near, far = ([{40: 2.8 + more, 80: 2.7, 160: 2.6}] * 2 for more in (0.009, 0.011))
    results = [result("rope", far), result("alibi", near)]
    above = [[replace(row, metric="above_bayes") for row in r.rows] for r in results]
    results = [replace(r, rows=(*r.rows, *more)) for r, more in zip(results, above, strict=True)]
    for table in tables_of(results):
        found = [(row.label, row.compared) for row in table.rows if row.trained]
        assert found == [("alibi", True), ("rope", False)]
    for name in ("headroom", "above_bayes"):
        sheet = sheet_of(results, name)
        (caution,) = [note for note in sheet.notes if "0.01" in note]
        assert "rope" in caution and "alibi" not in caution
        assert "effective length" not in sheet.columns  # of what is near 0


def test_the_figure_has_a_line_for_the_best_prediction():
    (axes,) = Report.of([ALIBI]).figures[0][1].figure.axes
    drawn_lines = {line.get_label().split("\n")[0]: line.get_ydata() for line in axes.lines}
    assert list(drawn_lines["no model: Bayes"]) == [*BAYES.values()]
