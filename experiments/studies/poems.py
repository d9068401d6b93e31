"""Tang and Song poems (312,000, 24 million characters), a document for each author.

    mkdir -p runs
    npm pack --pack-destination=runs chinese-poetry@2.0.1
    tar -xzf runs/chinese-poetry-2.0.1.tgz -C runs package/dist/quantangshi
    pe-jax run --config=configs/chinese.py:pe=rope --workdir=runs/chinese

The package is github.com/chinese-poetry/chinese-poetry (MIT). A poem has some 60 characters, less
than a window, so poems stand in the document of their author, in the order of the files.
"""

import collections
import json
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path("runs/package/dist/quantangshi")


def poems() -> Iterator[str]:
    """The title and the lines of each poem, poems of an author apart by an empty line."""
    authors = collections.defaultdict(list)
    files = sorted(FOLDER.glob("poet.*.json"))
    if not files:
        raise FileNotFoundError(f"{FOLDER}/poet.*.json: no poems; {__file__} says where from")
    for path in files:
        for poem in json.loads(path.read_text("utf-8")):
            authors[poem["author"]].append("\n".join([poem["title"], *poem["paragraphs"]]))
    return ("\n\n".join(texts) for texts in authors.values())
