"""Text that has changed since runs were trained or scored on it.

A finished run needs no text, so nothing else would tell. Each source is read and hashed, once for
all runs: about 10 ms for each MB, of which dates and sizes of files would save most, but they also
change where the text does not, and TFDS has no files to look at.
"""

from __future__ import annotations

from collections.abc import Iterable

from pe_jax.data.load import load
from pe_jax.record import Result
from pe_jax.runs.matching import listed
from pe_jax.runs.run import Run


def changed(finished: Iterable[tuple[Run, Result]]) -> list[str]:
    """A sentence for each source whose text is no longer that of these finished runs. Nothing is
    said of a source that cannot be read any more.
    """
    labels: dict[tuple[str, str, str, str], list[str]] = {}
    for run, result in finished:
        uses = [("trained", run.data.source, result.corpus)]
        if result.scored:
            uses.append(("scored", run.eval.source, result.scored))
        for verb, source, corpus in uses:
            key = verb, source, run.data.data_dir, corpus.hash
            labels.setdefault(key, []).append(run.label)
    today = {place: _hash(*place) for place in {key[1:3] for key in labels}}
    return [
        f"the text of {source} has changed since these runs were {verb} on it: {listed(names)}; "
        "with another --workdir they are run on the text of today"
        for (verb, source, root, hash), names in labels.items()
        if today[source, root] not in (None, hash)
    ]


def _hash(source: str, root: str) -> str | None:
    """The hash of the text of a source; None where it cannot be read."""
    try:
        return load(source, root).hash
    except (ValueError, OSError):
        return None
