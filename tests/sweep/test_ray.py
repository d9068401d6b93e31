"""Sweeps on Ray: rows as without it, whatever is killed meanwhile."""

import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from commands import FAILING, ROOT, STUDY, Lab, lines, result, run_of, tiny

from pe_jax.errors import Refused
from pe_jax.runs.resources import Resources
from pe_jax.sweep import queue, ray
from pe_jax.sweep.engine import Command

MINE = """
import dataclasses
import os

import jax.numpy as jnp
from pe_jax.encoding import Encoding

print("this run sees", os.environ.get("CUDA_VISIBLE_DEVICES"))
"""
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs the extra `ray`"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    for name, text in {"mine.py": MINE + FAILING, "study.py": STUDY}.items():
        (lab.folder / name).write_text(text)
    return lab


def start(lab, workdir, *arguments, config="study.py", **values):
    """A sweep of nope and alibi; on every machine with one thread a run."""
    flags = [f"--config={lab.folder / config}", *tiny(**{"data.source": lab.text} | values)]
    return lab.start("sweep", *flags, f"--workdir={workdir}", *arguments, NPROC="1")


def rows(workdir):
    found = (result(path.parent) for path in workdir.glob("*/result.json"))
    return {one["label"]: one["rows"] for one in found}


def folder_of(lab, workdir, spec, **values):
    return workdir / run_of(spec, **{"data.source": lab.text} | values).id


def process_of(folder):
    """(the process of a run, its parent); None if it is not at work."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"replay.py:{folder}/" in path.read_text():
                after_name = (path.parent / "stat").read_text().rpartition(")")[2].split()
                return int(path.parent.name), int(after_name[1])
        except OSError:  # it has ended meanwhile
            continue


def ended(process, seconds=20.0):
    """Whether a process ends within some seconds."""
    end = time.monotonic() + seconds
    while Path(f"/proc/{process}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    return not Path(f"/proc/{process}").exists()


def test_an_engine_that_is_not_there_is_told(monkeypatch):
    with pytest.raises(Refused, match="--address=auto is for --engine=ray"):
        queue.check_engine("local", "auto")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Refused, match="--extra=ray in the clone"):
        queue.check_engine("ray", "")


def task(folder, code):
    environment = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "0,1"}
    log = folder / "log.txt"
    return Command([sys.executable, "-c", code], environment, folder, log, Resources())


def test_a_task_has_the_users_variables_and_the_devices_that_ray_gives(tmp_path, monkeypatch):
    for name, value in {"CUDA_VISIBLE_DEVICES": "1", "JAX_PLATFORMS": "cpu"}.items():
        monkeypatch.setenv(name, value)
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], 'JAX_PLATFORMS' in os.environ)"
    assert ray.carry_out(task(tmp_path, f"{code}; raise SystemExit(3)")) == 3
    assert (tmp_path / "log.txt").read_text() == "1 False\n"


def test_a_task_that_is_cancelled_gets_sigterm_and_time_to_save(tmp_path, monkeypatch):
    code = (
        "import pathlib, signal, sys\n"
        "def save(*_):\n    pathlib.Path('saved').touch()\n    sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True); signal.pause()"
    )

    def cancelled(seconds):
        if "ready" in (tmp_path / "log.txt").read_text():
            raise KeyboardInterrupt

    monkeypatch.setattr(ray.time, "sleep", cancelled)
    assert ray.carry_out(task(tmp_path, code)) == 75
    assert (tmp_path / "saved").exists()


@needs_ray
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
def test_a_sweep_on_ray_gives_the_rows_of_a_run_though_a_worker_is_killed(lab, tmp_path):
    config = ROOT / "configs/base.py:pe=nope"
    flags = [f"--config={config}", *tiny(**{"data.source": lab.text})]
    whole = lab.start("run", *flags, f"--workdir={tmp_path / 'local'}", NPROC="1").wait()
    assert whole.code == 0, whole.err
    workdir = tmp_path / "ray"
    folder = folder_of(lab, workdir, "nope")
    at_work = start(lab, workdir, "--jobs=2", "--engine=ray", config=config)
    at_work.until(lambda: lines(folder))
    process, worker = process_of(folder)
    os.kill(worker, signal.SIGKILL)
    done = at_work.wait()
    assert done.code == 0 and ended(process, 0), done.err
    assert "starting Ray" in done.err
    assert "nope: lost with its Ray worker or node (WorkerCrashedError); it goes on" in done.err
    assert set(rows(workdir)) == {"nope"} and rows(workdir) == rows(tmp_path / "local")
    assert [line["step"] for line in lines(folder) if "loss" in line] == list(range(2, 13, 2))
    command = result(folder)["command"]
    assert "--engine" not in command and "--jobs" not in command


@pytest.fixture
def cluster():
    """A Ray cluster of a node without cores and one with two cores and a GPU."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.second = cluster.add_node(num_cpus=2, num_gpus=1)
    yield cluster
    cluster.shutdown()


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:os.fork")  # Ray starts its nodes so, where JAX may have run
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
def test_a_sweep_on_a_cluster_goes_on_when_a_node_is_lost(lab, tmp_path, cluster):
    """The runs of the lost node go on where another has what they ask for. Then a signal stops the
    sweep, and what is at work is saved.
    """
    longer = {"train.steps": 150}
    whole = start(lab, tmp_path / "local", "--jobs=1", **longer).wait()
    assert set(rows(tmp_path / "local")) == {"nope", "alibi"}, whole.err
    workdir = tmp_path / "ray"
    options = "--engine=ray", f"--address={cluster.address}", "--jobs=1"
    options += (f"--also={lab.folder / 'mine.py'}:Failing",)
    gpus = longer | {"resources.gpus": 1}
    folder = folder_of(lab, workdir, "nope", **longer)
    at_work = start(lab, workdir, *options, **gpus).until(lambda: lines(folder))
    process, _ = process_of(folder)
    cluster.remove_node(cluster.second, allow_graceful=False)
    assert ended(process)
    cluster.add_node(num_cpus=1, num_gpus=1)
    other = folder_of(lab, workdir, "alibi", **longer)
    stopped = at_work.until(lambda: lines(other)).stop(signal.SIGTERM)
    assert stopped.code == 75 and "nope: lost with its Ray worker or node" in stopped.err
    assert "stopped by SIGTERM, saved" in (other / "log.txt").read_text()
    done = start(lab, workdir, *options, **gpus).wait()
    assert done.code == 1 and rows(workdir) == rows(tmp_path / "local"), done.err
    (failed,) = (line for line in done.err.splitlines() if line.startswith("failed: "))
    assert "Failing.relative_bias raised ArithmeticError: this hook fails" in failed
    failing = next(workdir.glob("*Failing-*/log.txt"))
    assert "this run sees 0\n" in failing.read_text()
