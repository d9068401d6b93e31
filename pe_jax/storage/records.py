"""Records, the dataclasses of record.py, as JSON with a digest: files, and the lines of runs.jsonl.

The digest tells that a number was changed by hand or by a failing disk. It is no signature: who
wants to deceive can make a new one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pe_jax.errors import Refused
from pe_jax.record import VERSION, Begun, Planned, Result, Stage, State
from pe_jax.storage import atomic
from pe_jax.storage.hashes import canonical, sha256

DIGEST = "digest"


class OtherVersion(ValueError):
    """A record that another release has written."""


Schema = TypeVar("Schema", Planned, Begun, Result, State)


def read(kind: type[Schema], path: Path) -> Schema | None:
    """A record from its file, as in `read(Result, folder / "result.json")`; None if the file is not
    there, Refused if it is damaged, or if another release has written it.
    """
    try:
        return parse(kind, path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except OtherVersion as error:
        raise Refused(f"{path}: {error}") from error
    except ValueError as error:
        raise Refused(f"{path} is damaged ({error}): delete it and run that run again") from error


def write(path: Path, record: Planned | State) -> Path:
    """Writes a record to its file, as a whole; returns its path."""
    return atomic.write(path, encode(record))


def parse(kind: type[Schema], text: str | bytes) -> Schema:
    """A record from its JSON. ValueError says what is wrong with it."""
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{error}") from error
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    version = data.get("version", VERSION)
    if kind is not State and isinstance(version, int) and version != VERSION:
        raise OtherVersion(
            f"it is of version {version} of the schema and this release reads version {VERSION}: "
            "read it with the release that wrote it"
        )
    digest = data.pop(DIGEST, None)
    try:
        record = msgspec.convert(data, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(f"{error}".replace("Object missing", "it lacks")) from error
    if sha256(canonical(data)) != digest:
        raise ValueError("it was changed after it was written: its digest is of other content")
    return record


def encode(record: Planned | State) -> str:
    """The record as canonical JSON with its digest: equal records give equal text."""
    whole = plain(record)
    return canonical(whole | {DIGEST: sha256(canonical(whole))})


def plain(record: Any) -> Any:
    """A record, or a part of one, as dictionaries, lists and numbers."""
    return json.loads(msgspec.json.encode(_fields(record)))


def _fields(value: Any) -> Any:
    # As dataclasses.asdict, without its copies: msgspec leaves out defaults that it has filled in.
    if dataclasses.is_dataclass(value):
        return {name: _fields(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {name: _fields(entry) for name, entry in value.items()}
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return [*map(_fields, value)]
    return value


def now() -> str:
    """The time in UTC as records hold it, ISO 8601 to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def put_state(folder: Path, stage: Stage, reason: str = "") -> None:
    """Writes how the run of this folder stands; `reason` is that of record.State."""
    write(folder / "state.json", State(stage=stage, since=now(), reason=reason))


def state_of(folder: Path) -> State | None:
    """How the run of this folder stands; None without a whole state.json."""
    with contextlib.suppress(Refused):
        return read(State, folder / "state.json")
