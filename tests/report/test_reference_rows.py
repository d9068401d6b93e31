"""What a table of text says of rates at the edge of their grid, of models that do not look beyond
the training length, and of what a longer context is worth: reference rows and the share of the
headroom.
"""

from dataclasses import replace

from scored import scored

from pe_jax.record import Tried
from pe_jax.report import tables


def notes(table, question):
    return " ".join(note for note in table.notes if note.question == question)


def test_the_table_says_which_rates_are_at_the_edge_of_those_tried():
    def with_rates(label, best, tried, asked):
        rates = tuple(
            Tried(rate=rate, valid={0: 2.0 + (rate != best), 1: 2.0 + (rate != best)})
            for rate in tried
        )
        result = scored(label, [{64: 2.0}] * 2, config={"train": {"rates": asked}})
        return replace(result, rates=rates)

    asked = [1e-3, 3e-3, 9e-3]
    table = tables.extrapolation(
        [
            with_rates("inside", 3e-3, asked, asked),
            with_rates("narrow", 1e-3, asked, asked),
            with_rates("wide", 0.243, [*asked, 0.027, 0.081, 0.243], asked),
        ]
    )
    assert {row.label: row.rate_edge for row in table.rows} == {
        "inside": "",
        "narrow": "lowest",
        "wide": "highest",
    }
    said = notes(table, "What is doubtful")
    assert "the lowest tried, 0.001, for narrow" in said and "after 3 more" in said
    assert "inside" not in said
