"""How a run stands: its state.json, written when the run is queued, begins and ends."""

from __future__ import annotations

import datetime
from pathlib import Path

from pe_jax.record import Stage, State
from pe_jax.storage import records


def now() -> str:
    """The time in UTC as records hold it, ISO 8601 to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def put(folder: Path, stage: Stage, reason: str = "") -> None:
    """Writes how the run of this folder stands; `reason` is that of record.State."""
    records.write(folder / "state.json", State(stage=stage, since=now(), reason=reason))


def get(folder: Path) -> State | None:
    """How the run of this folder stands; None without a state.json. Refused if it is damaged."""
    return records.read(State, folder / "state.json")
