"""Tables on terminals that are narrower than they are."""

import io

import pytest
from rich.console import Console
from studies import make_records, table_of

from pe_jax.report import sheet, sheets
from pe_jax.report.differences import versus

NOTE = "A note that is longer than the table, as those of most tables are, so that it is broken."


def printed(shown, width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(*shown)
    return [line.rstrip() for line in console.export_text().splitlines()]


def fitted(label="alibi"):
    row = tuple(map(sheet.Printed, (label, "2.40 ± 0.05", "−0.002 ± 0.005", "131,392")))
    names = ("encoding", "64 (1x)", "change", "parameters")
    note = sheet.Note("What it is", NOTE)
    return sheet.terminal([sheet.Sheet("title", names, (("", (row,)),), (note,))])


@pytest.mark.parametrize("width", [37, 48, 49])
def test_words_are_whole_and_what_has_no_room_is_named(width):
    lines = printed(fitted(), width)
    words = " ".join(lines).split()
    assert max(map(len, lines)) <= width and set(NOTE.split()) <= set(words)
    assert all(number in words for number in ("2.40", "0.05", "−0.002", "0.005"))
    told = "Left out, too wide: parameters."
    assert ("131,392" in words) == (width >= 49) != (told in " ".join(lines))


def test_differences_keep_the_training_length_and_the_longest():
    results = make_records()
    (found,) = versus([table_of(results)], "rope")
    lines = printed(sheet.terminal([sheets.differences(found)]), 60)
    (head,) = (line.split() for line in lines if line.startswith("encoding "))
    assert head == ["encoding", "64", "(1x)", "1024", "(16x)"]


@pytest.mark.parametrize("width", [20, 40])
def test_a_footnote_is_there_where_its_column_is(width):
    row = tuple(map(sheet.Printed, ("alibi", "2.40", "n/a"), (0.0,) * 3, ("", "", "too long")))
    shown = sheet.terminal([sheet.Sheet("", ("encoding", "64", "parameters"), (("", (row,)),))])
    assert ("[1] too long" in printed(shown, width)) == (width == 40)


def test_brief_notes_are_doubts_alone():
    notes = (sheet.Note(sheet.FIRST, "a doubt"), sheet.Note("Metric", "a fact"))
    row = (sheet.Printed("alibi"),)
    text = "".join(
        printed(sheet.terminal([sheet.Sheet("", ("x",), (("", (row,)),), notes)], True), 80)
    )
    assert "Caution: a doubt" in text and "a fact" not in text


@pytest.mark.parametrize(
    ("width", "gone"), [(60, "effective length and parameters"), (112, "parameters")]
)
def test_no_value_is_broken_and_the_first_columns_to_go_are_the_parameters(width, gone):
    table = table_of(make_records())
    lines = printed(sheet.terminal(sheets.extrapolation([table])), width)
    assert max(map(len, lines)) <= width
    text, titles = " ".join(lines), [line for line in lines if line.startswith("encoding ")]
    assert all("64 (1x)" in line and "1024 (16x)" in line for line in titles)
    assert gone in text.split("Left out")[1] and (" length" in titles[0]) == (width == 112)
    for row in table.rows:
        for cell in (row.cells[0], row.cells[-1]):
            assert not cell.n or f"{cell.mean:.2f} ± {cell.half:.2f}" in text
