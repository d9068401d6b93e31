"""What differs in how the runs of a table were carried out is said below it."""

import dataclasses

from studies import make_records, table_of

from pe_jax.record import Device, Process
from pe_jax.report.notes import differing


def test_only_what_differs_is_said():
    a, b, *rest = make_records()
    assert differing([a, b, *rest]) == ""
    assert differing([a, dataclasses.replace(b, commit="f" * 40)]) == (
        "The runs differ in what carried them out: 2 commits of the code."
    )
    newer = dataclasses.replace(b, versions=b.versions | {"jax": "9.9"})
    gpu = Device(platform="gpu", kind="H100", count=1, threads=1)
    changed = dataclasses.replace(newer, device=gpu, commit=f"{a.commit}, then {'f' * 40}")
    said = differing([a, changed])
    assert "2 commits" in differing([a, changed, dataclasses.replace(b, commit="f" * 40)])
    for part in (f"jax {a.versions['jax']} and 9.9", "on ", "H100 (gpu)", "2 commits"):
        assert part in said
    assert said.endswith(f"the code changed while {b.label} went on.")
    assert said in table_of([a, changed]).notes
    moved = dataclasses.replace(b, devices=(gpu, a.device))
    assert differing([a, moved]).endswith(f"the devices changed while {b.label} went on.")


def test_scores_that_were_computed_otherwise_are_said():
    a, b = (dataclasses.replace(r, scored_by=()) for r in make_records()[:2])
    own = Process(commit=a.commit, versions=a.versions, device=a.device)
    other = dataclasses.replace(own, commit="f" * 40, versions=own.versions | {"jax": "9.9"})

    def said(of_a, of_b):
        scored = (dataclasses.replace(r, scored_by=by) for r, by in ((a, of_a), (b, of_b)))
        return differing([*scored])

    told = "The scores differ in what computed them: 2 commits of the code; jax {} and 9.9."
    assert said((own,), (own,)) == said((other,), (other,)) == ""
    assert said((own,), (own, other)) == told.format(own.versions["jax"])
    assert said((Process(),), (Process(),)) == ""  # records of earlier releases
    unknown = "What computed some of the scores is not recorded."
    assert said((Process(), own), (own,)) == unknown
    assert said((Process(), own), (other,)) == f"{told.format(own.versions['jax'])} {unknown}"


def test_what_differs_in_runs_and_in_their_scores_alike_is_said_once():
    a, b = make_records()[:2]
    b = dataclasses.replace(b, commit="f" * 40)
    alike = [
        dataclasses.replace(
            r, scored_by=(Process(commit=r.commit, versions=r.versions, device=r.device),)
        )
        for r in (a, b)
    ]
    assert differing(alike) == "The runs differ in what carried them out: 2 commits of the code."
