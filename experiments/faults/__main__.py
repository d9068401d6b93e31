"""Faults are done to toy runs, and what comes of them is counted. The exit code is 1 if anything
was lost without a word.

python -m experiments.faults [--quick] [--only=NAME,NAME] [--seed=0] [--out=results/faults]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

NAMES = ("files", "kills", "sweeps", "disk")
QUICK = 6
"""With --quick one of so many files is damaged, a run is killed as many times, and a sweep has as
many runs.
"""


def main(given: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = arguments(given)
    os.environ["NPROC"] = "1"  # the number of threads decides the last bits
    from experiments.faults import outcome
    from pe_jax.runs import environment
    from pe_jax.storage import atomic

    tallies, begun = [], time.monotonic()
    about = environment.environment() | {"seed": options.seed, "quick": options.quick}
    with tempfile.TemporaryDirectory(prefix="pe_jax_faults_") as folder:
        for tally in _tallies(options, Path(folder)):
            tallies.append(tally)
            fault, tried, survived, detected, lost = tally.row()
            print(
                f"{time.monotonic() - begun:4.0f} s  {fault}: {tried} tried, {survived} survived, "
                f"{detected} detected, {lost} lost",
                flush=True,
            )
    text = outcome.table(tallies)
    print(f"\n{text}")
    if options.out:
        counted = [dict(zip(outcome.HEAD, tally.row(), strict=True)) for tally in tallies]
        written = json.dumps(about | {"faults": counted}, indent=1) + "\n"
        atomic.write(options.out / "faults.json", written)
        print(atomic.write(options.out / "table.md", text))
    return int(any(tally.losses for tally in tallies))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line; SystemExit with code 2 and a message if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="scripts/faults", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="a sample of the faults")
    parser.add_argument("--only", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments and places")
    parser.add_argument("--out", type=Path, help="folder for the table; default: none")
    options = parser.parse_args(given)
    options.only = options.only.split(",")
    if unknown := sorted({*options.only} - {*NAMES}):
        parser.error(f"--only names some of {', '.join(NAMES)}, got {', '.join(unknown)}")
    return options


def _tallies(options: argparse.Namespace, folder: Path) -> Iterator:
    """What each kind of fault has come to, as it is known."""
    from experiments.faults import disk, files, kills, sweeps
    from experiments.faults.toy import Toy

    if "files" in options.only:
        toy = Toy(folder / "files").prepare()
        yield from files.attacks(toy, QUICK if options.quick else 1, options.seed)
    if "kills" in options.only:
        toy = Toy(folder / "kills").prepare()
        yield from kills.attacks(toy, QUICK if options.quick else 20, options.seed)
    if "sweeps" in options.only:
        toy = Toy(folder / "sweeps").prepare()
        yield from sweeps.attacks(toy, QUICK if options.quick else 100, options.seed)
    if "disk" in options.only:
        yield from disk.attacks(Toy(folder / "disk").prepare())


if __name__ == "__main__":
    sys.exit(main())
