"""Copies of a text that differ in the order of the training files alone, as links.

    python -m experiments.studies.orders $PE_JAX_CORPORA/novels runs/orders

The text has the folders train, valid and test. In runs/orders/00 .. 23 the training files are
numbered in an order that is drawn at random. Files are read in the order of their names, and the
shuffle of a seed numbers their windows in that order, so a run reads other windows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from configs.noise import VALUES


def write(text: Path, out: Path) -> None:
    """Links the files of `text` in each order."""
    for number in range(VALUES):
        for split in ("train", "valid", "test"):
            folder = out / f"{number:02}" / split
            folder.mkdir(parents=True)
            files = sorted((text / split).resolve(strict=True).iterdir())
            if split == "train":
                files = [files[i] for i in np.random.default_rng(number).permutation(len(files))]
            for place, file in enumerate(files):
                (folder / f"{place:02}-{file.name}").symlink_to(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    write(asked.text, asked.out)


if __name__ == "__main__":
    main()
