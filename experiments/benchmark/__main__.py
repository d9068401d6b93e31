"""Benchmarks: a training step compared with other libraries, of encoders and decoders, the cost of
encodings, long passes, text larger than memory.

python -m experiments.benchmark step [--turns=12] [--one_core]
python -m experiments.benchmark profile [SPEC]
python -m experiments.benchmark masked [--turns=12]
python -m experiments.benchmark encodings [NAME ...] [--turns=6]
python -m experiments.benchmark passes hf:DIR|RUN [--lengths=8192,131072] [--swaps=pi,window]
python -m experiments.benchmark data --folder=DIR [--gigabytes=4] [--source=stdlib]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line. SystemExit with code 2 and a message if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark",
        description=(__doc__ or "").partition("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, turns: int, out: str, help: str) -> argparse.ArgumentParser:
        own = commands.add_parser(name, help=help, formatter_class=parser.formatter_class)
        own.add_argument("--out", type=Path, default=Path(out), help="folder of record and table")
        own.add_argument("--turns", type=_number, default=turns, help="measurements of each side")
        return own

    step = command(
        "step", 12, "results/benchmark", "a training step, compared with other libraries"
    )
    step.add_argument(
        "--one_core", action="store_true", help="CPU time on one core, for less noise"
    )
    step.add_argument("--quick", action="store_true", help="3 turns, printed and not written")
    profiled = command("profile", 3, "results/benchmark", "the parts of pe_jax's step")
    profiled.add_argument("spec", nargs="?", default="rope", help="the encoding")
    command("masked", 12, "results/benchmark", "a training step of an encoder and of a decoder")
    costs = command(
        "encodings", 6, "results/benchmark_encodings", "every encoding relative to nope"
    )
    costs.add_argument("names", nargs="*", help="only these, printed and not written")
    passes = command("passes", 6, "results/benchmark", "a model's forward pass at long lengths")
    passes.add_argument("model", help="hf:DIR, gguf:PATH or the folder of a finished run")
    passes.add_argument("--lengths", type=_numbers, default=[8192, 16384], help="in tokens")
    passes.add_argument("--swaps", type=_swaps, default=[], help="also timed")
    text = command("data", 12, "results/benchmark", "text larger than memory")
    text.add_argument("--folder", type=Path, required=True, help="where text and store are made")
    text.add_argument("--gigabytes", type=float, default=4.0, help="of text")
    text.add_argument("--source", default="stdlib", help="the corpus that it is made from")
    return parser.parse_args(given)


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"numbers are at least 1, got {text!r}")
    return int(text)


def _numbers(text: str) -> list[int]:
    return sorted({_number(part) for part in text.split(",") if part})


def _swaps(text: str) -> list[str]:
    from pe_jax.terms import elements

    return [swap.replace(" ", "") for swap in elements(text)]


def main() -> int:
    """Returns the exit code."""
    options = arguments()
    from experiments.benchmark import compared, data, encodings, masked, profile
    from pe_jax.encodings import ENCODINGS
    from pe_jax.errors import Refused

    out = options.out
    try:
        if options.command == "step":
            quick = options.quick
            compared.step(3 if quick else options.turns, options.one_core, None if quick else out)
        elif options.command == "profile":
            profile.run(options.spec, options.turns, out)
        elif options.command == "masked":
            masked.run(options.turns, out)
        elif options.command == "encodings":
            plan = encodings.Plan(turns=options.turns)
            encodings.run(options.names or [*ENCODINGS], plan, None if options.names else out)
        elif options.command == "data":
            data.run(options.gigabytes, options.source, options.folder, options.turns, out)
        else:
            compared.passes(options.model, options.lengths, options.swaps, options.turns, out)
    except (ValueError, RuntimeError, OSError, Refused) as error:
        print(f"scripts/benchmark: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
