"""Compiles the programs of configs/encodings_gpu.py for TPU v5e, on a machine that has none.

python -m experiments.accelerators [--out=DIR]
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

WITHOUT_TPU = {  # libtpu asks no cloud for a TPU, and locks none against other processes
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line; SystemExit with code 2 and a message if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="scripts/accelerators", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=Path("results/accelerators"))
    return parser.parse_args(given)


def main() -> int:
    """The exit code."""
    options = arguments()
    say = functools.partial(print, file=sys.stderr, flush=True)  # the report has standard output
    if importlib.util.find_spec("libtpu") is None:
        say(
            "scripts/accelerators: this environment has no libtpu, the compiler for TPU: "
            "scripts/setup --extra=tpu .venv-tpu makes one that has it"
        )
        return 2
    os.environ.update(WITHOUT_TPU)
    from experiments.accelerators import compiled, grid
    from experiments.accelerators.table import markdown

    try:
        rows = grid.run(list(grid.cases()), compiled.Case.lower, compiled.measure, options.out, say)
    except KeyboardInterrupt:
        say(f"Stopped. What is compiled is in {options.out}; the same command goes on.")
        return 130
    print(f"{markdown(rows)}\n\nWritten: {options.out}/table.md and {grid.NAME}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
