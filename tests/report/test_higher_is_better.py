"""A metric of which more is better, from results to tables, figures and comparisons.

`PROBABILITY` is all that such a metric costs: an entry of METRICS.
"""

import csv
import dataclasses
import io

import figured as figures
import numpy as np
import pytest
from studies import html_of, make_record, sheet_of, table_of, write

from pe_jax.metrics import METRICS
from pe_jax.record import Result
from pe_jax.report import differences, frame, sheet, sheets
from pe_jax.report.study import Study

PROBABILITY = dataclasses.replace(
    METRICS["same_targets"],
    name="probability",
    sentence="The mean probability of the target tokens, which are the same at every length.",
    value=lambda nats, sizes: float(np.exp(-np.asarray(nats, np.float64)).mean()),
    unit="probability",
    better="higher",
)

UP = (0.50, 0.52, 0.54, 0.56, 0.60)  # at 64, 128, 256, 512 and 1024 tokens
LEVEL = (0.55, 0.548, 0.547, 0.546, 0.545)
DOWN = (0.60, 0.40, 0.30, 0.20, 0.10)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(METRICS, "probability", PROBABILITY)


def scored(label, values, **options) -> Result:
    """A result with one metric, value + 0.001 * seed."""
    result = make_record(label, values, window=False, **options)
    rows = tuple(
        dataclasses.replace(
            row,
            metric="probability",
            value=None if row.value is None else row.value - 0.009 * row.replica.number,
        )
        for row in result.rows
        if row.metric == "same_targets"
    )
    return dataclasses.replace(result, rows=rows, targets={"probability": 16384})


@pytest.fixture
def results():
    learned = scored("learned", UP, limit=64)
    return [scored("alibi", UP), scored("nope", LEVEL), scored("rope", DOWN), learned]


@pytest.fixture
def table(results):
    return table_of(results, "probability")


def test_the_order_and_the_bold_cells_have_the_highest_first(table):
    assert [row.label for row in table.rows] == ["alibi", "nope", "rope", "learned"]
    best = {(row.label, i) for row in table.rows for i, c in enumerate(row.cells) if c.best}
    assert best == {("rope", 0), ("nope", 1), ("nope", 2), ("alibi", 3), ("alibi", 4)}


def test_gain_and_effective_length_have_the_worse_side_below(table):
    gains = {row.label: row.change.mean for row in table.rows}
    assert gains["alibi"] == pytest.approx(0.1) and gains["rope"] == pytest.approx(-0.5)
    lengths = {row.label: (row.effective, row.censored) for row in table.rows}
    held = dict.fromkeys(("alibi", "nope"), (1024, True))
    assert lengths == held | dict.fromkeys(("rope", "learned"), (64, False))


def test_the_sentences_say_which_way_is_better(results, table):
    assert table.title == "Probability, probability (higher is better)"
    printed = sheet_of(results, "probability")
    assert printed.notes[0].startswith(PROBABILITY.sentence)
    text = sheet.markdown([printed])
    assert "**0.60 ± 0.00**" in text and "### Probability" in text
    first, *_ = csv.DictReader(io.StringIO(sheet.csv([printed])))
    assert (first["encoding"], first["effective_length"]) == ("alibi", "1024")


def test_the_figures_name_the_unit_and_have_the_highest_row_on_top(tmp_path, results):
    write(results, tmp_path / "study")
    for axes in (
        figures.curves(results, "probability").axes[0],
        frame.curves(tmp_path / "study", "probability").axes[0],
    ):
        assert axes.get_ylabel() == "probability, probability\n(higher is better)"
        np.testing.assert_allclose(axes.lines[0].get_ydata(), np.add(UP, 0.001))
    crowd = [scored(f"e{i:02d}", [0.3 + 0.01 * i] * 5) for i in range(20)]
    (legend,) = figures.curves(crowd, "probability").legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [f"e{i:02d}" for i in range(19, -1, -1)]


def of_probability(result: Result) -> Result:
    """The result with curves of the metric, flat at its first value at 1024 tokens."""
    end = next(row.value for row in result.rows if row.length == 1024)
    curves = [
        dataclasses.replace(c, metric="probability", value=(None, *(end for _ in c.value[1:])))
        for c in result.curves
    ]
    return dataclasses.replace(result, curves=tuple(curves))


def test_the_figure_of_positions_is_of_the_metric_of_its_curves(results):
    results = [of_probability(result) for result in results]
    (axes,) = figures.positions(results).axes
    assert axes.get_ylabel() == "probability, minus those of alibi\n(higher is better)"
    html = html_of(results)
    assert "Probability against the position in the longest window" in html


def test_of_curves_of_two_metrics_the_one_with_scores_is_drawn(results):
    assert {curve.metric for curve in results[0].curves} == {"nonoverlapping"}
    figure = figures.positions([*map(of_probability, results[:2]), *results[2:]])
    assert figure.axes[0].get_ylabel().startswith("probability, minus those of alibi")
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"alibi", "nope"}


def test_a_comparison_calls_the_higher_side_better():
    a = [scored("rope", LEVEL)]
    higher = [scored("rope", [value + 0.1 for value in LEVEL])]
    comparison = differences.compare(Study.of(a), Study.of(higher))
    assert {match.better for match in comparison.matches} == {"B"}
    (first, *_) = sheets.comparison(comparison, "a", "b")
    assert first.notes[0] == "Probability: 5 better in B."
    assert "Probability, probability (higher" in first.title
