"""What figures draw: looks of encodings, marks where the axes cut, differences, training, rates."""

from dataclasses import replace
from itertools import pairwise

import figured as figures
import numpy as np
import pytest
from drawn import pretrained

from pe_jax.encodings import ENCODINGS
from pe_jax.record import CorpusRecord, Curve, Progress, Replica, Result, Row, Training, Tried, Way
from pe_jax.report import style
from pe_jax.report.style import COMMON, looks

SEVEN = ("alibi", "learned", "nope", "rope", "sinusoidal", "t5", "transformer_xl")


def made(label, end=2.5, seeds=(0, 1, 2), spread=0.01, curve=(3.0, 2.5, 2.0), **fields):
    """A result whose score is `end` + spread * seed at every length; its curves have `curve`."""
    rows = [
        Row(replica=Replica("seed", s), metric=metric, length=length, value=end + spread * s)
        for s in seeds
        for metric in ("same_targets", "nonoverlapping")
        for length in (64, 128)
    ]
    curves = [
        Curve(
            replica=Replica("seed", seed),
            metric="nonoverlapping",
            length=128,
            position=(2.0, 4.0, 8.0, 16.0),
            value=(9.0, *(float(v + seed) for v in curve)),
        )
        for seed in seeds
    ]
    result = Result(
        id=f"{label}-1a2b3c4d",
        label=label,
        config={"pe": {"spec": label}},
        seeds=seeds,
        corpus=CorpusRecord(source="s", hash="h"),
        train=Training(length=64, steps=9),
        rows=tuple(rows),
        curves=tuple(curves),
    )
    return replace(result, **fields)


def lines_of(figure):
    """What `style.hits` tells of a figure, by name."""
    figure.draw_without_rendering()
    return dict(style.hits(figure))


def drawn(figure):
    """The (x, y) of each line of the figure by its name."""
    lines = [line for axes in figure.axes for line in axes.lines]
    named = {str(n.get_label()).split("\n")[0]: n.get_xydata() for n in lines}
    return {name: points for name, points in named.items() if not name.startswith("_")}


def test_the_common_encodings_have_colours_of_their_own_and_solid_lines():
    found = looks([made(label) for label in SEVEN])
    assert {look.dash for look in found.values()} == {"-"}
    assert sorted(look.colour for look in found.values()) == sorted(style.COLOURS)


def test_no_two_look_alike_and_a_common_encoding_has_its_colour_in_every_study():
    every = [made(spec) for spec in [*ENCODINGS, "rope+alibi", "learned(clip=True)", "rope[::2]"]]
    together = looks(every)
    assert len(set(together.values())) == len(every)
    colour = {result.label: together[result.id].colour for result in every}
    assert COMMON.items() <= colour.items()
    assert (
        colour["learned(clip=True)"] == colour["learned"] and colour["rope[::2]"] == COMMON["rope"]
    )
    assert together == looks(every[::-1])


def test_looks_are_the_same_in_every_process():
    colours = [
        look.colour for look in looks([made(s) for s in ("fire", "cope", "my_own")]).values()
    ]
    assert colours == ["#44aa99", "#a6761d", "#e41a1c"]


def test_a_line_looks_alike_in_all_figures():
    results = [
        with_training(made(label, end), end) for label, end in (("fire", 2.5), ("cope", 3.0))
    ]
    every = (figures.curves, figures.positions, figures.training)
    found = [figure(results) for figure in every] + [figures.rates(results)]
    for result in results:
        named = [
            line
            for figure in found
            for line in figure.axes[0].lines
            if str(line.get_label()).startswith(f"{result.label}\n")
        ]
        assert len(named) == 4
        assert len({(n.get_color(), str(n._unscaled_dash_pattern)) for n in named}) == 1


def test_a_single_model_has_a_line_for_each_swap():
    one = made("rope", 3.0)
    swapped = [
        replace(row, way=Way(swap=swap), value=2.0) for row in one.rows for swap in ("pi", "window")
    ]
    found = drawn(figures.curves([replace(one, rows=(*one.rows, *swapped))]))
    assert set(found) == {"rope", "pi", "window 64"}
    assert found["pi"][:, 1] == pytest.approx(2.0) and found["rope"][:, 1] == pytest.approx(3.01)


def test_scores_of_places_are_differences_to_the_model_at_its_training_length():
    one = made("rope")
    first = one.train.length
    rows = [row for row in one.rows if row.metric == "same_targets"]
    harder = [replace(row, value=row.value + 5.0 * row.replica.number) for row in rows]
    longer = [
        replace(r, way=Way(swap="pi"), value=r.value + 0.5 * (r.length > first)) for r in harder
    ]
    told = pretrained(replace(one, rows=(*harder, *longer)))
    figure = figures.curves([told])
    gained = drawn(figure)["pi"][:, 1] - drawn(figure)["rope"][:, 1]
    assert drawn(figure)["rope"][0, 1] == gained[0] == 0 and gained[1:] == pytest.approx(0.5)
    assert f"minus those at {first}" in figure.axes[0].get_ylabel()
    assert lines_of(figure)["pi"][0][2].endswith("± 0.000")  # the places shift all of their values


def test_places_without_a_score_at_the_training_length_have_no_curves():
    one = made("rope")
    rows = tuple(row for row in one.rows if row.length != one.train.length)
    far = [pretrained(replace(one, rows=rows, id=f"{i}")) for i in "ab"]
    assert figures.curves(far) is None


def test_of_perplexities_the_logarithms_are_subtracted():
    one = made("rope", 20.0)
    rows = [replace(row, metric="longppl") for row in one.rows if row.metric == "same_targets"]
    rows = [replace(row, value=row.value * (1 + (row.length == 128))) for row in rows]
    drawn_line = drawn(figures.curves([pretrained(replace(one, rows=tuple(rows)))], "longppl"))
    assert drawn_line["rope"][:, 1] == pytest.approx([0, np.log(2)])


def test_positions_are_differences_to_the_baseline_paired_over_seeds():
    results = [made("rope", curve=(3.5, 2.0, 1.0)), made("nope"), made("t5", curve=(3, 3, 3))]
    figure = figures.positions(results, baseline="nope")
    np.testing.assert_allclose(drawn(figure)["nope"][:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(drawn(figure)["rope"], [[4, 0.5], [8, -0.5], [16, -1]])
    bands = [band.get_datalim(figure.axes[0].transData) for band in figure.axes[0].collections]
    assert bands  # the seeds shift both alike: the intervals of the differences are points
    assert lines_of(figure)["rope"][0][2] == "4 tokens: +0.500 ± 0.000"
    assert "minus those of nope" in figure.axes[0].get_ylabel()


def test_the_baseline_is_the_one_that_is_named_else_the_best_at_the_end_of_a_window():
    results = [made("rope", curve=(2, 2, 5)), made("alibi", curve=(3, 3, 3)), made("nope")]
    for several, named, base in (
        (results, "rope", "rope"),
        (results[:2], None, "alibi"),
        (results[:2], "other", "alibi"),
    ):
        assert f"those of {base}\n" in figures.positions(several, named).axes[0].get_ylabel()
    assert figures.positions([replace(result, curves=()) for result in results]) is None


def with_training(result, end, broken=()):
    steps = (10, 20, 30)
    progress = []
    for seed in result.seeds:
        valid = [5.0 + seed, 3.0, end]
        valid = [valid[0], None, None] if seed in broken else valid
        progress.append(Progress(seed=seed, step=steps, loss=(1.0,) * 3, valid=tuple(valid)))
    rates = [
        Tried(rate=r, valid={s: end + abs(r - 3e-3) for s in result.seeds}) for r in (1e-3, 3e-3)
    ]
    rates.append(Tried(rate=0.1, valid={s: None if s == 0 else end - 1 for s in result.seeds}))
    return replace(
        result, train=replace(result.train, progress=tuple(progress)), rates=tuple(rates)
    )


def test_training_draws_means_over_the_seeds_that_have_a_value():
    results = [with_training(made("rope"), 2.5), with_training(made("t5"), 2.6, broken=(1,))]
    figure = figures.training(results)
    np.testing.assert_allclose(drawn(figure)["rope"], [[10, 6], [20, 3], [30, 2.5]])
    np.testing.assert_allclose(drawn(figure)["t5"], [[10, 6], [20, 3], [30, 2.6]])
    assert figure.axes[0].get_xlabel() == "training step"
    assert figure.axes[0].get_ylabel().startswith("validation bits per byte")
    assert figures.training([made("rope")]) is None
    end = Progress(seed=0, step=(9,), loss=(1.0,), valid=(3.0,))
    once = replace(results[0].train, progress=(end,))
    assert figures.training([replace(results[0], train=once)]) is None  # a point is no line


def test_a_run_that_diverges_flattens_no_other():
    calm, wild = with_training(made("rope"), 2.5), with_training(made("t5"), 900.0)
    assert figures.training([calm, wild]).axes[0].get_ylim()[1] < 10


def test_rates_are_drawn_where_all_seeds_have_a_value():
    results = [with_training(made("rope"), 2.5), with_training(made("t5"), 2.6)]
    figure = figures.rates(results)
    np.testing.assert_allclose(drawn(figure)["rope"], [[1e-3, 2.502], [3e-3, 2.5]])
    assert figure.axes[0].get_xscale() == "log"


def test_the_points_that_a_page_tells_of_lie_on_the_figure():
    for chosen in (figures.curves, figures.positions, figures.training):
        figure = chosen([with_training(made(label), 2.5) for label in ("rope", "nope")])
        svg = style.svg(figure)
        height, width = (72 * size for size in (figure.get_figheight(), figure.get_figwidth()))
        told = dict(style.hits(figure))
        assert set(told) == {"rope", "nope"} and f'viewBox="0 0 {width:g}' in svg
        assert all(0 < x < width and 0 < y < height for own in told.values() for x, y, _ in own)
        assert all(" ± " in text for own in told.values() for _, _, text in own)


def test_intervals_at_few_lengths_are_bars_that_stand_beside_each_other():
    results = [made(label) for label in ("rope", "nope")]
    bars = figures.curves(results).axes[0].collections
    half = 4.30265 * 0.01 / 3**0.5  # t(0.975, 2) s / sqrt(n)
    for one in bars:
        ends = np.array([segment[:, 1] for segment in one.get_segments()])
        np.testing.assert_allclose(ends, [[2.51 - half, 2.51 + half]] * 2, rtol=1e-5)
    places = [x for _, points in lines_of(figures.curves(results)).items() for x, *_ in points]
    assert len(set(places)) == 4  # two lines at two lengths


def test_intervals_at_many_steps_are_bands():
    steps = tuple(range(10, 300, 10))
    progress = [
        Progress(seed=s, step=steps, loss=(1.0,) * 29, valid=(3.0 + s,) * 29) for s in range(3)
    ]
    run = replace(made("rope"), train=Training(length=64, steps=300, progress=tuple(progress)))
    (band,) = figures.training([run]).axes[0].collections
    assert band.get_paths()[0].vertices.shape == (2 * 29 + 3, 2)


def test_an_axis_of_nothing_but_zeros_has_no_number_below_zero():
    (axes,) = figures.curves([made("rope", end=0.0, spread=0.0)]).axes
    assert min(tick for tick in axes.get_yticks() if tick >= axes.get_ylim()[0]) == 0


def test_labels_of_lengths_do_not_touch_and_the_longest_is_kept():
    lengths = [2**power for power in range(6, 16)]
    long = "randomized(max=4096)+sinusoidal"
    rows = tuple(replace(row, length=n) for row in made(long).rows[::2] for n in lengths)
    figure = figures.curves([made(long, rows=rows)])
    labels = [label for label in figure.axes[0].get_xticklabels() if label.get_visible()]
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert labels[-1].get_text() == f"{lengths[-1]}"


def test_a_field_that_is_a_tuple_changes_no_colour():
    for spec in ("t5", "t5(per_layer=('*',))", "t5(per_layer=('*',),buckets=16)[::2]"):
        one = made(spec)
        assert looks([one])[one.id].colour == COMMON["t5"]
