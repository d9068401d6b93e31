"""Passkeys of a pretrained model: one sample at each depth, and depths are chosen, not drawn."""

from dataclasses import replace

from drawn import TRAIN, drawn
from test_report import make_record

from pe_jax.record import Curve, Training
from pe_jax.report import depth, gallery, summary, tables


def test_there_are_no_tests_and_no_ranks():
    noisy = [make_record(label, [2.5 + i / 20] * 5, window=False) for i, label in enumerate("ab")]
    table = tables.extrapolation([replace(one, replicate="depth") for one in noisy])
    assert [[cell.best for cell in row.cells] for row in table.rows] == [[True] * 5, [False] * 5]
    assert not any(row.rank for row in table.rows)
    assert any("depths were chosen, not drawn, which allows no tests" in n for n in table.notes)


def test_what_is_said_of_them():
    asked = Training(length=TRAIN, steps=0)
    result = replace(drawn("passkey", "rope", 8), train=asked, replicate="depth")
    rows = tuple(row for row in result.rows if row.metric == "exact_match")
    curves = tuple(
        Curve(
            seed=row.seed,
            length=row.length,
            position=(row.seed / 2,),
            value=(row.value,),
            metric=row.metric,
        )
        for row in rows
    )
    result = replace(result, rows=rows, curves=curves)
    table = tables.extrapolation([result], "exact_match")
    assert summary.summary(table).endswith("Solved at every longer length: rope.")
    said = gallery.captions([result], table, {"depth": depth.heat([result], 5.5)})
    assert "to be found (0: its first token): one sample at each depth." in said["depth"]
