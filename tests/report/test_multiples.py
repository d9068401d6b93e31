"""The figures of several tasks, and the heat maps of depth."""

import math
from dataclasses import replace

import figured
import numpy as np
import pytest
from drawn import depths, drawn

from pe_jax.record import Way
from pe_jax.report import figures, style
from pe_jax.report.overview import overview
from pe_jax.report.study import Study
from pe_jax.report.table import tables

TASKS = ("even_pairs", "odds_first", "bucket_sort", "reverse_string")


def study(encodings=("rope", "alibi", "t5"), tasks=TASKS, **more):
    results = [
        drawn(task, spec, 1 + i % 4, labels=5 if task == "bucket_sort" else 2, **more)
        for task in tasks
        for i, spec in enumerate(encodings)
    ]
    return indexed(results)


def indexed(results):
    study = Study.of(results)
    return study, overview(study, tables(study))


def test_each_task_has_a_panel_with_its_chance_and_the_training_length():
    figure = figures.tasks(*study(), 5.5)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    names = ["bucket sort", "even pairs", "odds first", "reverse string"]
    assert [axes.get_title() for axes in shown] == names
    for axes in shown:
        lines = {line.get_label().split("\n")[0]: line for line in axes.lines}
        assert {"rope", "alibi", "t5"} <= lines.keys()
        still = [line for line in axes.lines if len(set(line.get_ydata())) == 1]
        chance = 20 if axes.get_title() == "bucket sort" else 50
        assert [line.get_ydata()[0] for line in still if line.get_linestyle() != "-"] == [chance]
        assert any(list(line.get_xdata()) == [40, 40] for line in axes.lines)
        assert axes.get_ylim() == figures.TASKS_ENDS
        np.testing.assert_allclose(lines["rope"].get_ydata()[:2], 100)


def test_an_encoding_has_one_look_in_all_panels():
    figure = figures.tasks(*study(), 5.5)
    for spec in ("rope", "alibi", "t5"):
        drawings = {
            (line.get_color(), str(line.get_linestyle()))
            for axes in figure.axes
            for line in axes.lines
            if line.get_label().split("\n")[0] == spec
        }
        assert len(drawings) == 1


def test_a_model_that_has_one_length_is_a_marker():
    one, *rest = study(tasks=TASKS[:2])[0].runs.values()
    results = [replace(one, rows=tuple(row for row in one.rows if row.length == 40)), *rest]
    figure = figures.tasks(*indexed(results), 5.5)
    marks = {len(line.get_xdata()): line.get_marker() for a in figure.axes for line in a.lines[:3]}
    assert marks.pop(1) not in ("", "None") and set(marks.values()) == {""}


def overlap(a, b):
    return a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1


@pytest.mark.parametrize("count", [2, 8, 20])
def test_the_legend_covers_nothing_and_stays_within_the_figure(count):
    names = [f"randomized(max=2048)+encoding_{i}" for i in range(count)]
    figure = figures.tasks(*study(names), 5.5)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert not any(overlap(box, axes.get_tightbbox()) for axes in figure.axes if axes.get_visible())
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    texts = [text.get_text() for text in legend.get_texts()]
    assert ("4 others" in texts) == (count == 20) and len(texts) == min(count + 1, 18)


def test_a_heat_map_has_a_column_for_each_length_and_hatches_what_is_missing(tmp_path):
    def value(seed, length, at):
        return None if (length, at) == (80, 0.5) else min(100.0, 4000 / length * at + seed)

    curves = depths(value)
    results = [
        drawn("passkey", "rope", 2, curves=curves),
        drawn("passkey", "alibi", 2, curves=tuple(c for c in curves if c.length < 320)),
        drawn("passkey", "t5", 2),
    ]
    figure = figured.heat(results, 5.5)
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


def test_lengths_are_named_below_the_lowest_panel_of_each_column():
    curves = depths(lambda *_: 50.0)
    results = [drawn("passkey", f"e{i}", 2, curves=curves) for i in range(6)]
    panels = [axes for axes in figured.heat(results, 5.5).axes if axes.get_title()]
    named = [axes.xaxis.get_tick_params()["labelbottom"] for axes in panels]
    assert named == [False, False, True, True, True, True]


def test_curves_of_samples_are_no_positions_of_text():
    results = [
        drawn("passkey", spec, 2, curves=depths(lambda *_: 50.0)) for spec in ("rope", "alibi")
    ]
    assert figured.positions(results) is None and figured.against(results) is None
    assert figured.heat([replace(one, curves=()) for one in results], 5.5) is None
    empty = [replace(one, curves=depths(lambda *_: None)) for one in results]
    assert figured.heat(empty, 5.5) is None
    swapped = [
        replace(one, curves=tuple(replace(c, way=Way(swap="window")) for c in one.curves))
        for one in results
    ]
    assert figured.heat(swapped, 5.5) is None
    assert math.isfinite(figured.heat(results, 5.5).get_figheight())
