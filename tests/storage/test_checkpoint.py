"""Checkpoints: what was saved comes back bit by bit, or an older one does and a message says so."""

import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import messages

from pe_jax.errors import Refused
from pe_jax.storage.checkpoints import KEPT, Checkpoints, digests

# the tasks that Orbax leaves when a file is damaged complain as they are collected
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def state(step, size=40, dtype=np.float32):
    rng = np.random.default_rng(step)
    weights = rng.normal(size=(2, size, size)).astype(dtype)
    weights[0, 0, :4] = [np.nan, np.inf, -0.0, 1e-40]
    return {
        "params": {"blocks": {0: {"kernel": weights}}, "table": rng.normal(size=3).astype(dtype)},
        "optimizer": (
            rng.integers(0, 9, 2).astype(np.int32),
            jnp.bfloat16(1.5) * jnp.ones(3, "bfloat16"),
        ),
        "step": np.int32(step),
    }


def checkpoints(folder, *steps):
    made = Checkpoints(folder)
    for step in steps:
        made.save(step, state(step), {"seconds": step / 4})
    return made


def restored(folder, size=40):
    """(step, state, what was said), after a look at every bit."""
    with messages() as said:
        found = Checkpoints(folder).restore(state(0, size))
    if found is None:
        return None, None, said
    step, got, note = found
    assert note == {"seconds": step / 4}
    assert jax.tree.structure(got) == jax.tree.structure(state(step, size))
    assert digests(got) == digests(state(step, size))
    return step, got, said


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def largest(folder):
    return max(files(folder), key=lambda path: path.stat().st_size)


def flip(path, place=0.5):
    bytes_ = bytearray(path.read_bytes())
    bytes_[int(place * len(bytes_))] ^= 4
    path.write_bytes(bytes_)


def test_a_saved_state_comes_back_bit_by_bit(tmp_path):
    assert restored(tmp_path / "new") == (None, None, [])
    checkpoints(tmp_path, 5)
    step, got, said = restored(tmp_path)
    assert (step, said) == (5, [])
    kernel = np.asarray(got["params"]["blocks"][0]["kernel"])
    assert kernel.tobytes() == state(5)["params"]["blocks"][0]["kernel"].tobytes()
    assert got["optimizer"][1].dtype == jnp.bfloat16


def test_the_layers_of_a_deep_model_come_back_in_their_order(tmp_path):
    deep = {"params": {"blocks": [{"kernel": jnp.full(3, layer)} for layer in range(12)]}}
    Checkpoints(tmp_path).save(1, deep, {})
    found = Checkpoints(tmp_path).restore(deep)
    assert [block["kernel"][0] for block in found[1]["params"]["blocks"]] == [*range(12)]


def test_the_newest_from_before_a_step_is_kept_and_taken(tmp_path):
    made = checkpoints(tmp_path, 1, 2, 3)
    for step in (4, 5, 6, 7):
        made.save(
            step, state(step), {"seconds": step / 4}, before=(1, 4) if step < 6 else (6, 4, 3)
        )
    assert made.steps == [3, 5, 6, 7]
    for before, step in ((8, 7), (6, 5), (4, 3)):
        found = Checkpoints(tmp_path).restore(state(0), before)
        assert found is not None and found[0] == step
    assert made.restore(state(0), 3) is None
    assert Checkpoints(tmp_path, read_only=True).steps == [3, 5, 6, 7]
    Checkpoints(tmp_path).save(8, state(8), {})
    assert made.manager.reload() is None and made.steps == [7, 8]


@pytest.mark.parametrize("trouble", [MemoryError(), OSError(5, "Input/output error")])
def test_trouble_of_the_machine_sets_no_checkpoint_aside(tmp_path, monkeypatch, trouble):
    made = checkpoints(tmp_path, 1, 2)

    def fails(*_, **__):
        raise trouble

    with monkeypatch.context() as patched:
        patched.setattr(made.manager, "restore", fails)
        with pytest.raises(type(trouble)):
            made.restore(state(0))
    assert restored(tmp_path)[0] == 2


def test_the_newest_is_taken_and_the_oldest_forgotten(tmp_path):
    checkpoints(tmp_path, 1, 9, 10)
    assert restored(tmp_path)[0] == 10
    assert sorted(Checkpoints(tmp_path).manager.all_steps()) == [9, 10] and KEPT == 2


DAMAGE = {
    "the data cut short": lambda step: os.truncate(
        largest(step), largest(step).stat().st_size // 2
    ),
    "an empty folder": lambda step: [path.unlink() for path in files(step)],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_set_aside_for_the_one_before(tmp_path, damage):
    checkpoints(tmp_path, 3, 7)
    DAMAGE[damage](tmp_path / "7")
    step, _, said = restored(tmp_path)
    assert step == 3
    assert len(said) == 1 and "step 7" in said[0] and "corrupt-7" in said[0]
    assert (tmp_path / "corrupt-7").is_dir() and not (tmp_path / "7").exists()
    assert restored(tmp_path)[::2] == (3, [])

    checkpoints(tmp_path, 7)  # the training goes on and comes by again
    assert restored(tmp_path)[::2] == (7, [])
    flip(largest(tmp_path / "7"))
    assert "corrupt-7" in restored(tmp_path)[2][0]


def test_where_all_are_damaged_there_is_none(tmp_path):
    """Orbax logs what it raises too: it is silent meanwhile, and as loud as before afterwards."""
    level = logging.getLogger("absl").level
    checkpoints(tmp_path, 3, 7)
    for step in ("3", "7"):
        flip(largest(tmp_path / step))
    step, _, said = restored(tmp_path)
    assert step is None and len(said) == 2
    assert "step 7" in said[0] and "step 3" in said[1]
    assert {path.name for path in tmp_path.iterdir()} >= {"corrupt-3", "corrupt-7"}
    assert logging.getLogger("absl").level == level


def test_any_file_that_is_gone_or_empty_gives_the_whole_state_or_the_one_before(tmp_path):
    checkpoints(tmp_path / "whole", 3, 7)
    names = [path.relative_to(tmp_path / "whole") for path in files(tmp_path / "whole" / "7")]
    outcomes = set()
    for i, name in enumerate(names):
        for hurt in (Path.unlink, lambda path: path.write_bytes(b"")):
            folder = tmp_path / f"{i}-{hurt.__name__}"
            shutil.copytree(tmp_path / "whole", folder)
            hurt(folder / name)
            step, _, said = restored(folder)  # asserts the bits
            assert (step, len(said)) in ((7, 0), (3, 1)), name
            outcomes.add(step)
    assert 3 in outcomes


def test_a_flipped_bit_anywhere_gives_the_whole_state_or_the_one_before(tmp_path):
    checkpoints(tmp_path / "whole", 3, 7)
    names = [path.relative_to(tmp_path / "whole") for path in files(tmp_path / "whole" / "7")]
    outcomes = []
    for name in names:
        places = np.linspace(0, 0.999, 12 if name.parts[1] == "meta" else 2)
        for i, place in enumerate(places if (tmp_path / "whole" / name).stat().st_size else ()):
            folder = tmp_path / f"{i}-{'-'.join(name.parts)}"
            shutil.copytree(tmp_path / "whole", folder)
            flip(folder / name, place)
            step, _, said = restored(folder)  # asserts the bits
            assert (step, len(said)) in ((7, 0), (3, 1)), (name, place)
            outcomes.append((name.parts[1], step))
    assert {("state", 3), ("meta", 3)} <= set(outcomes)


def test_a_description_that_orbax_cannot_read_is_named(tmp_path):
    checkpoints(tmp_path, 3, 7)
    (tmp_path / "7" / "_CHECKPOINT_METADATA").write_text("5")
    with pytest.raises(Refused, match="_CHECKPOINT_METADATA in .* is damaged .* delete this"):
        restored(tmp_path)
    (tmp_path / "7" / "_CHECKPOINT_METADATA").unlink()
    assert restored(tmp_path)[::2] == (7, [])


def test_a_description_without_a_digest_is_of_an_earlier_release(tmp_path):
    checkpoints(tmp_path, 7)
    path = tmp_path / "7" / "meta" / "metadata"
    meta = json.loads(path.read_text())
    assert meta.pop("digest")
    path.write_text(json.dumps(meta))
    assert restored(tmp_path)[::2] == (7, [])


def test_what_a_killed_save_has_left_is_removed_by_the_next(tmp_path):
    checkpoints(tmp_path, 3)
    for name in ("5.orbax-checkpoint-tmp", "5.orbax-checkpoint-tmp-17"):
        shutil.copytree(tmp_path / "3", tmp_path / name)
    assert restored(tmp_path)[::2] == (3, [])  # who only reads removes nothing
    assert len(list(tmp_path.glob("*tmp*"))) == 2
    checkpoints(tmp_path, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]


def test_the_state_of_one_step_is_that_or_an_error(tmp_path):
    checkpoints(tmp_path, 3, 7)
    got = Checkpoints(tmp_path, read_only=True).state(7, state(0))
    assert jax.tree.structure(got) == jax.tree.structure(state(7))
    assert digests(got) == digests(state(7))
    flip(largest(tmp_path / "7"))
    before = files(tmp_path)
    for step in (7, 8):
        with pytest.raises(ValueError, match=f"step {step} .* is damaged or gone"):
            Checkpoints(tmp_path, read_only=True).state(step, state(0))
    assert files(tmp_path) == before


def test_another_model_is_an_error_and_damages_nothing(tmp_path):
    checkpoints(tmp_path, 3)
    wider = state(0, size=41)
    other = state(0) | {"extra": np.float32(0)}
    low = state(0, dtype=np.float16)
    kernel = r"params.blocks.0.kernel is float32\[2, 40, 40\], not "
    for like, said in (
        (wider, kernel + r"float32\[2, 41, 41\]"),
        (other, r"extra is missing, not float32\[\]"),
        (low, kernel + "float16"),
    ):
        with pytest.raises(Refused, match=said):
            Checkpoints(tmp_path).restore(like)
        with pytest.raises(Refused, match=said):
            Checkpoints(tmp_path, read_only=True).state(3, like)
    assert restored(tmp_path)[::2] == (3, [])


def test_a_full_disk_leaves_the_older_checkpoint_whole(tmp_path):
    kept = checkpoints(tmp_path, 3)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="step 7.*make room"):
            kept.save(7, state(7), {"seconds": 7 / 4})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert restored(tmp_path)[::2] == (3, [])
    checkpoints(tmp_path, 7)
    assert restored(tmp_path)[::2] == (7, [])


def save_for_ever(folder):
    """A process to be killed: it says each step before it saves it."""
    found = Checkpoints(Path(folder)).restore(state(0, 400))
    made = Checkpoints(Path(folder))
    for step in range((found[0] if found else 0) + 1, 1000):
        print("saving", step, flush=True)
        made.save(step, state(step, 400), {"seconds": step / 4})


def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path):
    here = Path(__file__).parent
    code = f"import test_checkpoint; test_checkpoint.save_for_ever({str(tmp_path)!r})"
    command = [sys.executable, "-c", code]
    search = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for last in (4, 7):
        with subprocess.Popen(
            command, cwd=here, env=search, stdout=subprocess.PIPE, text=True
        ) as process:
            lines = iter(process.stdout.readline, "")
            assert f"saving {last}\n" in lines, "it ended too early"
            while process.poll() is None and not list(tmp_path.glob("*tmp*")):
                pass
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        step, _, said = restored(tmp_path, size=400)
        assert step >= last - 1 and said == []
