"""Published claims have the status that their rules give, computed from the records."""

import shutil
from dataclasses import replace

import pytest

from experiments.docs import claims, numbers
from pe_jax.record import Result
from pe_jax.storage import records

FLAT = "results/headroom alibi same_targets 1024 less 64 within 0.02"
RISES = "results/headroom rope same_targets 128 less 64 > 0"


def status(*rules):
    return claims.Claim({}, claims.tested(rules)).status


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((), "untested"),
        ((FLAT,), "reproduced"),
        ((RISES,), "reproduced"),
        ((RISES.replace(">", "<"),), "contradicted"),
        ((FLAT.replace("alibi", "rope"),), "contradicted"),
        ((FLAT, RISES.replace(">", "<")), "reproduced in part"),
        ((FLAT.replace("0.02", "0.0001"),), "not decided"),
    ],
)
def test_a_claim_has_the_status_of_its_tests(rules, expected):
    assert status(*rules) == expected


def test_a_rule_whose_study_has_a_config_and_no_records_is_planned(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/new.py").touch()
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    row = {"rule": f"{FLAT}; results/new rope same_targets 128 less 64 > 0"}
    shown = "[planned](../configs/new.py): rope same_targets 128 less 64 > 0"
    assert claims._rules(row) == [FLAT] and shown == claims._planned(claims._rules(row, True)[0])


def test_tests_of_a_claim_are_corrected_for_their_number():
    (alone,) = claims.tested([FLAT])
    first, second = claims.tested([FLAT, FLAT])
    assert alone.p < 0.05 and first.p == second.p == pytest.approx(2 * alone.p)


def test_a_changed_record_changes_the_status(tmp_path, monkeypatch):
    study = tmp_path / "results/headroom"
    shutil.copytree(numbers.ROOT / "results/headroom", study)
    lines = []
    for line in (study / "runs.jsonl").read_text("utf-8").splitlines():
        result = records.parse(Result, line)
        worse = {1024: 0.5} if result.label == "alibi" else {}
        rows = [replace(row, value=row.value + worse.get(row.length, 0)) for row in result.rows]
        lines.append(records.encode(replace(result, rows=tuple(rows))))
    (study / "runs.jsonl").write_text("\n".join(lines), "utf-8")
    monkeypatch.setattr(numbers, "ROOT", tmp_path)
    for cached in (numbers.study, numbers._tables):
        monkeypatch.setattr(numbers, cached.__name__, cached.__wrapped__)
    assert status(FLAT) == "contradicted"


def test_every_claim_has_a_source_and_rules_that_can_be_read():
    every = claims.claims()
    assert len(every) == len({claim.row["claim"] for claim in every})
    assert all(claim.row["source"] and claim.row["published"] for claim in every)
    cells = [f"| {claim.row['published']}" for claim in every]
    assert [numbers.written(cell) for cell in cells] == cells
    assert sum(claim.status == "untested" for claim in every) < len(every) / 2


def test_a_sentence_without_its_words_or_its_test_is_unsupported(tmp_path, monkeypatch):
    (tmp_path / "some.md").write_text("ALiBi <!-- a mark -->**stays**\nflat.", "utf-8")
    rows = f"some.md,ALiBi stays flat,{FLAT},holds\nsome.md,RoPE rises,{RISES},open\n"
    (tmp_path / "some.csv").write_text(f"page,sentence,rule,found\n{rows}", "utf-8")
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    monkeypatch.setattr(claims, "SENTENCES", tmp_path / "some.csv")
    lacks, finds = claims.unsupported()
    assert "lacks the words 'RoPE rises'" in lacks and f"{RISES} is holds, not open" in finds


@pytest.mark.parametrize("rule", ["results/headroom alibi same_targets 1024", "alibi > 0"])
def test_rules_that_cannot_be_read_are_refused(rule):
    with pytest.raises(ValueError, match="must end with|no expression"):
        claims.tested([rule])
