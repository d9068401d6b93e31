"""Locks on folders: one process at a time, whatever ends it."""

import multiprocessing
import os
import signal
import time

import pytest

from pe_jax.errors import Held
from pe_jax.storage import locks

context = multiprocessing.get_context("forkserver")


def hold(folder, pipe):
    with locks.locked(folder):
        pipe.send("held")
        signal.pause()


def test_a_lock_is_one_processs_and_goes_with_it_however_it_ends(tmp_path):
    here, there = context.Pipe()
    folder = tmp_path / "run"
    assert not locks.is_locked(folder)
    holder = context.Process(target=hold, args=(folder, there))
    holder.start()
    assert here.poll(60) and here.recv() == "held"
    assert locks.is_locked(folder)
    with pytest.raises(Held, match="run is being written by another process: wait for it"):
        with locks.locked(folder):
            pass
    os.kill(holder.pid, signal.SIGKILL)
    os.utime(folder / locks.FILE, (0, 0))
    with locks.locked(folder, wait=True):
        assert locks.is_locked(folder)
        assert time.time() - (folder / locks.FILE).stat().st_mtime < 60  # as `status` says
    assert not locks.is_locked(folder)
    holder.join()


def contend(folder, times):
    """Processes one after another that take the lock, and are killed or not while they have it."""
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
