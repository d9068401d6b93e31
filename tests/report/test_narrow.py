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
    names = ("encoding", "64 (1x)", "gain", "parameters")
    note = sheet.Note("What it is", NOTE)
    return sheet.terminal([sheet.Sheet("title", names, (("", (row,)),), (note,))])


def test_as_wide_as_it_is_each_row_is_a_line():
    row = next(line for line in printed(fitted(), 80) if "alibi" in line)
    assert row.split() == "alibi 2.40 ± 0.05 −0.002 ± 0.005 131,392".split()


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


def test_of_doubts_too_many_for_the_lines_those_that_fit_are_told():
    doubts = [sheet.Note(sheet.FIRST, f"{letter * 30} " * 3) for letter in "abc"]
    row = (sheet.Printed("alibi"),)
    shown = sheet.terminal([sheet.Sheet("", ("encoding",), (("", (row,)),), tuple(doubts))], 3)
    text = "".join(printed(shown, 80))
    assert ["a" * 30 in text, "b" * 30 in text] == [True, False]


def test_a_long_name_is_broken_between_its_members_and_keeps_every_letter():
    lines = printed(fitted("rope[::2]+window(window=32)[::2]+log_n"), 37)
    assert max(map(len, lines)) <= 37
    column = [line[:23].strip() for line in lines]
    first = column.index("rope[::2]+")
    assert column[first + 1 : first + 3] == ["window(window=32)[::2]+", "log_n"]


@pytest.mark.parametrize(("width", "gone"), [(60, "parameters and ms a step"), (120, "ms a step")])
def test_no_value_is_broken_and_the_first_columns_to_go_are_the_cost_and_the_parameters(
    width, gone
):
    table = table_of(make_records())
    lines = printed(sheet.terminal(sheets.extrapolation([table])), width)
    assert max(map(len, lines)) <= width
    text, titles = " ".join(lines), [line for line in lines if line.startswith("encoding ")]
    assert all("64 (1x)" in line and "1024 (16x)" in line for line in titles)
    assert gone in text.split("Left out")[1] and ("parameters" in titles[0]) == (width == 120)
    for row in table.rows:
        for cell in (row.cells[0], row.cells[-1]):
            assert not cell.n or f"{cell.mean:.2f} ± {cell.half:.2f}" in text
