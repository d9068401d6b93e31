"""Applies faults to toy runs and counts the outcomes. The exit code is 1 if anything was lost
silently.

python -m experiments.faults [--quick] [--only=NAME,NAME] [--seed=0] [--out=results/faults]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

NAMES = ("files", "kills", "sweeps", "disk")
QUICK = 6
"""With --quick one of this many files is damaged; a run is killed this many times; a sweep has this
many runs.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line. SystemExit with code 2 and a message if they are invalid."""
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


def main(given: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = arguments(given)
    os.environ["NPROC"] = "1"  # the number of threads decides the last bits
    from experiments.faults import disk, files, processes, toy
    from pe_jax.runs import environment
    from pe_jax.storage import atomic, records

    quick, seed = options.quick, options.seed
    attacks = {
        "files": lambda own: files.attacks(own, QUICK if quick else 1, seed),
        "kills": lambda own: processes.kills(own, QUICK if quick else 20, seed),
        "sweeps": lambda own: processes.sweeps(own, QUICK if quick else 100, seed),
        "disk": disk.attacks,
    }
    tallies = []
    with tempfile.TemporaryDirectory(prefix="pe_jax_faults_") as folder:
        for name in options.only:
            for tally in attacks[name](toy.Toy(Path(folder, name)).prepare()):
                tallies.append(tally)
                print(*tally.row(), sep=", ", flush=True)
    text = toy.table(tallies)
    print(f"\n{text}")
    if options.out:
        about = records.plain(environment.process()) | {"seed": seed, "quick": quick}
        about["faults"] = [dict(zip(toy.HEAD, tally.row(), strict=True)) for tally in tallies]
        atomic.write(options.out / "faults.json", json.dumps(about, indent=1) + "\n")
        print(atomic.write(options.out / "table.md", text))
    return int(any(tally.losses for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
