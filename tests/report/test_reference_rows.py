"""Rates at the edge of their grid, models that do not look far, and the worth of context."""

from dataclasses import replace

import numpy as np
import pytest
from scored import rows, scored
from studies import tables_of

from pe_jax.report.differences import versus
from pe_jax.report.page import Report
from pe_jax.report.selection import Selection
from pe_jax.runs.run import Run

LENGTHS = (64, 128, 256)
AT = {"rope": (2.0, 2.5, 3.0), "t5": (2.1, 2.05, 2.0), "alibi": (2.1, 2.08, 2.06)}


def values_of(means, seeds=2):
    """Values by seed, each 0.01 more than the one before it."""
    by_length = zip(LENGTHS, means, strict=True)
    means = dict(by_length)
    return [{n: mean + seed / 100 for n, mean in means.items()} for seed in range(seeds)]


def oracle(label, length, means, *, batch=4, **scoring):
    config = {"run": {"oracle_of": 64}, "train": {"batch": batch, "length": length, "steps": 350}}
    config["eval"] = {"lengths": list(LENGTHS), "last": 32, "split": "test"} | scoring
    return scored(label, values_of(means), length=length, config=config)


PLAIN = [scored(label, values_of(means)) for label, means in AT.items()]
ORACLES = [oracle("t5", 128, (9, 1.9, 9)), oracle("t5", 256, (9, 9, 1.7))]


def means(table):
    return {row.label: [round(cell.mean, 6) for cell in row.cells] for row in table.rows}


def test_reference_rows_are_the_value_at_l_and_the_values_of_who_was_trained_at_e():
    (table,) = tables_of([*PLAIN, *ORACLES], "same_targets")
    assert table.heading == ""  # what sets the oracles apart is not said of the others
    assert [row.label for row in table.rows] == [
        *("t5", "alibi", "rope"),
        *("t5, cropped to 64", "t5, trained at E"),
    ]
    found = means(table)
    assert found["t5, cropped to 64"] == [2.105] * 3
    assert found["t5, trained at E"] == [2.105, 1.905, 1.705]
    cropped, trained = table.rows[3:]
    assert [row.block for row in (cropped, trained)] == ["reference"] * 2
    assert cropped.change.mean == 0 and abs(trained.change.mean + 0.4) < 1e-12 > trained.change.half
    for row in (cropped, trained):
        assert not row.trained and not any(cell.best for cell in row.cells)
    (found,) = versus([table], "rope")
    assert [row.label for row, _ in found.rows] == ["t5", "alibi"]


def test_an_oracle_may_have_metrics_that_no_model_has():
    more = rows([{256: 1.0}], metric="nonoverlapping")
    with_more = replace(ORACLES[1], rows=(*ORACLES[1].rows, *more))
    metrics = [table.metric.name for table in tables_of([*PLAIN, with_more])]
    assert metrics == [table.metric.name for table in tables_of([*PLAIN, ORACLES[1]])]


def curves_of(results):
    """The figure of scores against length, and its lines by their labels."""
    _, curves = Report.of(results).figures[0]
    axes = curves.figure.axes[0]
    lines = {str(line.get_label()).split("\n")[0]: line for line in axes.lines}
    return curves, {name: line for name, line in lines.items() if not name.startswith("_")}


def test_where_a_longer_context_is_worth_something_the_figure_shows_gains_over_cropping():
    """Gains are those of the table, oracle included; rope, which fails, flattens no other."""
    results = [*PLAIN, *ORACLES]
    curves, lines = curves_of(results)
    rows = [row for row in tables_of(results)[0].rows if row.method != "cropped"]
    assert {*lines} == {row.label for row in rows} and "t5, trained at E" in lines
    for row in rows:
        gains = [cell.mean - row.cells[0].mean for cell in row.cells]
        np.testing.assert_allclose(lines[row.label].get_ydata(), gains, atol=1e-12)
    low, high = curves.figure.axes[0].get_ylim()
    assert -0.15 < low < -0.1 and 0.1 < high < 0.15
    assert "minus those cropped to 64" in curves.figure.axes[0].get_ylabel()
    assert "Grey diamonds: trained at the length" in curves.caption
    assert lines["t5"].get_label().endswith("256 tokens: −0.100 ± 0.000")


def test_an_axis_of_gains_is_no_longer_than_they_are():
    still = [scored(label, values_of((2.1, 2.09, 2.08))) for label in ("t5", "alibi")]
    curves, _ = curves_of([*still, oracle("t5", 256, (9, 9, 2.07))])
    low, high = curves.figure.axes[0].get_ylim()
    assert -0.04 < low < -0.03 and 0 < high < 0.01


def test_where_no_oracle_gains_the_figure_shows_scores_and_who_was_trained_at_e():
    curves, lines = curves_of([*PLAIN, oracle("t5", 128, (9, 2.2, 9))])
    np.testing.assert_allclose(lines["t5, trained at E"].get_xydata(), [(64, 2.105), (128, 2.205)])
    assert lines["rope"].get_ydata()[-1] == 3.005 and "crop" not in curves.caption
    assert "Grey diamonds: trained at the length" in curves.caption
    assert "diamonds" not in curves_of(PLAIN)[0].caption


def test_an_oracle_without_its_model_leaves_scores_as_they_are():
    curves, lines = curves_of([*PLAIN[::2], *ORACLES])
    assert lines["rope"].get_ydata()[0] == 2.005
    np.testing.assert_allclose(lines["t5, trained at E"].get_xydata(), [(128, 1.905), (256, 1.705)])


def test_without_such_runs_the_best_model_at_the_training_length_is_cropped():
    (table,) = tables_of(PLAIN)
    assert [row.label for row in table.rows if row.method] == ["rope, cropped to 64"]


def test_an_oracle_that_no_column_is_of_has_no_row():
    between = oracle("t5", 192, (9, 1.9, 1.8))
    labels = [row.label for row in tables_of([*PLAIN, between])[0].rows]
    assert "t5, cropped to 64" in labels and "t5, trained at E" not in labels


def test_an_oracle_of_another_protocol_is_a_group_of_its_own():
    other = oracle("t5", 256, (9, 9, 1.7), last=128)
    table, own = tables_of([*PLAIN, ORACLES[0], other], "same_targets")
    (row,) = (row for row in table.rows if row.method == "trained at E")
    assert [cell.n for cell in row.cells] == [2, 2, 0]
    assert [row.run for row in own.rows if row.trained] == [other.id]


def test_the_choice_of_rows_keeps_the_oracles():
    results = [*PLAIN, *ORACLES]
    kept = Selection.of(["t5"]).study(results).runs
    assert {*kept} == {PLAIN[1].id, *(one.id for one in ORACLES)}
    study = Selection.of(["rope as RoPE"]).study(results)
    assert {*study.runs} == {PLAIN[0].id, *(one.id for one in ORACLES)}
    assert study.evaluated[PLAIN[0].id, "headroom"].lengths == (128, 256)
    study = Selection.of(["t5 as T5"]).study(results)
    assert {run.label for run in study.runs.values()} == {"T5"}  # its oracles, too


@pytest.mark.parametrize("section", [{"length": 64}, {"length": 32}])
def test_an_oracle_is_trained_at_a_longer_length(section):
    config = {"pe": "rope", "train": section, "run": {"oracle_of": 64}}
    with pytest.raises(ValueError, match="run.oracle_of must be below train.length"):
        Run.of(config)


def test_it_is_no_part_of_the_id_of_a_run():
    config = {"pe": "rope", "train": {"length": 128}, "eval": {"last": 32}}
    assert Run.of(config).id == Run.of(config | {"run": {"oracle_of": 64}}).id


def test_the_share_of_the_headroom_is_the_gain_over_the_oracles_gain():
    """t5 trained at 128 and 256 gains 0.2 and 0.4; alibi gains 0.02 and 0.04 of that."""
    text, share = tables_of([*PLAIN, *ORACLES])
    assert (text.metric.name, share.metric.name) == ("same_targets", "headroom")
    wanted = {
        label: [100 * (at[0] - at[i]) / worth for i, worth in ((1, 0.2), (2, 0.4))]
        for label, at in AT.items()
    }
    found = {row.label: [cell.mean for cell in row.cells] for row in share.rows}
    assert found == {label: pytest.approx(shares) for label, shares in wanted.items()}


def test_an_oracle_that_gains_hardly_anything_gives_no_share():
    little = [oracle("t5", 128, (9, 2.06, 9)), oracle("t5", 256, (9, 9, 2.06))]
    assert len(tables_of([*PLAIN, *little])) == 1


def test_an_oracle_belongs_to_the_model_of_its_label_that_has_its_settings():
    """Two models of one label, at two rates: the share of the headroom is of the oracle's own."""

    def at(rate, run):
        return replace(
            run,
            id=f"{run.id}-{rate}",
            config=run.config | {"train": run.config["train"] | {"rate": rate}},
        )

    near, far = ([{64: start, 128: 2.5, 256: 3.0}] * 2 for start in (2.0, 2.1))
    models = [at(1e-3, scored("t5", near)), at(3e-3, scored("t5", far))]
    best = at(1e-3, oracle("t5", 128, (9, 1.8, 9)))
    table, share = tables_of([*models, best])
    (row,) = (row for row in table.rows if row.label.endswith("trained at E"))
    assert "rate 0.001" in row.label and row.cells[0].mean == 2.0
    shares = {row.rate: row.cells[0].mean for row in share.rows}
    gain = 2.0 - 1.805
    assert shares[1e-3] == pytest.approx(-100 * 0.5 / gain)
    assert shares[3e-3] == pytest.approx(-100 * 0.4 / gain)
