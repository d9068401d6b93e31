"""What is to be known of the runs of a table: by what they were carried out, where it was not the
same for all, and what is doubtful about their models and their text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pe_jax.record import Process, Result
from pe_jax.report.words import count, join

THEN = ", then "  # between the commits that carried one run out


def differing(results: Sequence[Result]) -> str:
    """On the commits, versions and devices in which the runs, or the processes that scored them,
    differ; "" if in none.
    """
    runs = [*_parts(results), *_changed(results)]
    scored_by = [process for result in results for process in result.scored_by]
    known = [process for process in scored_by if process != Process()]
    scores = list(_parts(known))
    told = [f"The runs differ in what carried them out: {'; '.join(runs)}."] * bool(runs)
    if scores and scores != runs:
        told.append(f"The scores differ in what computed them: {'; '.join(scores)}.")
    if 0 < len(known) < len(scored_by):
        told.append("What computed some of the scores is not recorded.")
    return " ".join(told)


def doubts(results: Sequence[Result]) -> Iterator[str]:
    """What is doubtful about the models' encodings, and about the text that was scored."""
    for result in results:
        yield from result.advice
    scoring = results[0].config.get("eval", {})
    yield from (results[0].scored or results[0].corpus).doubts([scoring.get("split") or "test"])


def _parts(processes: Sequence[Process]) -> Iterator[str]:
    """What of several processes differs."""
    commits = {commit for process in processes for commit in process.commit.split(THEN)}
    if len(commits) > 1:
        yield f"{count(len(commits), 'commit')} of the code"
    for name in sorted({name for process in processes for name in process.versions}):
        versions = {p.versions.get(name, "unknown") for p in processes if p.versions}
        if len(versions) > 1:
            yield f"{name} {join(sorted(versions))}"
    kinds = {f"{p.device.kind} ({p.device.platform})" for p in processes if p.device}
    if len(kinds) > 1:
        yield f"on {join(sorted(kinds))}"


def _changed(results: Sequence[Result]) -> Iterator[str]:
    changed = [result.label for result in results if THEN in result.commit]
    if changed:
        yield f"the code changed while {join(changed)} went on"
