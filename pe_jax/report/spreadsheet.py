"""Tables as CSV, for programs and spreadsheets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows, with the names of their columns above. Text that a spreadsheet would take for a
    formula begins with an apostrophe.
    """
    import pandas

    safe = [{name: _text(value) for name, value in row.items()} for row in rows]
    return pandas.DataFrame(safe, dtype=object).to_csv(index=False)


def _text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
