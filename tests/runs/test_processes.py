"""Many processes that carry out one run: two real ones, on the CPU."""

import os
import re
import signal
import socket
import time

import numpy as np
import pytest
from commands import Lab, lines, result, run_of, the_run, tiny, write_text

from pe_jax.errors import Refused
from pe_jax.runs.execute import execute
from pe_jax.training import processes

# programs to compile
FEW = {"eval.lengths": (32,), "eval.metrics": ("same_targets",), "eval.swaps": ()}
SPLIT = FEW | {"run.mesh": "data:2,fsdp:2"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "programs"
    return Lab(tmp_path_factory.mktemp("lab"), cache)


def start(lab, folder, texts=(), **values):
    """Two processes of two devices each, with work directories of their own, since only that of
    the first may be used. `texts` are the folders of text of each, by default the lab's.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    flags = re.sub(r"count=\d+", "count=2", os.environ["XLA_FLAGS"])
    return [
        lab.start(
            "run",
            "--config=configs/base.py:pe=t5",
            *tiny(**{"data.source": "files:$TEXT"} | SPLIT | values),
            f"--workdir={folder / str(process)}",
            "--distributed",
            f"--coordinator=localhost:{port}",
            "--processes=2",
            f"--process={process}",
            XLA_FLAGS=flags,
            TEXT=str(text),
        )
        for process, text in enumerate(texts or 2 * [lab.folder / "text"])
    ]


def ended(started, code=0):
    for process in started:
        assert process.wait().code == code, process.err
        assert "Traceback" not in process.err


def alone(lab, folder, **values):
    """The result of the same in one process on one device."""
    return execute(run_of("t5", **{"data.source": lab.text} | FEW | values), folder)


def assert_rows_near(found, one):
    values = [[row["value"] for row in found["rows"]], [row.value for row in one.rows]]
    np.testing.assert_allclose(*values, atol=1e-5)


def test_two_processes_give_the_rows_of_one(lab, tmp_path):
    """The second shows and writes nothing."""
    first, second = start(lab, tmp_path)
    ended((first, second))
    assert "t5" in first.out and "t5" not in second.out and not (tmp_path / "1").exists()
    found = result(the_run(tmp_path / "0"))
    assert found["device"]["count"] == 4
    assert_rows_near(found, alone(lab, tmp_path / "alone"))


@pytest.mark.slow
def test_two_processes_of_which_one_is_told_to_stop_go_on_by_the_same_command(lab, tmp_path):
    """SIGTERM goes to the second."""
    first, second = start(lab, tmp_path)
    first.until(lambda: list((tmp_path / "0").glob("*/metrics.jsonl")))
    folder = the_run(tmp_path / "0")
    first.until(lambda: len(lines(folder)) >= 2)
    second.stop(signal.SIGTERM)
    ended((first, second), 75)
    assert "stopped by SIGTERM" in first.err and "the same command goes on" in first.err
    stopped = len(lines(folder))
    ended(again := start(lab, tmp_path))
    assert "going on from step" in again[0].err
    assert 2 <= stopped < len(lines(folder)) and not (tmp_path / "1").exists()
    assert_rows_near(result(folder), alone(lab, tmp_path / "alone"))


@pytest.mark.slow
def test_two_processes_choose_a_rate_and_take_another_seed(lab, tmp_path):
    """Seed 3 is left out: devices add in another order, and it has a weight whose gradients cancel,
    of which Adam, dividing by their size, makes a step of what rounding leaves (1.4e-5 bits).
    """
    rates = {"train.rates": (1e-3, 9e-3), "log.valid_every": 6}
    for seeds in ((0, 1), (0, 1, 2)):
        ended(start(lab, tmp_path, **rates, **{"run.seeds": seeds}))
        one = alone(lab, tmp_path / "alone", **rates, **{"run.seeds": seeds})
        assert_rows_near(result(the_run(tmp_path / "0")), one)


@pytest.mark.slow
def test_two_processes_start_from_a_run_of_one(lab, tmp_path):
    alone(lab, tmp_path / "parent")
    warm = {"train.init_from": str(the_run(tmp_path / "parent")), "train.rate": 1e-3}
    ended(start(lab, tmp_path, **warm))
    assert_rows_near(result(the_run(tmp_path / "0")), alone(lab, tmp_path / "alone", **warm))


@pytest.mark.slow
def test_two_processes_learn_and_score_a_task(lab, tmp_path):
    task = {"task.name": "induction", "eval.metrics": ("accuracy",), "eval.samples": 12}
    task |= {"train.length": 8, "eval.lengths": (8, 16), "eval.swaps": ()}
    ended(start(lab, tmp_path, **task))
    found, one = result(the_run(tmp_path / "0")), alone(lab, tmp_path / "alone", **task)
    assert_rows_near(found, one)
    assert len(found["curves"]) == len(one.curves) > 0 and found["baselines"]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_dies_ends_the_other_and_the_same_command_goes_on(lab, tmp_path, killed):
    started = start(lab, tmp_path)
    started[0].until(lambda: list((tmp_path / "0").glob("*/metrics.jsonl")))
    folder = the_run(tmp_path / "0")
    started[0].until(lambda: len(lines(folder)) >= 2)
    started[killed].stop(signal.SIGKILL)
    begun = time.monotonic()
    other = started[1 - killed].wait()
    assert other.code not in (0, 75) and time.monotonic() - begun < 60, other.err
    ended(start(lab, tmp_path))
    assert_rows_near(result(folder), alone(lab, tmp_path / "alone"))


def test_what_one_process_refuses_ends_all_in_one_line(lab, tmp_path):
    own, other = lab.folder / "text", write_text(tmp_path / "other", seed=1)
    cases = (
        ({"texts": (own, other)}, "process 1 reads other text or tokens than process 0"),
        ({"texts": (own, tmp_path / "missing")}, "process 1: "),
        ({"run.mesh": "data:2"}, "run.mesh must name all 4 devices of the 2 processes"),
        ({"run.mesh": ""}, "run.mesh must name all 4 devices of the 2 processes"),
    )
    for values, said in cases:
        started = start(lab, tmp_path, **values)
        ended(started, 2)
        assert all(said in process.err for process in started)
        assert not (tmp_path / "0").exists()


def test_a_coordinator_without_distributed_is_refused(lab):
    done = lab.start("run", "--config=configs/base.py:pe=t5", "--process=0").wait()
    assert done.code == 2 and "--process need --distributed" in done.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("10.0.0.1:4321", 2, None), "given together"),
        ((None, 2, 0), "given together"),
        (("10.0.0.1", 2, 0), "got '10.0.0.1'"),
        (("10.0.0.1:port", 2, 0), "HOST:PORT"),
        (("10.0.0.1:4321", 2, 2), "got 2 of 2"),
        (("10.0.0.1:4321", 2, -1), "got -1 of 2"),
        (("localhost:1", 2, 1), "nobody listens at --coordinator=localhost:1"),
        ((None, None, None), "found no cluster"),
    ],
)
def test_processes_that_cannot_join_are_refused(given, said):
    with pytest.raises(Refused, match=re.escape(said)):
        processes.initialize(*given, wait=0)
