"""Damage to the files of a run. Every file of an unfinished and of a finished run is damaged in
every way, each on a copy, and the same command is repeated.
"""

from __future__ import annotations

import logging
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from experiments.faults.toy import Tally, Toy, findings, of_result
from pe_jax.errors import Refused
from pe_jax.report import study
from pe_jax.runs.execute import execute
from pe_jax.runs.run import Run
from pe_jax.storage.jsonl import read_lines


def flip(data: bytes, rng: random.Random) -> bytes:
    """Flips one random bit."""
    changed = bytearray(data)
    if data:
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


DAMAGE: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "bit flipped": flip,
    "truncated": lambda data, rng: data[: rng.randrange(max(1, len(data)))],
    "deleted": lambda data, rng: None,
    "emptied": lambda data, rng: b"",  # as a power failure does
    "other JSON": lambda data, rng: rng.choice([b"{}", b"[]", b"5", b'{"version": 4}']),
}
"""The bytes of a file after the damage; None if it is deleted."""

FOLDERS = ("unfinished", "finished")
"""The damaged run: stopped halfway, or finished."""


class Heard(logging.Handler):
    """Keeps the messages of a run."""

    def __init__(self):
        super().__init__()
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())


def attacks(toy: Toy, every: int = 1, seed: int = 0) -> Iterator[Tally]:
    """A tally for each kind of damage, to every `every`-th of the files of each folder."""
    rng, run = random.Random(seed), Run.of(toy.config())
    finished, unfinished = toy.folder / "finished", toy.folder / "unfinished"
    if not finished.exists():
        _halfway(toy, unfinished)
        shutil.copytree(unfinished, finished)
        execute(run, finished)
    whole = findings(finished)
    for name, damage in DAMAGE.items():
        for folder in (toy.folder / name for name in FOLDERS):
            tally = Tally(f"{name}, {folder.name} run")
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            for path in (file.relative_to(folder) for file in files[::every]):
                with tempfile.TemporaryDirectory() as temporary:
                    copy = Path(shutil.copytree(folder, Path(temporary, "runs")))
                    if (data := damage((copy / path).read_bytes(), rng)) is None:
                        (copy / path).unlink()
                    else:
                        (copy / path).write_bytes(data)
                    outcome, came = _again(run, copy, whole)
                tally.add(outcome, f"{Path(*path.parts[1:])}: {came}")
            yield tally


def _halfway(toy: Toy, workdir: Path) -> None:
    """Creates a run that was stopped during training."""
    process = toy.start(*toy.run(), f"--workdir={workdir}")
    while process.poll() is None:
        if any(len(read_lines(path)) >= 8 for path in workdir.glob("*/metrics.jsonl")):
            process.send_signal(signal.SIGTERM)
            break
        time.sleep(0.02)
    said = process.communicate()[0]
    if not any(workdir.glob("*/checkpoints")) or any(workdir.glob("*/result.json")):
        raise RuntimeError(f"the toy run was not stopped halfway: {said}")


def _again(run: Run, workdir: Path, whole: dict[str, Any]) -> tuple[str, str]:
    """(outcome, description) of loading the damaged results and repeating the same command."""
    heard, logger = Heard(), logging.getLogger("pe_jax")
    logger.addHandler(heard)
    try:
        try:
            shown = {r.id: of_result(r) for r in study.load(workdir, warn=heard.words.append)}
        except ValueError:  # no result is left
            shown = {}
        execute(run, workdir, verbose=False)
    except (Refused, OSError) as error:
        named = str(workdir) in str(error) and "\n" not in str(error)
        return "detected" if named else "lost", f"refused: {error}"
    except Exception as error:  # what a person would see as a traceback
        return "lost", f"{type(error).__name__}: {error}"
    finally:
        logger.removeHandler(heard)
    words, after = "; ".join(heard.words), findings(workdir)
    if {id: run["rows"] for id, run in after.items()} != {
        id: run["rows"] for id, run in whole.items()
    }:
        return "lost", f"other rows ({words})"
    if any(word in words for word in ("damaged", "set aside", "lost")):
        return "detected", words
    if after != whole or shown not in ({}, whole):
        return "lost", "other numbers, without a word"
    return "survived", words
