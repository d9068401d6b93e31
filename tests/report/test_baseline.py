"""Every model against a named one: differences, verdicts, and how they are printed."""

import csv
import io
import itertools
import re
from dataclasses import replace

import pytest
import scipy.stats
from drawn import pretrained, texts
from studies import make_record, tables_of

from pe_jax.record import Way
from pe_jax.report import sheet, sheets, stats
from pe_jax.report.differences import versus
from pe_jax.report.phrases import plusminus
from pe_jax.storage.records import encode

NOISE = (0.000, 0.004, -0.003)


def noisy(label, offsets, **options):
    """A result whose difference from ROPE is not the same in all seeds."""
    result = make_record(label, offsets, window=False, **options)
    scored = [row for row in result.rows if row.metric == "same_targets"]
    rows = [
        replace(
            row, value=row.value and row.value + NOISE[row.replica.number] * (1 + row.length / 64)
        )
        for row in scored
    ]
    return replace(result, rows=tuple(rows))


def nudged(result, times=0.3):
    """Its scores, with less noise than those of `noisy`."""
    return tuple(
        replace(row, value=row.value + times * NOISE[row.replica.number])
        for row in result.rows
        if row.metric == "same_targets"
    )


ROPE = make_record("rope", [2.45, 2.60, 3.30, 4.00, 4.40], window=False)
BETTER = noisy("alibi", [2.40, 2.45, 2.48, 2.48, 2.47])
LIKE = noisy("t5", [2.4512, 2.60, 3.301, 4.01, 4.40])
SHORT = noisy("learned", [2.60] * 5, limit=64)
STUDY = [ROPE, BETTER, LIKE, SHORT]


def compared(results, baseline=None):
    return versus(tables_of(results), baseline)


def cells(found, label):
    return next(cells for row, cells in found.rows if row.label == label)


def test_differences_are_paired_and_their_p_is_holms_of_the_column():
    found = compared(STUDY)[0]
    assert found.baseline == "rope"
    assert [row.label for row, _ in found.rows] == ["alibi", "t5", "learned"]
    rows = {r.label: sorted((x.replica, x.value) for x in r.rows if x.length == 64) for r in STUDY}
    rows["rope"] = [
        (x.replica, x.value) for x in ROPE.rows if (x.length, x.metric) == (64, "same_targets")
    ]
    base = [value for _, value in sorted(rows["rope"])]
    tests = {
        label: scipy.stats.ttest_rel([value for _, value in rows[label]], base)
        for label in ("alibi", "t5", "learned")
    }
    low, high = tests["alibi"].confidence_interval(0.95)
    mean, half, n = cells(found, "alibi")[0].change
    assert (mean - half, mean + half, n) == pytest.approx((low, high, 3))
    least = sorted((test.pvalue, label) for label, test in tests.items())
    adjusted = [(3 - i) * p for i, (p, _) in enumerate(least)]
    for i, (_, label) in enumerate(least):
        assert cells(found, label)[0].p == pytest.approx(min(1, max(adjusted[: i + 1])))


def test_the_best_row_as_the_baseline_has_holms_over_all_pairs():
    """Unless a user has named it: the first of equal models looks better than it is."""
    third = make_record("sandwich", [2.45, 2.60, 3.30, 4.00, 4.50], window=False)
    plain = make_record("t5", [2.45, 2.60, 3.30, 4.00, 4.40], window=False)
    models = [BETTER, replace(LIKE, rows=nudged(plain)), replace(third, rows=nudged(third, -0.5))]
    (best,), (named,) = compared(models), compared(models, "alibi")
    assert best.baseline == named.baseline == "alibi"
    samples = [[row.value for row in m.rows if row.length == 64] for m in models]
    pairs = [scipy.stats.ttest_rel(*two).pvalue for two in itertools.combinations(samples, 2)]
    found, other = ([cells(one, name)[0].p for name in ("t5", "sandwich")] for one in (best, named))
    assert found == pytest.approx(stats.holm(pairs)[:2])
    assert other == pytest.approx(stats.holm(pairs[:2])) and sum(found) > sum(other)


def test_the_verdicts():
    found = compared(STUDY, "rope")[0]
    assert [cell.verdict(1) for cell in cells(found, "alibi")] == ["better"] * 5
    said = [cell.verdict(1) for cell in cells(found, "t5")]
    assert said[0] == "not distinguishable" and said[1] == "not distinguishable"
    assert [cell.verdict(1) for cell in cells(found, "learned")] == ["worse", "", "", "", ""]
    against = compared(STUDY, "alibi")[0]
    assert [cell.verdict(1) for cell in cells(against, "rope")] == ["worse"] * 5


def test_one_seed_has_differences_and_no_verdicts():
    one = [make_record(label, [2.5 + i] * 5, seeds=(0,)) for i, label in enumerate(("rope", "t5"))]
    found = compared(one)[0]
    assert texts(sheets.differences(found)) == [["t5", *["+1.000"] * 5]]
    assert {row["verdict"] for row in sheets.differences(found).numbers} == {""}


def test_the_usual_baseline_is_rope_else_nope_else_the_first_row():
    assert compared(STUDY[1:])[0].baseline == "alibi"
    nope = make_record("nope", [3.0] * 5)
    assert {found.baseline for found in compared([*STUDY[1:], nope])} == {"nope"}
    assert compared([ROPE]) == []


def test_a_baseline_is_found_by_the_label_of_the_table_or_a_bare_one():
    rates = [
        replace(noisy("rope", [2.4 + i] * 5), id=f"rope-{i:08d}", config={"train": {"rate": rate}})
        for i, rate in enumerate((1e-3, 3e-3))
    ]
    found = compared([*rates, replace(LIKE, config={"train": {"rate": 1e-3}})], "rope, rate 0.003")
    assert found[0].baseline == "rope, rate 0.003" and len(found[0].rows) == 2
    with pytest.raises(ValueError, match=r"called 'rope'. Known: rope, rate 0.001; rope, "):
        compared(rates, "rope")
    with pytest.raises(ValueError, match=r"called 'rop'; did you mean 'rope'\? Known: alibi; "):
        compared(STUDY, "rop")


def test_a_baseline_is_found_by_its_spec_where_its_row_has_another_name():
    named = [replace(ROPE, label="RoPE"), *STUDY[1:]]
    assert compared(named)[0].baseline == compared(named, "rope")[0].baseline == "RoPE"


def test_models_are_compared_within_their_table_alone():
    long = [
        replace(result, id=f"{result.label}-long", train=replace(result.train, steps=700))
        for result in (ROPE, LIKE)
    ]
    found = compared([*STUDY, *long])
    assert [
        (v.table.heading, len(v.rows)) for v in found if v.table.metric.name == "same_targets"
    ] == [("350 steps", 3), ("700 steps", 1)]
    assert found[0].title.endswith("(lower is better): difference from rope, 350 steps")


def swapped():
    """ROPE with two swaps: pi, better from 256 tokens on, and ntk, which changes nothing."""
    as_is = tuple(row for row in ROPE.rows if row.metric == "same_targets")
    pi = noisy("rope", [2.45, 2.60, 2.70, 2.80, 2.90]).rows
    ways = [("", as_is), ("pi", pi), ("ntk", as_is)]
    rows = tuple(replace(row, way=Way(swap=swap)) for swap, rows in ways for row in rows)
    return replace(ROPE, rows=rows)


def test_of_a_single_model_the_swaps_are_compared():
    (found,) = compared([swapped()])
    assert found.baseline == "rope"
    assert [cell.verdict(1) for cell in cells(found, "rope, ntk")] == ["equal"] * 5
    said = [cell.verdict(1) for cell in cells(found, "rope, pi")]
    assert said == ["not distinguishable"] * 2 + ["better"] * 3
    (other,) = compared([pretrained(swapped())], "pi")
    assert other.baseline == "rope, pi"
    assert "Paired over places" in " ".join(sheets.differences(other).notes)
    assert [cell.verdict(1) for cell in cells(other, "rope")][2:] == ["worse"] * 3
    with pytest.raises(ValueError, match="called 'ntkk'; did you mean 'ntk'"):
        compared([swapped()], "ntkk")


def test_beside_another_model_swaps_are_not_compared():
    (found,) = compared([swapped(), replace(BETTER, id="alibi")])
    assert [row.label for row, _ in found.rows] == ["alibi"]
    with pytest.raises(ValueError, match="called 'rope'. Known: none, as that takes two"):
        compared([ROPE], "rope")


def test_the_formats_hold_the_same_numbers():
    found = compared(STUDY)
    number = plusminus(*cells(found[0], "alibi")[0].change[:2], sign="+", digits=3)
    assert f"| {number} better" in sheet.markdown([*map(sheets.differences, found)])
    rows = list(csv.DictReader(io.StringIO(sheet.csv([*map(sheets.differences, found)]))))
    asked = ("alibi", "64", "same_targets")
    (row,) = (r for r in rows if (r["encoding"], r["length"], r["metric"]) == asked)
    cell = cells(found[0], "alibi")[0]
    assert (float(row["difference"]), float(row["p"])) == (cell.change.mean, cell.p)
    assert (row["verdict"], row["baseline"], row["n"]) == ("better", "rope", "3")


def test_the_command_compares_the_models_of_one_folder(lab, tmp_path):
    (tmp_path / "runs.jsonl").write_text("\n".join(map(encode, STUDY)))
    study, out = str(tmp_path), tmp_path / "out"
    done = lab.start("compare", study, "--baseline=rope", f"--out={out}").wait()
    assert (done.code, done.err) == (0, "")
    assert "difference from rope" in done.out and re.search(r"alibi .* better", done.out)
    assert {path.name for path in out.iterdir()} == {"compare.md", "compare.csv"}
    done = lab.start("compare", study, "--baseline=rope", "--margin=0.5").wait()
    assert done.code == 0 and "equivalent within 0.5" in done.out
    done = lab.start("compare", study, "--baseline=rope", "--margin=-1").wait()
    assert done.code == 2 and "--margin=-1" in done.err and not done.out
    done = lab.start("compare", study, "--baseline=alibii").wait()
    assert done.code == 2 and "did you mean 'alibi'?" in done.err and not done.out


def test_the_best_of_several_rows_of_rope_has_holms_over_all_pairs():
    """No row alone is called rope, so that none was named beforehand."""
    plain = make_record("t5", [2.45, 2.60, 3.30, 4.00, 4.40], window=False)
    third = make_record("sandwich", [2.45, 2.60, 3.30, 4.00, 4.50], window=False)
    scored = (BETTER, replace(plain, rows=nudged(plain)))
    rates = [
        replace(r, label="rope", id=f"rope-{rate}", config={"train": {"rate": rate}})
        for r, rate in zip(scored, (1e-3, 3e-3), strict=True)
    ]
    (found,) = compared([*rates, replace(third, rows=nudged(third, -0.5))])
    assert found.baseline == "rope, rate 0.001"
    samples = [row.cells[0].values for row in found.table.rows if row.trained]
    assert [own[0].p for _, own in found.rows] == pytest.approx(stats.of_best(samples, 0)[1:])
