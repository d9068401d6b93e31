"""A full disk. Each command is started on a small tmpfs. It must report in one line that there is
no room and leave no temporary files. After room is made, the same command must succeed.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from experiments.faults.toy import Tally, Toy

SIZE = 4 << 20  # bytes of the tmpfs
CASES = {
    "{run} --workdir={disk}/new": (0, 400),
    "{sweep} --jobs=2 --workdir={disk}/new": (0, 800),
    "report --workdir={runs} --out={disk}/out": (0, 200),
    "compare {runs} {runs} --out={disk}/out": (0,),
    "evaluate --workdir={disk}/run --lengths=20": (0,),
    "prepare --source=documents:{texts}:texts --store={disk}": (0, 40),
}
"""The KiB that are free when a command begins; each value is tried. {disk} is the full disk, {runs}
are finished runs elsewhere.
"""


def attacks(toy: Toy) -> Iterator[Tally]:
    """A tally for each command; none, with a message, if a tmpfs cannot be mounted."""
    disk, runs, texts = toy.folder / "disk", toy.folder / "runs", toy.folder / "texts.py"
    disk.mkdir()
    texts.write_text("def texts():\n    yield from (f'text {i} ' * 200 for i in range(400))\n")
    try:
        with _mounted(disk):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"full disks are not tried, since a tmpfs cannot be mounted here: {error}")
        return
    names = {"sweep": shlex.join(toy.sweep(2)), "run": shlex.join(toy.run())}
    places = {"texts": texts, "runs": runs, "disk": disk}
    names |= {name: shlex.quote(str(path)) for name, path in places.items()}
    code, said = _said(toy, [*toy.sweep(2), f"--workdir={runs}"])
    if code:
        raise RuntimeError(f"the sweep on a disk with room has failed: {said[-300:]}")
    for case, rooms in CASES.items():
        arguments = shlex.split(case.format(**names))
        tally = Tally(f"full disk, {arguments[0]}")
        for room in rooms:
            faults = _tried(toy, arguments, disk, runs, room)
            what = f"{room} KiB free: {'; '.join(faults)}"
            tally.add("lost" if faults else "detected", what)
        yield tally


def _tried(toy: Toy, arguments: list[str], disk: Path, runs: Path, room: int) -> list[str]:
    """The faults of a command on a disk with `room` KiB free, and of the same command after room is
    made.
    """
    with _mounted(disk):
        shutil.copytree(next(runs.glob("*/result.json")).parent, disk / "run")
        free = shutil.disk_usage(disk).free
        (disk / "ballast").write_bytes(bytes(free - room * 1024))
        before = set(disk.rglob("*"))
        code, said = _said(toy, arguments)
        faults = [] if code in (1, 2) else [f"exit code {code}"]
        faults += ["a traceback"] * ("Traceback" in said)
        faults += ["no word of room"] * ("make room" not in said)
        new = {*disk.rglob("*")} - before
        faults += [f"left {path}" for path in new if path.name[0] == "." or "tmp" in path.name]
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


def _said(toy: Toy, arguments: list[str]) -> tuple[int, str]:
    """The exit code of a command, and its output."""
    process = toy.start(*arguments)
    said, _ = process.communicate(timeout=300)
    return process.returncode, said
