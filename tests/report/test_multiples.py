"""The figures of several tasks, and the heat maps of depth."""

import math
from dataclasses import replace

import figured
import numpy as np
from drawn import depths, drawn, guessed

from pe_jax.record import Way
from pe_jax.report import figures, sheets, style
from pe_jax.report.study import Study
from pe_jax.report.table import SHOWN, headlines, tables

TASKS = ("even_pairs", "odds_first", "bucket_sort", "reverse_string")


def results_of(encodings=("rope", "alibi", "t5"), tasks=TASKS, **more):
    results = [
        drawn(task, spec, 1 + i % 4, labels=5 if task == "bucket_sort" else 2, **more)
        for task in tasks
        for i, spec in enumerate(encodings)
    ]
    return results


def drawn_tasks(results):
    index = Study.of(results)
    every = tables(index)
    shown = [row[0].text for row in sheets.overview(index, every).rows]
    return figures.tasks(index, headlines(every), shown).figure


def test_each_task_has_a_panel_with_the_training_length():
    shown = drawn_tasks(results_of()).axes
    names = ["bucket sort", "even pairs", "odds first", "reverse string"]
    assert [axes.get_title() for axes in shown] == names
    for axes in shown:
        lines = {line.get_label().split("\n")[0]: line for line in axes.lines}
        assert {"rope", "alibi", "t5"} <= lines.keys()
        assert any(list(line.get_xdata()) == [40, 40] for line in axes.lines)
        np.testing.assert_allclose(lines["rope"].get_ydata()[:2], 100)


def test_the_axis_of_tasks_begins_at_chance_or_at_the_worst_model():
    """Models that guess are right in 51 %, of five answers in 21 %; chance is 50 %."""
    two = ("even_pairs", "odds_first")
    for tasks, least in ((two, 50), (TASKS, 21)):
        (low, high), *others = [
            axes.get_ylim()
            for axes in drawn_tasks(results_of(tasks=tasks, baselines=guessed("even_pairs"))).axes
        ]
        assert least - 4 < low < least and 100 < high < 104
        assert {*others} == {(low, high)}


def test_the_legend_has_the_first_models():
    names = [f"randomized(max=2048)+encoding_{i}" for i in range(20)]
    (legend,) = drawn_tasks(results_of(names)).legends
    assert len(legend.get_texts()) == SHOWN


def test_a_heat_map_has_a_column_for_each_length_and_hatches_what_is_missing(tmp_path):
    def value(seed, length, at):
        return None if (length, at) == (80, 0.5) else min(100.0, 4000 / length * at + seed)

    curves = depths(value)
    results = [
        drawn("passkey", "rope", 2, curves=curves),
        drawn("passkey", "alibi", 2, curves=tuple(c for c in curves if c.length < 320)),
        drawn("passkey", "t5", 2),
    ]
    figure = figured.heat(results)
    style.save(figure, tmp_path / "depth")
    panels = [axes for axes in figure.axes if axes.get_visible() and axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["rope", "alibi"]  # t5 has no curves
    labels = [tick.get_text() for tick in panels[0].get_xticklabels()]
    assert labels == ["20", "40", "80", "160", "320"]
    rope, alibi = ([mesh.get_array() for mesh in axes.collections] for axes in panels)
    assert (len(rope), len(alibi)) == (5, 4)
    wanted = np.mean([[value(s, 160, at) for at in (0.1, 0.3, 0.5, 0.7, 0.9)] for s in range(3)], 0)
    np.testing.assert_allclose(rope[3].ravel(), wanted)
    assert rope[2].mask.ravel().tolist() == [False, False, True, False, False]
    assert any(list(line.get_xdata()) == [1.5, 1.5] for line in panels[0].lines)
    assert figure.axes[-1].get_ylim() == (0, 100)


def test_curves_of_samples_are_no_positions_of_text():
    results = [
        drawn("passkey", spec, 2, curves=depths(lambda *_: 50.0)) for spec in ("rope", "alibi")
    ]
    assert figured.positions(results) is None
    assert figured.heat([replace(one, curves=()) for one in results]) is None
    empty = [replace(one, curves=depths(lambda *_: None)) for one in results]
    assert figured.heat(empty) is None
    swapped = [
        replace(one, curves=tuple(replace(c, way=Way(swap="window")) for c in one.curves))
        for one in results
    ]
    assert figured.heat(swapped) is None
    assert math.isfinite(figured.heat(results).get_figheight())
