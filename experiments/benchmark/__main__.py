"""The time of a training step against x-transformers; or encodings' costs; or the time of a
pretrained model's forward pass against transformers.

python -m experiments.benchmark [--pairs=12] [--quick] [--one_core] [--allocator=tcmalloc]
python -m experiments.benchmark --encodings[=NAME,NAME] [--turns=6]
python -m experiments.benchmark --pretrained=hf:DIR [--lengths=8192,16384] [--swaps=pi,yarn]
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
    "encodings": ("pairs", "quick", "one_core", "allocator"),
    "pretrained": ("pairs", "quick", "one_core", "allocator"),
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line; SystemExit with code 2 and a message if they are wrong."""
    parser = _parser()
    options = parser.parse_args(given)
    forms = [name for name in OTHERS if getattr(options, name) is not None]
    if len(forms) > 1:
        parser.error("give one of --encodings and --pretrained")
    if not forms and options.turns is not None:
        parser.error("--turns belongs to --encodings and --pretrained; here it is --pairs")
    if options.pretrained is None and (options.lengths or options.swaps):
        parser.error("--lengths and --swaps belong to --pretrained")
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
    parser.add_argument("--pretrained", metavar="MODEL", help="hf:DIR or gguf:PATH")
    parser.add_argument("--lengths", type=_lengths, default=(), help="of --pretrained, in tokens")
    parser.add_argument("--swaps", type=_swaps, default=(), help="of --pretrained, timed beside it")
    parser.add_argument("--turns", type=int, help="of --encodings and --pretrained (default: 6)")
    parser.add_argument("--out", type=Path, help="default: results/benchmark[_encodings]")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.replace(" ", "").split(",") if name)


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(int(length) for length in _names(text))


def _swaps(text: str) -> tuple[str, ...]:
    from pe_jax.compose.parse import parse_list

    return tuple(parse_list(text))


def main() -> int:
    """The exit code."""
    options = arguments()
    if options.encodings is not None:
        from experiments.benchmark import encodings

        return encodings.main(options.encodings, options.turns, options.out)
    if options.pretrained is not None:
        from experiments.benchmark import pretrained

        lengths = options.lengths or (8192, 16384)
        turns = options.turns
        return pretrained.main(options.pretrained, lengths, options.swaps, turns, options.out)
    from experiments.benchmark import paired

    out = None if options.quick else options.out
    return paired.main(options.pairs, options.one_core, options.allocator, out)


if __name__ == "__main__":
    sys.exit(main())
