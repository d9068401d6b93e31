"""The rows of methods without a model, in every form of a table."""

import csv
import io
from dataclasses import replace

from drawn import drawn, guessed, texts
from studies import html_of, sheet_of, table_of

from pe_jax.record import Baseline, Way
from pe_jax.report import notes, sheet
from pe_jax.report.selection import Selection

GUESS, FREQUENT = "no model: guess", "no model: most frequent target"


def results(**more):
    known = guessed("even_pairs")
    return [
        drawn("even_pairs", "rope", 2, baselines=known, **more),
        drawn("even_pairs", "alibi", 1, baselines=known, **more),
    ]


def test_they_are_a_last_block_without_bold():
    table = table_of(results(), "accuracy")
    assert [name for name, _ in table.blocks] == ["as trained", "no model"]
    frequent, guess = table.rows[2:]
    assert (frequent.label, guess.label) == (FREQUENT, GUESS)
    assert [cell.mean for cell in guess.cells] == [60.0] * 5 and guess.beyond.mean == 60
    for row in (frequent, guess):
        cells = (*row.cells, row.beyond)
        assert not any(cell.best or cell.half == cell.half for cell in cells)
        assert (row.effective, row.censored) == (0, False)


def test_mean_and_solved_length_are_computed_as_those_of_models():
    values = {20: 99.0, 40: 95.0, 80: 91.0, 160: 70.0, 320: 40.0}
    known = tuple(
        Baseline(name="guess", metric="accuracy", length=n, value=v) for n, v in values.items()
    )
    results = [drawn("even_pairs", "rope", 2, baselines=known)]
    row = table_of(results, "accuracy").rows[-1]
    assert (row.effective, row.censored, row.beyond.mean) == (80, False, 67.0)
    printed = sheet_of(results, "accuracy")
    last = dict(zip(printed.columns, texts(printed)[-1], strict=True))
    assert (last["mean beyond 40"], last["solved length"]) == ("67.00", "80")


def test_those_of_a_variant_of_the_task_stand_with_its_rows():
    made, easier = [], Way(variant="ignore=0.98")
    for one in results():
        variant = tuple(replace(row, way=easier) for row in one.rows)
        known = (*one.baselines, *guessed("even_pairs", way=easier))
        made.append(replace(one, rows=(*one.rows, *variant), baselines=known))
    table = table_of(made, "accuracy")
    blocks = {name: [row.label for row in rows] for name, rows in table.blocks}
    assert list(blocks) == ["as trained", "ignore=0.98", "no model"]
    named = [f"{name}, ignore=0.98" for name in ("rope", "alibi", FREQUENT, GUESS)]
    assert blocks["ignore=0.98"] == named
    assert {"Rows", "No model"} <= {note.question for note in notes.glossary(table)}


def test_every_form_of_the_table_has_them():
    table = sheet_of(results(), "accuracy")
    text = html_of(results())
    for form in (sheet.markdown([table]), text):
        assert GUESS in form and FREQUENT in form and "a simple method of the task" in form
    assert f'data-value="{GUESS}">{GUESS}' in text  # no link: there is no run
    body = sheet.latex([table])
    assert rf"\midrule {FREQUENT} & 50.00" in body
    rows = list(csv.DictReader(io.StringIO(sheet.csv([table]))))
    found = [(row["encoding"], row["beyond_mean"]) for row in rows[2:]]
    assert found == [(FREQUENT, "50.0"), (GUESS, "60.0")]


def test_a_choice_of_rows_keeps_them_below():
    choice = Selection.of(["alibi", "rope"])
    study = choice.study(results())
    table = choice.tables([table_of([*study.runs.values()], "accuracy")], study)[0]
    assert [row.label for row in table.rows] == ["alibi", "rope", FREQUENT, GUESS]
