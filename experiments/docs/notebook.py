"""Executes docs/positions.ipynb in a fresh kernel and writes the outputs into it.

The kernel works in an empty folder, so every result comes from the present code and no file is left
behind. Needs the packages of the extra "notebook".
"""

import tempfile
import time
from pathlib import Path

import nbformat  # pyright: ignore[reportMissingImports]
from nbclient import NotebookClient  # pyright: ignore[reportMissingImports]

from pe_jax.storage.atomic import write

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/positions.ipynb"


def main() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    begun = time.monotonic()

    def tell_progress(cell, cell_index):
        if cell.cell_type == "code":
            seconds = time.monotonic() - begun
            print(f"{seconds:4.0f} s  cell {cell_index + 1} of {len(notebook.cells)}: {cell.id}")

    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            resources={"metadata": {"path": folder}},
            kernel_name="python3",
            timeout=None,
            record_timing=False,
            coalesce_streams=True,  # keeps the last of lines that overwrite each other
            on_cell_execute=tell_progress,
        ).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # else the kernel's own version
    write(NOTEBOOK, nbformat.writes(notebook) + "\n")
    print(f"{NOTEBOOK.name}: executed in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
