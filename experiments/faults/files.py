"""Damage to the files of a run: every file of an unfinished and of a finished one is changed in
every way, each on a copy, and the same command is given again.
"""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from experiments.faults.outcome import Outcome, Tally
from experiments.faults.toy import Toy, findings, of_result
from pe_jax.errors import Refused
from pe_jax.report import study
from pe_jax.runs.execute import execute
from pe_jax.runs.run import Run
from pe_jax.runs.view import Silent
from pe_jax.storage.history import read_lines


class Heard(Silent):
    """Keeps what a run says."""

    def __init__(self):
        self.words: list[str] = []

    def say(self, message: str) -> None:
        self.words.append(message)


def flip(path: Path, rng: random.Random) -> None:
    """Another bit somewhere."""
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, rng: random.Random) -> None:
    """The end cut off."""
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(max(1, len(data)))])


def delete(path: Path, rng: random.Random) -> None:
    """The file gone."""
    path.unlink()


def empty(path: Path, rng: random.Random) -> None:
    """A file that a power failure has left without its content."""
    path.write_bytes(b"")


def other(path: Path, rng: random.Random) -> None:
    """JSON, and of another meaning."""
    path.write_text(rng.choice(["{}", "[]", "5", '{"version": 4}']))


DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {
    "bit flipped": flip,
    "truncated": truncate,
    "deleted": delete,
    "emptied": empty,
    "other JSON": other,
}


FOLDERS = ("unfinished", "finished")
"""Which run is damaged: one that was stopped halfway, or that run when it has ended."""


class Attacked(NamedTuple):
    """What the run has come to after an attack."""

    findings: dict[str, Any]
    words: str
    """What was said, by the report of the damaged folder and by the run."""
    shown: dict[str, Any]
    """What the report of the damaged folder shows."""


def attacks(toy: Toy, every: int = 1, seed: int = 0) -> Iterator[Tally]:
    """A tally for each kind of damage, to every `every`-th of the files of each folder."""
    rng = random.Random(seed)
    run = Run.of(toy.config())
    folders = [toy.folder / name for name in FOLDERS]
    finished, unfinished = toy.folder / "finished", toy.folder / "unfinished"
    if not finished.exists():
        _halfway(toy, unfinished)
        shutil.copytree(unfinished, finished)
        execute(run, finished)
    whole = findings(finished)
    for name, damage in DAMAGE.items():
        for folder in folders:
            tally = Tally(f"{name}, {folder.name} run")
            found = sorted(path for path in folder.rglob("*") if path.is_file())
            for path in found[::every]:
                damaged = str(path.relative_to(folder))
                outcome, came = _attack(run, folder, damaged, damage, rng, whole)
                tally.add(outcome, f"{damaged.partition('/')[2]}: {came}")
            yield tally


def _halfway(toy: Toy, workdir: Path) -> None:
    """Leaves a run there that was stopped while it trained."""
    process = toy.run(workdir)
    while process.poll() is None:
        if any(len(read_lines(path)) >= 8 for path in workdir.glob("*/metrics.jsonl")):
            process.send_signal(signal.SIGTERM)
            break
        time.sleep(0.02)
    said = process.communicate()[0]
    if not any(workdir.glob("*/checkpoints")) or any(workdir.glob("*/result.json")):
        raise RuntimeError(f"the toy run was not stopped halfway: {said}")


def _attack(run, folder, damaged, damage, rng, whole) -> tuple[Outcome, str]:
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(shutil.copytree(folder, Path(temporary, "runs")))
        damage(copy / damaged, rng)
        try:
            after = _again(run, copy)
        except (Refused, OSError) as error:
            named = str(copy) in str(error) and "\n" not in str(error)
            return Outcome.DETECTED if named else Outcome.LOST, f"refused: {error}"
        except Exception as error:  # what a person would see as a traceback
            return Outcome.LOST, f"{type(error).__name__}: {error}"
    rows = {id: found["rows"] for id, found in whole.items()}
    told = any(word in after.words for word in ("damaged", "set aside", "lost"))
    if {id: found["rows"] for id, found in after.findings.items()} != rows:
        return Outcome.LOST, f"other rows ({after.words})"
    if not told and (after.findings != whole or after.shown not in ({}, whole)):
        return Outcome.LOST, "other numbers, without a word"
    return Outcome.DETECTED if told else Outcome.SURVIVED, after.words


def _again(run: Run, workdir: Path) -> Attacked:
    """Reports the damaged folder, and gives the same command again."""
    words: list[str] = []
    try:
        shown = {r.id: of_result(r) for r in study.load(workdir, warn=words.append)}
    except ValueError:  # no result is left
        shown = {}
    heard = Heard()
    execute(run, workdir, view=heard)
    return Attacked(findings(workdir), "; ".join(words + heard.words), shown)
