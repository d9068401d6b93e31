"""The time of a training step, or of a whole job, against x-transformers; or encodings' costs.

python -m experiments.benchmark [--pairs=12] [--quick] [--one_core] [--allocator=tcmalloc]
python -m experiments.benchmark --job[=NAME,NAME] [--turns=6] [--one_core]
python -m experiments.benchmark --encodings[=NAME,NAME] [--turns=6]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

OUT = "results/benchmark"
ENCODINGS_OUT = "results/benchmark_encodings"
QUICK = 3  # turns of --quick
OTHERS = {  # what goes with the time of a training step, and not with these
    "job": ("pairs", "quick", "allocator"),
    "encodings": ("pairs", "quick", "one_core", "allocator"),
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line; SystemExit with code 2 and a message if they are wrong."""
    parser = _parser()
    options = parser.parse_args(given)
    forms = [name for name in OTHERS if getattr(options, name) is not None]
    if len(forms) > 1:
        parser.error("give one of --job and --encodings")
    if not forms and options.turns is not None:
        parser.error("--turns belongs to --job and --encodings; here it is --pairs")
    for name in OTHERS[forms[0]] if forms else ():
        if getattr(options, name) != parser.get_default(name):
            parser.error(f"--{name} does not go with --{forms[0]}, which has --turns")
    options.turns = 6 if options.turns is None else options.turns
    for name in ("pairs", "turns"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    if options.quick:
        options.pairs = QUICK
    if options.out is None:
        options.out = Path(OUT if options.encodings is None else ENCODINGS_OUT)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--pairs", type=int, default=12, help="turns of each side (default: 12)")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK} turns, printed and not written"
    )
    parser.add_argument(
        "--one_core",
        action="store_true",
        help="CPU time on one core, which neighbours hardly disturb, in place of wall time on all",
    )
    parser.add_argument("--allocator", choices=("malloc", "tcmalloc"), default="malloc")
    parser.add_argument(
        "--encodings",
        type=_names,
        nargs="?",
        const=(),
        metavar="NAME,NAME",
        help="the cost of these encodings, or of all, against nope; goes on where it was cut off",
    )
    parser.add_argument(
        "--job",
        type=_names,
        nargs="?",
        const=(),
        metavar="NAME,NAME",
        help="the whole job of these encodings, or of all that x-transformers has, too",
    )
    parser.add_argument("--turns", type=int, help="of --job and --encodings (default: 6)")
    parser.add_argument("--out", type=Path, help="default: results/benchmark[_encodings]")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.replace(" ", "").split(",") if name)


def main() -> int:
    """The exit code."""
    options = arguments()
    if options.encodings is not None:
        from experiments.benchmark import encodings

        return encodings.main(options.encodings, options.turns, options.out)
    if options.job is not None:
        from experiments.benchmark import job

        return job.main(options.job, options.turns, options.one_core, options.out)
    from experiments.benchmark import paired

    out = None if options.quick else options.out
    return paired.main(options.pairs, options.one_core, options.allocator, out)


if __name__ == "__main__":
    sys.exit(main())
