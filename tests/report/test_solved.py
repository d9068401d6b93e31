"""Of tasks, who has solved the training length, and who is compared beyond it."""

from dataclasses import replace

from drawn import drawn, texts
from scored import rows
from studies import tables_of

from pe_jax.record import Reason, Replica, Row, UsersMetric
from pe_jax.report import notes, sheets
from pe_jax.report.differences import versus


def model(label, at_train, beyond, task="parity"):
    """Accuracies by seed at length 40, and at 80 and 160."""
    values = [
        {40: start, 80: end, 160: end - 1} for start, end in zip(at_train, beyond, strict=True)
    ]
    return drawn(task, label, None, lengths=(40, 80, 160), rows=rows(values, metric="accuracy"))


SOLVES = model("rope", [100, 99, 99.5], [90, 91, 92])
NEARLY = model("alibi", [100, 100, 97.5], [80, 70, 75])
LEARNED = model("nope", [98.9, 98.9, 98.9], [98, 98.5, 98])  # the best beyond, had it solved 40
STUDY = [SOLVES, NEARLY, LEARNED]


def table_of(results=STUDY):
    (table,) = tables_of(results)
    return table


def test_a_lack_of_memory_at_a_length_says_nothing_of_it():
    """Solved up to 80, then too large for the machine, and solved again at 320."""

    def row(length, value):
        lacks = {} if value else {"reason": Reason.OUT_OF_MEMORY, "at": 10**12, "free": 10**9}
        return Row(
            replica=Replica("seed", 0), metric="accuracy", length=length, value=value, **lacks
        )

    def reach(*values):
        rows = map(row, (40, 80, 160, 320), values)
        whole = drawn("parity", "rope", None, lengths=(40, 80, 160, 320), rows=tuple(rows))
        (found,) = (row for row in table_of([whole]).rows if row.label == "rope")
        return found.effective, found.censored

    assert reach(100.0, 99.0, None, 95.0) == (320, True)
    assert reach(100.0, 99.0, 98.0, None) == (160, True)
    assert reach(100.0, 99.0, 50.0, None) == (80, False)


def test_a_length_is_solved_by_more_than_half_of_the_seeds():
    half = model("rope", [100, 100], [95, 20])
    most = model("alibi", [100] * 3, [95, 95, 20])
    reached = {row.label: (row.effective, row.censored) for row in table_of([half, most]).rows}
    assert reached == {"rope": (40, False), "alibi": (160, True)}


def test_the_share_of_seeds_that_solve_the_training_length_is_printed():
    table = table_of()
    by_label = {row.label: row for row in table.rows}
    assert {label: (row.solved, row.compared) for label, row in by_label.items()} == {
        "rope": (3, True),
        "alibi": (2, True),  # on average 99.2
        "nope": (0, False),
    }
    (sheet,) = sheets.extrapolation([table])
    column = sheet.columns.index("seeds that solve 40")
    assert [row[column] for row in texts(sheet)] == ["3 of 3", "2 of 3", "0 of 3"]
    assert [numbers["solved_seeds"] for numbers in sheet.numbers] == [3, 2, 0]


def test_who_has_not_solved_it_is_not_compared_beyond_it():
    table = table_of()
    assert [row.label for row in table.rows] == ["rope", "alibi", "nope"]
    bold = {row.label: [c.best for c in (*row.cells[1:], row.beyond)] for row in table.rows}
    assert bold == {"rope": [True] * 3, "alibi": [False] * 3, "nope": [False] * 3}
    assert "Not compared beyond 40: nope (" in " ".join(notes.facts(table))
    (found,) = versus([table], "rope")
    verdicts = {row.label: [one.verdict(-1) for one in own] for row, own in found.rows}
    assert verdicts["nope"][0] and verdicts["nope"][1:] == ["", ""]
    assert "Not compared beyond 40: all models (" in " ".join(notes.facts(table_of([LEARNED])))


def test_a_users_metric_that_is_not_in_percent_solves_nothing():
    told = UsersMetric(
        sentence="", unit="bits", better="lower", samples=True, percent=False, sources={}
    )
    one = replace(model("rope", [0.1, 0.2, 0.1], [0.5, 0.6, 0.5]), metrics={"mine.py:Bits": told})
    one = replace(one, rows=tuple(replace(row, metric="mine.py:Bits") for row in one.rows))
    table = table_of([one])
    assert table.rows[0].solved is None and table.rows[0].compared and table.rows[0].beyond is None
    assert "effective length" in sheets.extrapolation([table])[0].columns


def test_why_there_is_no_mean_beyond_is_said_of_the_length_that_is_missing():
    one = model("rope", [100] * 3, [90, 91, 92])
    missing = [
        replace(row, value=None, reason=Reason.OUT_OF_MEMORY) if row.length == 80 else row
        for row in one.rows
    ]
    (table,) = tables_of([replace(one, rows=tuple(missing))])
    assert table.rows[0].beyond.reason == table.rows[0].cells[1].reason != ""


def test_an_effective_length_ends_at_a_length_that_no_column_shows():
    lengths = (40, 50, 60, 70, 80, 100, 120, 160, 320)
    values = [dict.fromkeys(lengths, 1.0) | {100: 9.0}] * 3
    one = drawn("parity", "rope", None, lengths=lengths, rows=rows(values, metric="bits"))
    table = table_of([one])
    assert 100 not in table.lengths
    assert (table.rows[0].effective, table.rows[0].censored) == (80, False)
