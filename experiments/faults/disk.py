"""A full disk: each command is started on a small tmpfs, must say in one line that there is no
room, and must leave nothing temporary behind; then there is room, and the same command must end
well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from experiments.faults.outcome import Outcome, Tally
from experiments.faults.toy import Toy

SIZE = 4 << 20  # bytes of the tmpfs


class Case(NamedTuple):
    """A command, as its arguments, and how much room there is when it begins."""

    command: str
    """{disk} is the full disk, {runs} are finished runs elsewhere."""
    rooms: tuple[int, ...]
    """KiB; it is tried with each of them."""


CASES = (
    Case("run --config=replay.py:{run} --workdir={disk}/new", (0, 400)),
    Case("sweep --config={sweep} --jobs=2 --workdir={disk}/new", (0, 800)),
    Case("report --workdir={runs} --out={disk}/out", (0, 200)),
    Case("compare {runs} {runs} --out={disk}/out", (0,)),
    Case("evaluate --workdir={disk}/run --lengths=20", (0,)),
    Case("prepare --source=files:{text} --name=ours --data_dir={disk}", (0, 40)),
)


def attacks(toy: Toy) -> Iterator[Tally]:
    """A tally for each command; none, and a word of it, where a tmpfs cannot be mounted."""
    disk = toy.folder / "disk"
    disk.mkdir()
    try:
        with _mounted(disk):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"full disks are not tried, since a tmpfs cannot be mounted here: {error}")
        return
    names = {"sweep": toy.sweep(2), "text": toy.folder / "text", "runs": toy.folder / "runs"}
    names |= {"run": toy.planned(), "disk": disk}
    code, said = _said(toy, f"sweep --config={names['sweep']} --workdir={names['runs']}".split())
    if code:
        raise RuntimeError(f"the sweep on a disk with room has failed: {said[-300:]}")
    for case in CASES:
        arguments = case.command.format(**names).split()
        tally = Tally(f"full disk, {arguments[0]}")
        for room in case.rooms:
            faults = _tried(toy, arguments, disk, names["runs"], room)
            what = f"{room} KiB free: {'; '.join(faults)}"
            tally.add(Outcome.LOST if faults else Outcome.DETECTED, what)
        yield tally


def _tried(toy: Toy, arguments: list[str], disk: Path, runs: Path, room: int) -> list[str]:
    """What is wrong with how a command went on a disk of so little room."""
    with _mounted(disk):
        shutil.copytree(next(runs.glob("*/result.json")).parent, disk / "run")
        found = os.statvfs(disk)
        free = found.f_bavail * found.f_bsize
        (disk / "ballast").write_bytes(bytes(free - room * 1024))
        before = set(disk.rglob("*"))
        code, said = _said(toy, arguments)
        faults = [] if code in (1, 2) else [f"exit code {code}"]
        faults += ["a traceback"] * ("Traceback" in said)
        faults += ["no word of room"] * ("make room" not in said)
        faults += [f"left {path}" for path in {*disk.rglob("*")} - before if _is_temporary(path)]
        (disk / "ballast").unlink()
        code, said = _said(toy, arguments)
        return faults + [f"with room it fails: {said[-300:]}"] * bool(code)


@contextlib.contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".") or "tmp" in path.name


def _said(toy: Toy, arguments: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    process = toy.start(*arguments)
    said, _ = process.communicate(timeout=300)
    return process.returncode, said
