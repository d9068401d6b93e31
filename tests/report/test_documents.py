"""Intervals over documents: by hand, by derivatives of the whole, and how often they err."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from drawn import drawn, texts
from scored import scored
from studies import table_of, tables_of

from pe_jax.record import Replica
from pe_jax.report import sheet, sheets, stats
from pe_jax.report.differences import compare, versus
from pe_jax.report.study import Study

SIZES = (100, 300, 200, 150, 150, 200, 100)
LENGTHS = (64, 128)


def run(label, seed, sizes=SIZES, seeds=2, length=64, config=None, lengths=LENGTHS):
    """(a result, its bits per byte [seeds, lengths, documents])."""
    rng = np.random.default_rng(seed)
    bits = 2 + 0.1 * rng.standard_normal((seeds, len(lengths), len(sizes)))
    means = np.average(bits, axis=-1, weights=sizes)
    values = [dict(zip(lengths, own, strict=True)) for own in means.tolist()]
    made = scored(label, values, length=length, config=config)
    rows = tuple(
        replace(r, documents=nats(bits[r.replica.number, lengths.index(r.length)], sizes))
        for r in made.rows
    )
    return replace(made, rows=rows, document_bytes={"same_targets": sizes}), bits


def nats(bits, sizes):
    """The sums of -ln p in documents with these bits per byte."""
    return tuple((bits * np.array(sizes) * math.log(2)).tolist())


def half_by_hand(values, sizes):
    """Loops over the formula: shares of bytes, the effective number, Student's t."""
    total = sum(sizes)
    mean = sum(x * size for x, size in zip(values, sizes, strict=True)) / total
    n = total**2 / sum(size**2 for size in sizes)
    squares = sum((size / total * (x - mean)) ** 2 for x, size in zip(values, sizes, strict=True))
    return scipy.stats.t.ppf(0.975, n - 1) * math.sqrt(n / (n - 1) * squares)


def differences(*results, **options):
    (found,) = versus([table_of(results)], "rope", **options)
    return found, sheets.differences(found)


def test_of_equal_documents_it_is_scipys_t_interval():
    values = np.random.default_rng(0).normal(2.5, 0.1, 7)
    mean, half, count = stats.over_documents(values, (30,) * 7)
    low, high = scipy.stats.t.interval(0.95, 6, np.mean(values), scipy.stats.sem(values))
    assert count == 7
    np.testing.assert_allclose([mean - half, mean + half], [low, high], rtol=1e-12)


def test_a_difference_is_paired_by_document_and_averaged_over_seeds():
    (rope, a), (alibi, b) = run("rope", 1), run("alibi", 2)
    found, printed = differences(rope, alibi)
    ((_, own),) = found.rows
    for i, one in enumerate(own):
        per_document = [(b[:, i, d] - a[:, i, d]).mean() for d in range(len(SIZES))]
        half = half_by_hand(per_document, SIZES)
        assert one.cell.over_documents == pytest.approx((one.change.mean, half, len(SIZES)))
        assert f"(± {half:.3f})" in texts(printed)[0][1 + i]
    assert printed.numbers[0]["documents"] == own[0].cell.over_documents.half
    note = sheet.glossary([printed])["(±)"]
    assert "over documents" in note
    (whole,) = sheets.extrapolation([table_of([rope, alibi])])
    gains = texts(whole)[0][whole.columns.index("change")], whole.numbers[0]["change_documents"]
    assert gains[0].endswith(f"(± {gains[1]:.3f})") and "(" not in texts(whole)[0][1]


def test_one_seed_has_an_interval_over_documents_alone():
    _, printed = differences(run("rope", 1, seeds=1)[0], run("alibi", 2, seeds=1)[0])
    cell = texts(printed)[0][1]
    assert cell.count("±") == 1 and cell.endswith(")")
    latex = sheet.latex(sheets.extrapolation([table_of([run("rope", 1)[0]])]))
    assert "±" not in latex.split(r"\end{table}")[0] and r"($\pm$" in latex


def test_the_share_of_the_headroom_varies_as_the_whole_does_with_a_documents_weight():
    """x_j - share is the derivative of the share by the weight of document j, over its share of
    the bytes: the linearised ratio of two sums, of which both change with the document.
    """
    config = {"run": {"oracle_of": 64}, "train": {"batch": 4, "length": 128, "steps": 350}}
    longer, c = run("t5", 4, length=128, config=config, lengths=(128,))
    (alibi, a), (t5, b) = run("alibi", 1), run("t5", 3)
    rows = tuple(
        replace(r, value=r.value - 0.5, documents=nats(c[r.replica.number, 0] - 0.5, SIZES))
        for r in longer.rows
    )
    c = c - 0.5
    longer = replace(longer, rows=rows, config=longer.config | {"eval": t5.config["eval"]})
    _, share = tables_of([alibi, t5, longer])
    cell = next(row for row in share.rows if row.label == "alibi").cells[0]

    def whole(weights):
        gain, most = (
            np.sum(weights * (start.mean(0) - end.mean(0)))
            for start, end in ((a[:, 0], a[:, 1]), (b[:, 0], c[:, 0]))
        )
        return 100 * gain / most

    weights = np.array(SIZES) / sum(SIZES)
    assert cell.mean == pytest.approx(whole(weights))
    for j, x in enumerate(cell.documents):
        step = 1e-5 * np.eye(len(SIZES))[j]
        slope = (whole(weights + step) - whole(weights - step)) / 2e-5
        assert x - cell.mean == pytest.approx(slope, rel=1e-5)
    (printed,) = sheets.extrapolation([share])
    half = half_by_hand(cell.documents, SIZES)
    label = [row[0] for row in texts(printed)].index("alibi")
    assert texts(printed)[label][1].endswith(f"(± {half:.2f})")


def test_few_documents_and_records_without_them_say_so(subtests):
    def why(*results):
        found, printed = differences(*results)
        assert all(math.isnan(one.cell.over_documents.half) for one in found.rows[0][1])
        assert "(" not in texts(printed)[0][1]
        return sheet.glossary([printed])["(±)"]

    with subtests.test("two"):
        two = [run(label, seed, sizes=(50, 50))[0] for seed, label in enumerate(("rope", "t5"))]
        assert "; none where" in why(*two) and "less than 5 of equal size" in why(*two)
    with subtests.test("one of ten has nearly all"):
        uneven = (9000, *[100] * 9)
        ten = [run(label, seed, sizes=uneven)[0] for seed, label in enumerate(("rope", "t5"))]
        assert why(*ten)
    with subtests.test("old records"):
        old = [scored(label, [{64: 2.0, 128: 2.1}] * 2) for label in ("rope", "t5")]
        assert "records hold no sums over documents" in why(*old)
        assert math.isnan(differences(*old)[1].numbers[0]["documents"])
    with subtests.test("drawn samples have no documents"):
        (printed, *_) = sheets.extrapolation(tables_of([drawn("markov", "rope", 1)]))
        assert "(±)" not in sheet.glossary([printed])


def test_what_has_other_seeds_or_documents_has_no_interval():
    (rope, _), (alibi, _) = run("rope", 1), run("alibi", 2)
    fewer = replace(alibi, rows=tuple(r for r in alibi.rows if r.replica != Replica("seed", 1)))
    assert math.isnan(differences(rope, fewer)[0].rows[0][1][0].cell.over_documents.half)
    some = replace(alibi.rows[0], documents=())
    partly = replace(alibi, rows=(some, *alibi.rows[1:]))
    assert math.isnan(differences(rope, partly)[0].rows[0][1][0].cell.over_documents.half)
    same, other = run("rope", 5)[0], run("rope", 5, sizes=(*SIZES[:-1], 250))[0]
    a, b, c = (Study.of([one]) for one in (rope, same, other))
    assert compare(a, b).matches[0].difference.cell.over_documents.half > 0
    assert math.isnan(compare(a, c).matches[0].difference.cell.over_documents.half)
    (printed,) = sheets.comparison(compare(a, b), "a", "b")
    assert "(± " in texts(printed)[0][4] and "(±)" in sheet.glossary([printed])


@pytest.mark.parametrize("sizes", [(1,) * 5, (1,) * 30, tuple(range(1, 12)), "lognormal"])
def test_nineteen_of_twenty_intervals_hold_the_mean(sizes):
    """Documents that differ by as much whatever their size, the worst case, and by less the more
    bytes they have; sizes like those of source files. 4,000 studies: 3 standard errors are 1 %.
    """
    rng = np.random.default_rng(0)
    if sizes == "lognormal":
        sizes = tuple((100 * np.exp(rng.standard_normal(30))).astype(int).tolist())
    weights = np.divide(sizes, sum(sizes))
    for scatter in (np.ones(len(sizes)), 1 / np.sqrt(sizes)):
        held = 0
        for values in rng.standard_normal((4000, len(sizes))) * scatter:
            mean, half, _ = stats.over_documents(values, sizes)
            held += abs(mean) <= half
        assert mean == pytest.approx(weights @ values)
        assert 0.925 < held / 4000 < 0.985
