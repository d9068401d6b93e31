"""Studies of more runs than a reader can tell apart."""

import many
import pytest
from studies import table_of

from pe_jax.report import table as tables


@pytest.mark.parametrize(("count", "shown"), [(tables.MODELS, tables.MODELS), (105, tables.SHOWN)])
def test_of_many_models_the_best_are_shown(count, shown):
    table = table_of([*many.results(count)])
    trained = [row for row in table.rows if row.trained]
    assert len(trained) == count
    base = trained[-1].label
    part, more = tables.shortened(table), tables.shortened(table, base)
    assert [row for row in part.rows if row.trained] == trained[:shown]
    assert {row.label for row in more.rows if row.trained} - {row.label for row in part.rows} <= {
        base
    }
    assert tables.left_out(table, part).startswith(f"Shown: {shown} of {count}" * (shown < count))
