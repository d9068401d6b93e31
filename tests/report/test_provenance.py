"""What differs in how the runs of a table were carried out stands below it."""

import dataclasses

from studies import facts_of, make_records

from pe_jax.record import Device


def test_only_what_differs_is_named():
    a, b, *rest = make_records()
    gpu = Device(platform="gpu", kind="H100", count=1, threads=1)
    other = f"{a.commit}, then {'f' * 40}"
    newer = b.versions | {"jax": "9.9"}
    for changes, parts in (
        ({}, []),
        ({"commit": other}, [f"commit {a.commit} and ffffffffffff"]),
        ({"versions": newer, "device": gpu}, ["jax 0.10.2 and 9.9", "device H100 (gpu) and cpu"]),
    ):
        said = facts_of([a, dataclasses.replace(b, **changes), *rest])
        assert all(part in said for part in parts)
        assert ("The runs differ in" in said) == bool(parts)
