"""What a difference is said to be, against computations of its own: thousandths, equal to the bit,
equivalent within a margin, Holm's method, McNemar's test.
"""

import math

from drawn import texts
from scored import scored

from pe_jax.report import sheets, tables
from pe_jax.report.baseline import versus
from pe_jax.report.words import plusminus

BASE = scored("rope", [{64: 2.0 + seed / 100} for seed in range(4)])


def shifted(label, by_seed):
    """BASE with something added for each seed."""
    values = [{64: 2.0 + seed / 100 + more} for seed, more in enumerate(by_seed)]
    return scored(label, values)


def against(*others, **options):
    """The sheet's text and the numbers of each other model against BASE."""
    study = [BASE, *others]
    (found,) = versus(study, tables.study(study), "rope", **options)
    printed = {row[0]: row[1] for row in texts(sheets.differences(found))}
    return {row.label: (printed[row.label], cells[0]) for row, cells in found.rows}


def test_differences_have_thousandths():
    assert plusminus(4e-3, 1e-4, sign="+") == "+0.004 ± 0.000"
    assert plusminus(2e-10, 1e-10, sign="+") == "+0.000 ± 0.000"
    assert plusminus(-0.0123, math.nan, sign="+") == "−0.012"
    assert plusminus(2.0123, 0.02) == "2.01 ± 0.02"
    gains = [scored("rope", [{64: 2.0, 128: 2.0 + 2e-10}]), scored("t5", [{64: 2.0, 128: 2.004}])]
    (table,) = tables.study(gains)
    (sheet,) = sheets.extrapolation([table])
    column = sheet.columns.index("gain")
    assert [row[column] for row in texts(sheet)] == ["+0.000", "+0.004"]


def test_only_the_same_values_to_the_bit_are_equal():
    found = against(shifted("same", [0.0] * 4), shifted("near", [1e-6, 2e-6, 3e-6, 1e-6]))
    assert found["same"][0] == found["same"][1].verdict == "equal"
    assert found["near"][1].verdict != "equal" and found["near"][0].startswith("+0.000")
