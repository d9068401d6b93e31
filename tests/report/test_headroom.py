"""The share of the headroom that a model uses, from its bits and the Bayes-optimal prediction's."""

from dataclasses import replace

import pytest
from drawn import drawn, texts

from pe_jax.record import Baseline, Reason, Replica, Row, Way
from pe_jax.report import figures, headroom, sheets, tables

BAYES = {20: 3.0, 40: 2.8, 80: 2.6, 160: 2.4}


def result(spec, values, *, variant="", bayes=BAYES):
    """A result with bits by seed and length, and Bayes' bits by length."""
    way = Way(variant=variant)
    rows = tuple(
        Row(
            replica=Replica("seed", seed), way=way, metric=headroom.BITS, length=length, value=value
        )
        for seed, by_length in enumerate(values)
        for length, value in by_length.items()
    )
    known = tuple(
        Baseline(name="bayes", metric=headroom.BITS, length=n, value=v, way=way)
        for n, v in bayes.items()
    )
    made = drawn("markov", spec, 1, seeds=tuple(range(len(values))), labels=8)
    return replace(made, rows=rows, baselines=known)


ALIBI = result("alibi", [{40: 2.9, 80: 2.8, 160: 2.7}, {20: 3.1, 40: 3.0, 80: 3.0, 160: 3.1}])


def shares(found):
    return {(r.replica.number, r.length): r.value for r in found.rows if r.metric == "headroom"}


def test_it_is_the_gain_over_the_gain_of_the_best_prediction():
    """Seed 0 gains 0.1 and 0.2 of 0.2 and 0.4; seed 1 nothing, and then loses 0.1."""
    (found,) = headroom.added([ALIBI])
    assert shares(found) == pytest.approx({(0, 80): 50, (0, 160): 50, (1, 80): 0, (1, 160): -25})
    (with_swap,) = headroom.added([result("alibi", [{40: 2.9, 80: 2.8}], variant="symbols=16")])
    assert shares(with_swap) == pytest.approx({(0, 80): 50})


def test_where_the_best_prediction_gains_nothing_there_is_no_share():
    flat = result("alibi", [{40: 2.9, 80: 2.8, 160: 2.7}], bayes={40: 2.8, 80: 2.8, 160: 2.6})
    (found,) = headroom.added([flat])
    assert shares(found) == pytest.approx({(0, 160): 100})


def test_a_missing_value_says_why_and_other_tasks_have_none():
    rows = tuple(
        replace(row, value=None, reason=Reason.DIVERGED, at=7) if row.length == 40 else row
        for row in ALIBI.rows
    )
    (found,) = headroom.added([replace(ALIBI, rows=rows)])
    assert set(shares(found).values()) == {None}
    assert {row.why for row in found.rows if row.metric == "headroom"} == {rows[0].why}
    text_like = drawn("even_pairs", "rope", 2)
    assert headroom.added([text_like]) == [text_like]


def test_tables_have_it_and_the_best_prediction_as_a_row():
    other = result("rope", [{40: 3.0, 80: 3.0, 160: 3.0}] * 2)
    bits, share = tables.study(headroom.added([ALIBI, other]))
    assert (bits.metric, share.metric) == (headroom.BITS, "headroom")
    best = bits.rows[-1]
    assert best.label == "no model: Bayes" and best.gain.mean == pytest.approx(-0.4)
    assert best.effective == 160 and best.beyond is None
    (sheet,) = sheets.extrapolation([share])
    assert [row[0] for row in texts(sheet)] == ["alibi", "rope"]
    assert sheet.columns[-3:-1] == ("mean beyond 40", "90 % used up to")
    assert any("90 % used up to: the longest" in note for note in sheet.notes)
    assert share.rows[0].beyond.mean == pytest.approx((50 + 50 + 0 - 25) / 4)


def test_the_figure_has_a_line_for_the_best_prediction():
    (axes,) = figures.curves([ALIBI], headroom.BITS).axes
    drawn_lines = {line.get_label().split("\n")[0]: line.get_ydata() for line in axes.lines}
    assert list(drawn_lines["Bayes"]) == [*BAYES.values()]
