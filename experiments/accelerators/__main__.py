"""Compiles the programs of configs/encodings_gpu.py for TPU v5e, on a machine without one.

python -m experiments.accelerators [--out=DIR]
"""

from __future__ import annotations

import argparse
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


def main(given: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/accelerators", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=Path("results/accelerators"))
    out = parser.parse_args(given).out
    if importlib.util.find_spec("libtpu") is None:
        print(
            "scripts/accelerators: this environment has no libtpu, the compiler for TPU: "
            "scripts/setup --extra=tpu .venv-tpu makes one that has it",
            file=sys.stderr,
        )
        return 2
    os.environ.update(WITHOUT_TPU)  # before JAX is imported
    from experiments.accelerators import grid, kernels

    kernels.run(out)
    grid.run(list(grid.cases()), out)
    print((out / "table.md").read_text(), (out / "kernels.md").read_text(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
