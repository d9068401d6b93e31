"""What is to be known of the runs of a table: by what they were carried out, where it was not the
same for all, and what is doubtful about their models and their text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pe_jax.record import Result
from pe_jax.report.words import count, join

THEN = ", then "  # between the commits that carried one run out


def differing(results: Sequence[Result]) -> str:
    """A sentence on the commits, versions and devices in which the runs differ; "" if in none."""
    parts = list(_parts(results))
    return f"The runs differ in what carried them out: {'; '.join(parts)}." if parts else ""


def doubts(results: Sequence[Result]) -> Iterator[str]:
    """What is doubtful about the models' encodings, and about the text that was scored."""
    for result in results:
        yield from result.advice
    scoring = results[0].config.get("eval", {})
    yield from (results[0].scored or results[0].corpus).doubts([scoring.get("split") or "test"])


def _parts(results: Sequence[Result]) -> Iterator[str]:
    commits = {commit for result in results for commit in result.commit.split(THEN)}
    if len(commits) > 1:
        yield f"{count(len(commits), 'commit')} of the code"
    for name in sorted({name for result in results for name in result.versions}):
        versions = {result.versions.get(name, "unknown") for result in results if result.versions}
        if len(versions) > 1:
            yield f"{name} {join(sorted(versions))}"
    kinds = {f"{r.device.kind} ({r.device.platform})" for r in results if r.device}
    if len(kinds) > 1:
        yield f"on {join(sorted(kinds))}"
    changed = [result.label for result in results if THEN in result.commit]
    if changed:
        yield f"the code changed while {join(changed)} went on"
