"""Locks on folders: one process at a time, whatever ends it, on one host and on several."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time

import msgspec
import pytest

from pe_jax.errors import Refused
from pe_jax.storage import locks
from pe_jax.storage.jsonl import History

context = multiprocessing.get_context("forkserver")


def claimed(folder, **other):
    """A folder with the claim of a process that is like this one but for what is other."""
    held = folder / locks.HELD
    held.mkdir(parents=True)
    process = msgspec.structs.replace(locks.this_process(), **other)
    (held / "claim").write_bytes(msgspec.json.encode(process))
    return held / "claim"


def at(place):
    """This process as if it were elsewhere."""
    return msgspec.structs.replace(locks.this_process(), place=place)


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextlib.contextmanager
def started(target, *arguments):
    """A process at work, which is killed at the end."""
    process = context.Process(target=target, args=arguments)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def hold(folder, pipe):
    with locks.locked(folder):
        pipe.send("held")
        signal.pause()


def test_a_lock_is_one_processs_and_goes_with_it_however_it_ends(tmp_path):
    here, there = context.Pipe()
    folder = tmp_path / "run"
    assert not locks.is_locked(folder)
    with started(hold, folder, there) as holder:
        assert here.poll(60) and here.recv() == "held"
        assert locks.is_locked(folder)
        told = rf"run is being .* \(process {holder.pid} on .*\): wait"
        with pytest.raises(Refused, match=told), locks.locked(folder):
            pass
        holder.kill()  # until it is joined it is there, as a zombie
        until(lambda: not locks.is_locked(folder))
    with locks.locked(folder):
        assert locks.is_locked(folder)
    assert not locks.is_locked(folder) and not os.listdir(folder)


@pytest.mark.parametrize(
    "other",
    ({"number": 2**22 + 1}, {"started": "1"}, {"boot": "another"}),
    ids=("no such process", "its number is another's now", "before a reboot"),
)
def test_a_process_of_this_host_that_has_gone_holds_nothing(tmp_path, other):
    claim = claimed(tmp_path, **other)
    assert not locks.is_locked(tmp_path) and not claim.exists()
    claimed(tmp_path, **other)
    with locks.locked(tmp_path):
        assert locks.is_locked(tmp_path)


@pytest.mark.parametrize(
    "other",
    ({"place": "a"}, {"place": "a", "boot": "a"}),
    ids=("of the same boot, as a container", "of another boot"),
)
def test_a_process_elsewhere_has_gone_when_its_heartbeat_stops(tmp_path, monkeypatch, other):
    """However old its claim looks; asking takes no time."""
    claim = claimed(tmp_path, number=2**22 + 1, **other)
    os.utime(claim, (1, 1))
    assert locks.is_locked(tmp_path) and locks.is_locked(tmp_path)
    begun = time.monotonic()
    monkeypatch.setattr(locks.time, "monotonic", lambda: begun + locks.SILENT + 1)
    assert not locks.is_locked(tmp_path) and not claim.exists()


def test_hosts_clones_and_containers_are_places_of_their_own(monkeypatch):
    places = {locks.this_process().place}
    for owner, name, value in (
        (locks.socket, "gethostname", "a"),
        (locks, "_content", "a"),
        (locks.os, "readlink", "a"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, lambda *_, value=value: value)
            patched.setattr(locks, "_started", lambda number: None)
            places.add(locks.this_process().place)
    assert len(places) == 4


def test_any_change_of_the_time_is_a_sign_of_life(tmp_path, monkeypatch):
    """Also where the clock of the file system is set back again and again."""
    now = [0.0]
    monkeypatch.setattr(locks.time, "monotonic", lambda: now[0])
    claim = claimed(tmp_path, place="elsewhere")
    for moment in (5e9, 1e9, 3e9, 2e9):
        os.utime(claim, (moment, moment))
        assert locks.is_locked(tmp_path)
        now[0] += locks.SILENT
        assert locks.is_locked(tmp_path)
    now[0] += 1
    assert not locks.is_locked(tmp_path)


def test_an_observer_who_is_suspended_while_he_looks_judges_nothing(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(locks.time, "monotonic", lambda: now[0])

    def slow(*arguments):
        file = open(*arguments)
        now[0] += 1000
        return file

    claimed(tmp_path, place="elsewhere")
    monkeypatch.setattr(locks, "open", slow, raising=False)
    assert locks.is_locked(tmp_path) and locks.is_locked(tmp_path)


def test_who_is_alive_elsewhere_is_not_waited_for(tmp_path, monkeypatch):
    """As soon as it gives a sign of life."""
    claim, said = claimed(tmp_path, host="elsewhere", place="elsewhere"), []
    monkeypatch.setattr(locks, "POLL", 0.001)
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: os.utime(claim))
    with pytest.raises(Refused, match="on elsewhere"):
        with locks.locked(tmp_path, say=said.append):
            pass
    assert said == [
        f"{tmp_path} is held by process {os.getpid()} on elsewhere: it is taken over if that "
        "gives no sign of life for 60 s"
    ]


def contend(folder, times):
    """Processes one after another that take the lock, and are killed or not while they have it."""
    locks.POLL = 0.001
    for i in range(times):
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, -signal.SIGKILL)
            continue
        try:
            with locks.locked(folder, wait=True):
                os.close(os.open(folder / "alone", os.O_CREAT | os.O_EXCL))
                time.sleep(0.001)
                os.unlink(folder / "alone")
                if i % 2:
                    os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:
            os._exit(1)
        os._exit(0)


def test_of_many_processes_that_take_over_from_the_killed_one_has_the_lock(tmp_path):
    contenders = [context.Process(target=contend, args=(tmp_path, 10)) for _ in range(6)]
    for process in contenders:
        process.start()
    for process in contenders:
        process.join(60)
    assert [process.exitcode for process in contenders] == [0] * 6


def test_of_many_observers_of_a_silent_process_one_takes_over(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "SILENT", 0.01)
    start, had = threading.Barrier(16), []

    def observe(folder):
        start.wait()
        try:
            with locks.locked(folder):
                had.append(folder)
                start.wait()
        except Refused:
            start.wait()

    for i in range(10):
        claimed(tmp_path / str(i), place="elsewhere")
        observers = [threading.Thread(target=observe, args=(tmp_path / str(i),)) for _ in range(16)]
        for thread in observers:
            thread.start()
        for thread in observers:
            thread.join()
    assert had == [tmp_path / str(i) for i in range(10)]


def write_on(folder, elsewhere):
    """A process elsewhere that holds a folder and writes lines."""
    locks.this_process = lambda: elsewhere
    locks.BEAT = 0.05
    with locks.locked(folder) as check:
        history = History(folder / "metrics.jsonl", check=check)
        while True:
            history.add(evaluated=1, of=2)
            time.sleep(0.5)


def test_a_process_that_was_suspended_and_taken_over_from_stops_writing(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "SILENT", 1.0)
    with started(write_on, tmp_path, at("elsewhere")) as holder:
        until((tmp_path / "metrics.jsonl").exists)
        end = time.monotonic() + 1.5 * locks.SILENT
        until(lambda: not locks.is_locked(tmp_path) or time.monotonic() > end)
        assert locks.is_locked(tmp_path)
        size = (tmp_path / "metrics.jsonl").stat().st_size
        until(lambda: (tmp_path / "metrics.jsonl").stat().st_size > size)  # now it sleeps
        os.kill(holder.pid, signal.SIGSTOP)
        with locks.locked(tmp_path, wait=True) as check:
            before = (tmp_path / "metrics.jsonl").read_bytes()
            os.kill(holder.pid, signal.SIGCONT)
            holder.join(60)
            assert holder.exitcode == 1
            assert (tmp_path / "metrics.jsonl").read_bytes() == before
            check()
    assert os.listdir(tmp_path) == ["metrics.jsonl"]
