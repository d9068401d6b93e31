"""Test vectors, for any implementation of an encoding, and their checker.

    pe-jax conformance --out=DIR

DIR gets one NAME.json for each encoding and scaling whose values do not depend on learned
parameters, and check.py, which needs NumPy alone and names the fault of an implementation:

    from check import diagnose, load
    print(diagnose(load("yarn"), rotated_q=my_q, rotated_k=my_k))
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pe_jax.commands import cli

OPTIONS = cli.Options()
_OUT = OPTIONS.string("out", None, "Folder to write.")
VECTORS = Path(__file__).parents[1] / "conformance"


def main() -> int:
    if not _OUT.value:
        return cli.fail("--out=DIR is required: the folder to write")
    from pe_jax.storage import atomic

    files = sorted((*VECTORS.glob("*.json"), VECTORS / "check.py"))
    with atomic.together(Path(_OUT.value)) as draft:
        for file in files:
            shutil.copyfile(file, draft / file.name)
    print(f"{len(files)} files in {_OUT.value}")
    return 0
