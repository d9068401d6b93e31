"""The overview of a study of several groups, and reports of several folders."""

import csv
import io
import random
from dataclasses import replace

import pytest
from drawn import drawn, guessed
from studies import make_record, save_runs, tables_of, write

from pe_jax.report import groups, labels, sheet, sheets
from pe_jax.report.selection import Selection
from pe_jax.report.study import Study
from pe_jax.report.table import headlines, tables

TASKS = ("odds_first", "even_pairs")


def both():
    """Two encodings on two tasks and on text, of which alibi lacks a task, and t5 on text alone."""
    return [
        drawn("odds_first", "rope", 2, baselines=guessed("odds_first")),
        drawn("even_pairs", "rope", 4, labels=4),
        drawn("even_pairs", "alibi", 2, labels=4),
        make_record("rope", [2.5, 2.6, 2.7, 2.8, 2.9]),
        make_record("alibi", [2.6, 2.5, 2.4, 2.3, 2.2]),
        make_record("t5", [2.6, 2.5, 2.4, 2.3, 2.25]),
    ]


def made(results, **options):
    study = Study.of(results)
    return sheets.overview(study, tables(study), **options)


def shown(found):
    return {row[0].text: [cell.text for cell in row[1:]] for row in found.rows}


def test_text_and_tasks_stand_side_by_side():
    found = made(both())
    assert found.columns[1:] == (
        "stdlib:\nbits per byte\nat 1024 ↓",
        "stdlib:\nchange\nat 1024 ↓",
        "even pairs:\naccuracy in %\nbeyond 40 ↑",
        "odds first:\naccuracy in %\nbeyond 40 ↑",
    )
    cells = shown(found)
    assert list(cells) == ["rope", "alibi", "t5"]
    assert cells["rope"][:2] == ["2.91 ± 0.02", "+0.400 ± 0.000"]
    assert cells["alibi"][3] == cells["t5"][3] == cells["t5"][2] == "n/a"
    assert found.footnotes == ["no run on odds first", "no run on even pairs"]


def test_its_cells_are_those_of_the_tables_of_the_groups():
    results = both()
    found, reported = made(results), tables_of(results)
    columns = {row[0].text: row[1:] for row in found.rows}
    for table, place in zip(headlines(reported), (0, 2, 3), strict=True):
        for row in table.rows:
            if row.trained:
                wanted = row.beyond or row.cells[-1]
                assert columns[row.label][place] == sheets.printed(wanted)


def test_one_group_has_none_and_groups_of_one_task_are_told_apart_by_what_differs():
    one = [drawn("even_pairs", "rope", 2), drawn("even_pairs", "alibi", 2)]
    assert made(one) is None
    long = replace(
        drawn("even_pairs", "rope", 3), id="rope-2", train=replace(one[0].train, steps=9)
    )
    names = [title.partition(":")[0] for title in made([*one, long]).columns[1:]]
    assert names == ["even pairs, 9 steps", "even pairs, 3,000 steps"]


def test_headings_say_which_task_or_text_and_no_more_where_that_tells_all():
    found = {table.heading for table in tables_of(both())}
    assert found == {"text stdlib", "task even_pairs", "task odds_first"}
    other = drawn("even_pairs", "rope", 2, lengths=(20, 40, 80))
    apart = {condition.words for condition in groups.comparable([*both(), other])[1].apart}
    assert "evaluated at lengths up to 80" in apart and not any("tokenizer" in w for w in apart)
    names = labels.names(both()).values()
    assert "rope, odds_first" in names and "t5" in names


def test_rows_are_in_the_order_that_was_asked_for():
    choice = Selection.of(["t5 as T5", "rope", "alibi"])
    study = choice.study(both())
    found = sheets.overview(study, tables(study), ranked=False)
    assert list(shown(found)) == ["T5", "rope", "alibi"]


def test_the_forms_hold_every_cell(tmp_path):
    found = made(both())
    text = sheet.markdown([found])
    assert " **2.21 ± 0.02** |" in text and "<sup>1</sup> no run on odds first" in text
    rows = list(csv.DictReader(io.StringIO(sheet.csv([found]))))
    assert rows[1]["encoding"] == "alibi" and rows[1]["not_computed"] == "no run on odds first"
    assert float(rows[0]["stdlib: change at 1024 ↓, mean"]) == pytest.approx(0.4)
    body = sheet.latex([found])
    assert r"\shortstack[r]{even pairs:\\accuracy in \%\\beyond 40 $\uparrow$}" in body
    assert body.count(r"\begin{table}") == 1 and r"\label{tab:overview}" in body


def test_it_opens_the_page_and_the_order_of_results_changes_no_byte(tmp_path):
    results = both()[:4]
    names = {path.name for path in write(results, tmp_path / "a" / "study")}
    random.Random(1).shuffle(results)
    write(results, tmp_path / "b" / "study")
    first, second = (sorted((tmp_path / side / "study").iterdir()) for side in "ab")
    assert [path.name for path in first] == [path.name for path in second]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True))
    assert {"overview.md", "overview.tex", "overview.csv", "tasks.png"} <= names
    html = (tmp_path / "a" / "study" / "report.html").read_text()
    assert html[html.index("<h2>") :].startswith("<h2>Overview</h2>")


def test_the_command_reads_several_folders_and_tells_what_is_damaged_or_empty(lab, tmp_path):
    save_runs(tmp_path / "tasks", both()[1:2])
    save_runs(tmp_path / "text", both()[3:4])
    (tmp_path / "tasks" / "cut").mkdir()
    (tmp_path / "tasks" / "cut" / "result.json").write_text("{")
    (tmp_path / "empty").mkdir()
    folders = [f"--workdir={tmp_path / name}" for name in ("tasks", "text")]
    asked = [*folders, f"--out={tmp_path / 'out'}"]
    done = lab.start("report", *asked).wait()
    assert done.code == 1 and "cut/result.json is damaged" in done.err
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert f"pe-jax report {' '.join(asked)}</pre>" in page
    assert (tmp_path / "out" / "overview.csv").is_file()
    failed = lab.start("report", *folders, f"--workdir={tmp_path / 'empty'}").wait()
    assert failed.code == 2 and "no results in" in failed.err


def test_groups_are_named_by_the_last_part_of_a_folder_or_the_class_of_a_task():
    text = make_record("rope", [2.5] * 5)
    corpus = replace(text.corpus, source="files:$CORPORA/novels")
    task = drawn("even_pairs", "rope", 2)
    own = replace(task.corpus, source="tasks/mine.py:Mine(width=3)")
    found = made([replace(text, corpus=corpus), replace(task, corpus=own)])
    names = [title.partition(":")[0] for title in found.columns[1:]]
    assert names == ["novels", "novels", "Mine(width=3)"]


def test_an_encoding_that_is_best_where_few_were_run_is_not_last():
    many = [make_record(f"e{i}", [2.5 + 0.1 * i] * 5) for i in range(9)]
    found = made([*many, drawn("even_pairs", "e8", 9), drawn("even_pairs", "e4", 1)])
    # Better are 8 of 9 and none of 2; 4 of 9 and 1 of 2; of others, all of those on the task.
    assert list(shown(found))[:3] == ["e8", "e4", "e0"]
