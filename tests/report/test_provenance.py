"""What differs in how the runs of a table were carried out is said below it."""

import dataclasses

from pe_jax.record import Device
from pe_jax.report import study, tables
from pe_jax.report.provenance import differing


def test_only_what_differs_is_said():
    a, b, *rest = study.load("results/quickstart")
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
    assert said in tables.extrapolation([a, changed]).notes
