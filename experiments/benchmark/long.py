"""Trained runs on one long sequence: time, peak memory, and the bits per byte of the same targets.

python -m experiments.benchmark.long --workdir=DIR [--lengths=16384,131072]
    [--gradients=4096,8192] [--swap=window] [--out=DIR]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line; SystemExit with code 2 and a message if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="scripts/long_context", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--workdir", type=Path, required=True, help="folder of finished runs")
    parser.add_argument("--lengths", type=_lengths, default=(16384, 32768, 65536, 131072))
    parser.add_argument("--gradients", type=_lengths, default=(4096, 8192), help='"": none')
    parser.add_argument("--swap", default="window", help='also with this; "": as trained alone')
    parser.add_argument("--out", type=Path, default=Path("results/long_context"))
    return parser.parse_args(given)


def _lengths(text: str) -> tuple[int, ...]:
    try:
        given = tuple(sorted({int(part) for part in text.split(",") if part}))
    except ValueError:
        given = (0,)
    if min(given, default=1) < 1:
        raise argparse.ArgumentTypeError(
            f"give numbers of tokens with commas between, such as 16384,131072; got {text!r}"
        )
    return given


def main() -> int:
    """The exit code."""
    options = arguments()
    from experiments.benchmark import long_report, long_runs
    from pe_jax.errors import Refused

    try:
        record = long_runs.run(options)
    except (ValueError, OSError, Refused) as error:
        print(f"scripts/long_context: {error}", file=sys.stderr)
        return 2
    long_report.write_all(record, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
