"""Compiles programs for TPU v5e, and those of configs/gpt2_small.py for H100, on a machine without.

python -m experiments.accelerators [gpt2_small] [--out=DIR]
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
COMPILERS = "libtpu", "jax_cuda13_plugin"


def main(given: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/accelerators", description=(__doc__ or "").partition("\n")[0]
    )
    known = ["encodings_gpu", "gpt2_small"]
    parser.add_argument("configs", nargs="*", default=known, help="of " + ", ".join(known))
    parser.add_argument("--out", type=Path, default=Path("results/accelerators"))
    options = parser.parse_args(given)
    if unknown := {*options.configs} - {*known}:
        parser.error(f"configs are {' and '.join(known)}, got {unknown.pop()}")
    if lacking := [name for name in COMPILERS if importlib.util.find_spec(name) is None]:
        print(
            f"scripts/accelerators: this environment has no {lacking[0]}, a compiler; without "
            "PYTHON the script makes one that has it",
            file=sys.stderr,
        )
        return 2
    os.environ.update(WITHOUT_TPU)  # before JAX is imported
    from experiments.accelerators import grid, kernels

    out = options.out
    if "encodings_gpu" in options.configs:
        kernels.run(out)
        print((out / "kernels.md").read_text())
    for name in options.configs:
        grid.run(name, list(grid.cases(name)), out)
        print((out / grid.FILES[name][1]).read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
