"""The fault suite: what it counts, and that it sees a loss."""

import json
from unittest import mock

import pytest

from experiments.faults import files, processes
from experiments.faults.toy import Toy
from pe_jax.storage import records


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.setenv("NPROC", "1")
    return Toy(tmp_path).prepare()


def change(text, rng):
    """Another score in a result, in JSON that is whole."""
    if text.startswith(b"{") and b'"rows"' in text:
        data = json.loads(text)
        data["rows"][0]["value"] += 1
        return json.dumps(data).encode()
    return text


@pytest.mark.slow
def test_damaged_files_are_survived_or_named_and_a_changed_score_is_seen(toy, monkeypatch):
    some = {name: files.DAMAGE[name] for name in ("bit flipped", "deleted")}
    monkeypatch.setattr(files, "DAMAGE", some)
    tallies = [*files.attacks(toy, every=15)]
    assert len(tallies) == 4 and all(tally.counts for tally in tallies)
    assert [tally.losses for tally in tallies] == [[]] * len(tallies)

    monkeypatch.setattr(files, "DAMAGE", {"changed": change})
    monkeypatch.setattr(files, "FOLDERS", ("finished",))
    (told,) = files.attacks(toy)
    assert told.counts["detected"] == 1 and not told.losses
    monkeypatch.setattr(records, "sha256", lambda text: mock.ANY)  # equal to any digest
    (blind,) = files.attacks(toy)
    assert len(blind.losses) == 1 and "result.json: other rows" in blind.losses[0]


@pytest.mark.slow
def test_kills_are_survived(toy):
    for tally in (*processes.kills(toy, 2), *processes.sweeps(toy, 3)):
        assert tally.counts and not tally.losses, tally
