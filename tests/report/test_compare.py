"""Two sets of records side by side, with differences known beforehand."""

import csv
import io
import math
import re
from dataclasses import replace

import pytest
import scipy.stats
from drawn import pretrained, texts
from scored import scored
from studies import make_record, save_runs

from pe_jax.record import Way
from pe_jax.report import differences, sheets, stats
from pe_jax.report.study import Study
from pe_jax.storage import records


def changed(result, **parts):
    """The result with another config or surroundings."""
    return replace(result, id=f"{result.label}-5e6f7a8b", **parts)


def nudged(result, change):
    """The result with `change(seed)` added to every value."""
    rows = tuple(replace(row, value=row.value + change(row.replica.number)) for row in result.rows)
    return replace(result, rows=rows)


def compared(a, b):
    return differences.compare(Study.of(a), Study.of(b))


def said(found):
    """All notes below the first table."""
    return " ".join(sheets.comparison(found, "a", "b")[0].notes)


def one(found, label="rope", length=64):
    (difference,) = (
        d
        for d in found.matches
        if (d.label, d.length, d.way, d.metric.name) == (label, length, Way(), "same_targets")
    )
    return difference


ROPE = make_record("rope", [2.45, 2.60, 3.30, 4.00, 4.40])
ALIBI = make_record("alibi", [2.50, 2.49, 2.48, 2.48, 2.47])


def test_answers_to_the_same_questions_are_told_apart_by_mcnemars_test():
    """Of four questions that A has wrong and B right, p is 0.125; of eight, 0.008."""

    def sides(n):
        options = dict(metric="passkey", kind="sample")
        return [[scored("rope", [{64: x}] * n, **options)] for x in (0.0, 100.0)]

    for n, better in ((4, ""), (8, "B")):
        found = compared(*sides(n))
        (difference,) = found.matches
        assert difference.better == better and math.isnan(difference.difference.change.half)
        (equal,) = compared(sides(n)[0], sides(n)[0]).matches
        assert equal.better == "" and equal.difference.change.half == 0
        assert f"passkey: 1 {'better in B' if better else 'not distinguishable'}." in said(
            found
        ).lower().replace("in b", "in B")


def test_equal_seeds_are_paired():
    found = compared([ROPE], [nudged(ROPE, lambda seed: -0.1 - 0.001 * seed)])
    difference = one(found, length=256)
    assert (difference.cell_a.mean, difference.cell_b.mean) == pytest.approx((3.31, 3.209))
    low, high = scipy.stats.t.interval(0.95, 2, -0.101, scipy.stats.sem([0.1, 0.101, 0.102]))
    mean, half, n = difference.difference.change
    assert (mean - half, mean + half, n) == pytest.approx((low, high, 3))
    assert difference.better == "B"


def test_p_values_of_a_comparison_are_holms_over_those_of_a_metric():
    other = nudged(ALIBI, lambda seed: -0.1 - 0.02 * seed)
    found = compared([ROPE, ALIBI], [nudged(ROPE, lambda seed: 0.01 * seed), other])
    of = [d.difference for d in found.matches if d.metric.name == "same_targets"]
    raw = [scipy.stats.ttest_1samp([*d.cell.values.values()], 0).pvalue for d in of]
    assert len(of) > 10 and max(d.p / p for d, p in zip(of, raw, strict=True)) >= len(of) - 1
    assert [d.p for d in of] == pytest.approx(stats.holm(raw))


def test_places_are_paired_where_they_are_the_same():
    places = pretrained(replace(ROPE, config=ROPE.config | {"eval": {"last": 32, "lengths": [64]}}))
    assert one(compared([places], [nudged(places, lambda seed: 0.1)])).difference.change.n == 3
    scored = [replace(places, scored=replace(ROPE.corpus, hash=c * 64)) for c in "ab"]
    found = one(compared(scored[:1], scored[1:])).difference
    assert found.change.n == 0 and math.isnan(found.p)


def test_the_seeds_that_both_have_are_compared():
    more = make_record("rope", [2.46, 2.60, 3.30, 4.00, 4.40], seeds=(1, 2, 3, 4))
    assert one(compared([ROPE], [more])).difference.change == pytest.approx((0.01, 0.0, 2))
    other = make_record("rope", [2.45, 2.60, 3.30, 4.00, 4.40], seeds=(3, 4))
    assert one(compared([ROPE], [other])).difference.change.n == 0


def test_a_diverged_seed_is_left_out_of_its_pair_and_told():
    found = compared([ROPE], [make_record("rope", [2.35] * 5, diverged=(2,))])
    assert one(found).difference.change[::2] == (pytest.approx(-0.1), 2)
    footnotes = sheets.comparison(found, "a", "b")[0].footnotes
    assert footnotes == ["n=2 of 3: seed 2 diverged at step 120"]


def test_a_number_that_is_in_neither_has_no_difference():
    limited = [make_record("learned", [2.6] * 5, limit=64, window=False) for _ in range(2)]
    found = compared(limited[:1], limited[1:])
    scores = [match for match in found.matches if match.metric.name == "same_targets"]
    assert [match.difference.change.n for match in scores] == [3, 0, 0, 0, 0]
    assert [match.better for match in scores] == [""] * 5
    assert texts(sheets.comparison(found, "a", "b")[0])[1][2:] == ["n/a", "n/a", "n/a", ""]


def test_runs_are_matched_by_label_and_the_others_listed():
    nope = make_record("nope", [3.1] * 5)
    found = compared([ALIBI, ROPE], [changed(ROPE), nope])
    assert {match.label for match in found.matches} == {"rope"}
    assert (found.only_a, found.only_b) == (("alibi",), ("nope",))


def test_runs_of_one_label_are_matched_by_their_id_alone():
    slow, fast = ROPE, replace(ROPE, id="rope-99999999")
    found = compared([slow, fast], [replace(fast), replace(slow)])
    assert {match.label for match in found.matches} == {"rope (1a2b3c4d)", "rope (99999999)"}
    assert all(match.a.id == match.b.id for match in found.matches)
    found = compared([slow, fast, ALIBI], [changed(ROPE), changed(ALIBI)])
    assert {match.label for match in found.matches} == {"alibi"}
    assert found.only_a == ("rope (1a2b3c4d)", "rope (99999999)")


def test_nothing_in_common_is_told_with_what_there_is():
    with pytest.raises(ValueError, match="A has alibi; B has rope"):
        compared([ALIBI], [ROPE])
    far = tuple(replace(row, length=9) for row in ROPE.rows)
    with pytest.raises(ValueError, match="share rope, but nothing that both were evaluated at"):
        compared([ROPE], [changed(ROPE, rows=far)])


def test_what_changed_is_said_with_the_runs_that_it_is_of():
    other = changed(
        ROPE,
        config=dict(ROPE.config),
        corpus=replace(ROPE.corpus, hash="f" * 64),
        commit="def5678",
        versions={"python": "3.12.1", "jax": "0.10.2", "flax": "0.12"},
    )
    other.config["train"] = {"length": 64, "steps": 700}
    found = compared([ROPE, ALIBI], [other, ALIBI])
    assert [change.removesuffix(" (rope)") for change in found.changes] == [
        "commit: abc1234 in A, def5678 in B",
        "config train.steps: 350 in A, 700 in B",
        "text: stdlib (SHA-256 0123456789ab) in A, stdlib (SHA-256 ffffffffffff) in B",
        "version flax: not there in A, 0.12 in B",
        "version python: 3.11.7 in A, 3.12.1 in B",
    ]


def test_folders_are_compared_and_written(lab, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "runs.jsonl").write_text("\n".join(map(records.encode, (ROPE, ALIBI))))
    better = nudged(ROPE, lambda seed: -0.1 - 0.001 * seed)
    (tmp_path / "b" / better.id).mkdir(parents=True)
    (tmp_path / "b" / better.id / "result.json").write_text(records.encode(better))
    out = tmp_path / "out"
    done = lab.start("compare", str(tmp_path / "a"), str(tmp_path / "b"), f"--out={out}").wait()
    assert done.code == 0, done.err
    line = next(line for line in done.out.splitlines() if line.split()[:2] == ["rope", "64"])
    assert line.split()[2:] == "2.460 ± 0.025 2.359 ± 0.022 −0.101 ± 0.002 B".split()
    assert re.search(r"Only in A: +alibi\.", done.out) and "10 better in B" in done.out
    rows = list(csv.DictReader(io.StringIO((out / "compare.csv").read_text())))
    assert len(rows) == 20
    assert [float(row["difference"]) for row in rows] == pytest.approx([-0.101] * 20)
    text = (out / "compare.md").read_text()
    assert "| rope, window 64 |" in text
    assert "## Bits per byte, nonoverlapping (lower is better)" in text


def test_a_damaged_result_is_left_out_and_named(lab, tmp_path):
    save_runs(tmp_path, (ROPE, ALIBI))
    bad = tmp_path / "nope-1/result.json"
    bad.parent.mkdir()
    bad.write_text("{")
    done = lab.start("compare", str(tmp_path), str(tmp_path)).wait()
    assert done.code == 1 and "alibi" in done.out
    told = rf"pe-jax compare: {re.escape(str(bad))} is damaged \(.*\): it is left out\n"
    assert re.fullmatch(told * 2, done.err), done.err  # of A and of B


def test_a_mistake_is_told(lab):
    for arguments, words in (
        ([], "'a'"),
        (["a"], "give two folders"),
        (["a", "b", "--baseline=rope"], "give two folders"),
        (["a", "b", "c"], "compare"),
        (["nowhere", "b"], "no results in 'nowhere'"),
    ):
        done = lab.start("compare", *arguments).wait()
        assert done.code == 2 and done.out == "" and len(done.err.splitlines()) == 1, done.err
        assert words in done.err


def test_places_of_another_number_are_other_places():
    """They are spread evenly over the text."""
    own = {"last": 32, "lengths": [64]}
    a, b = (
        pretrained(replace(ROPE, config=ROPE.config | {"eval": own | {"targets": n}}))
        for n in (128, 256)
    )
    found = one(compared([a], [b])).difference
    assert found.change.n == 0 and math.isnan(found.p)
