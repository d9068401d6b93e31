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


def test_a_model_whose_value_hardly_changes_does_not_look_beyond_the_training_length():
    """The change is that from L to 16 L, in each seed; seeds that cancel each other look."""

    def model(label, *changes):
        return scored(label, [{64: 2.0, 1024: 2.0 + c, 2048: 3.0} for c in changes])

    still, shifts = model("cpb", 9e-5, -9e-5), model("alibi", 2e-3, -2e-3)
    slightly = model("fire", 1.1e-4, 0.0)
    said = notes(tables.extrapolation([still, shifts, slightly]), "What does not look further")
    assert said.startswith("cpb does not look beyond 64: from 64 to 1024")
    to_the_longest = scored("window", [{64: 2.0, 256: 2.0 + 1e-6}])
    assert "to 256" in notes(tables.extrapolation([to_the_longest]), "What does not look further")
    others = scored("cpb", [{64: 2.0, 1024: 2.0}], metric="nonoverlapping")
    assert not notes(tables.extrapolation([others], "nonoverlapping"), "What does not look further")
