"""Reads the records of record.py from files, which `atomic.write` of `record.encode` writes."""

from __future__ import annotations

from pathlib import Path

from pe_jax.errors import Refused
from pe_jax.record import Schema, decode
from pe_jax.storage import atomic


def read(kind: type[Schema], path: Path) -> Schema | None:
    """A record from its file, as in `read(Result, folder / "result.json")`; None if the file is not
    there, Refused if it is damaged.
    """
    data = atomic.read(path)
    try:
        return None if data is None else decode(kind, data)
    except ValueError as error:
        raise Refused(
            f"{path} is damaged ({error}): delete it and run the same command again"
        ) from error
