"""Ctrl-C in a real terminal: the state is saved, and the command that goes on is on the screen."""

import shlex
import signal

import pytest
from commands import Lab, Terminal, lines, run_of, tiny

from pe_jax.commands import cli
from pe_jax.runs import progress
from pe_jax.storage import locks
from pe_jax.storage.jsonl import History


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")


def interrupted(lab, name, workdir, until, **values):
    """(exit code, the screen) of a command at which Ctrl-C was pressed, and the run's folder."""
    values = {"data.source": lab.text} | values
    folder = workdir / run_of("nope", **values).id
    terminal = Terminal()
    flags = ["--config=configs/base.py:pe=nope", *tiny(**values), f"--workdir={workdir}"]
    running = lab.start(name, *flags, terminal=terminal).until(lambda: until(folder))
    terminal.press(b"\x03")
    code = running.wait().code
    return code, terminal.close(), folder


def command_in(screen, name):
    """The arguments of the command that the screen gives as going on."""
    marks = f"the same command goes on: pe-jax {name} "
    (line,) = (line for line in screen.splitlines() if marks in line)
    return shlex.split(line.partition(marks)[2])


def test_ctrl_c_in_a_run_saves_and_prints_the_command_that_goes_on(lab, tmp_path):
    values = {"log.checkpoint_seconds": 1e6, "train.steps": 2000}
    code, screen, folder = interrupted(lab, "run", tmp_path, lines, **values)
    assert code == cli.INTERRUPTED, screen
    assert "stopped by SIGINT, saved" in screen and "Traceback" not in screen
    assert screen.rfind("\x1b[?25h") > screen.rfind("\x1b[?25l")  # the cursor is back
    assert not locks.is_locked(folder) and not (folder / "result.json").exists()
    step = lines(folder)[-1]["step"]
    arguments = command_in(screen, "run")
    again = lab.start("run", *arguments).until(lambda: lines(folder)[-1]["step"] > step)
    assert f"going on from step {step} of 2000" in again.err
    again.stop(signal.SIGKILL)


def test_a_second_ctrl_c_stops_at_once(lab, tmp_path):
    """Pressed while the program compiles, it neither crashes nor leaves the folder held."""
    terminal = Terminal()
    flags = ["--config=configs/base.py:pe=nope", *tiny(**{"data.source": lab.text, "lm.model": 20})]
    running = lab.start("run", *flags, f"--workdir={tmp_path}", terminal=terminal)
    running.until(lambda: b"parameters of one seed" in terminal.bytes)
    terminal.press(b"\x03")
    running.until(lambda: b"again: at once" in terminal.bytes)
    terminal.press(b"\x03")
    code, screen = running.wait().code, terminal.close()
    assert code == cli.INTERRUPTED, screen
    assert "stopped" in screen and "Traceback" not in screen and command_in(screen, "run")
    assert not any(locks.is_locked(folder) for folder in tmp_path.iterdir())


def test_ctrl_c_in_a_sweep_lets_its_runs_save_and_prints_the_command(lab, tmp_path):
    values = {"log.checkpoint_seconds": 1e6, "train.steps": 2000}
    code, screen, folder = interrupted(lab, "sweep", tmp_path, lines, **values)
    assert code == cli.INTERRUPTED, screen
    assert "Traceback" not in screen and screen.rfind("\x1b[?25h") > screen.rfind("\x1b[?25l")
    assert not locks.is_locked(folder) and not (tmp_path / ".sweeps").exists()
    saved = [int(path.name) for path in (folder / "checkpoints/0-1").iterdir()]
    assert saved == [lines(folder)[-1]["step"]]
    assert "stopped by SIGTERM, saved" in (folder / "log.txt").read_text()
    arguments = command_in(screen, "sweep")
    assert f"--workdir={tmp_path}" in arguments
    listed = lab.start("sweep", *arguments, "--dry_run").wait()
    assert listed.code == 0 and folder.name in listed.out


def test_seeds_that_are_trained_already_count_as_done_and_not_in_the_pace(
    tmp_path, monkeypatch, capsys
):
    """Of 4 seeds of 100 steps a call has trained 2; another trains the others at a step a second,
    after 60 s of compilation.
    """
    history = History(tmp_path / "metrics.jsonl")

    def line(seeds, step):
        values = [0.0] * len(seeds)
        settings = {"rate": 1.0, "ms_per_step": 1.0, "tokens_per_second": 1.0}
        history.add(seeds=seeds, step=step, of=100, loss=values, grad_norm=values, **settings)

    line([0, 1], 100)
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    view = progress.RunBar("rope", (0, 1, 2, 3), 0.2, tmp_path / "metrics.jsonl")
    history.watch = view.watch
    for second in (60, 85, 110):
        now[0] = second
        line([2, 3], second - 50)
    # 80 % are training, half of it done before; 50 steps are 20 % of all, and took 50 s
    assert [text.split(";")[0] for text in capsys.readouterr().err.splitlines()] == [
        "rope: 44%, time left: measuring",
        "rope: 54%, 1 min 55 s left",
        "rope: 64%, 1 min 30 s left",
    ]


def test_seeds_that_are_not_asked_for_do_not_count_as_done():
    line = {"seeds": [0, 1, 2], "step": 4, "of": 4, "loss": [1.0, 1.0, 1.0]}
    assert progress.Share((0,), 0.3).add(line) == pytest.approx(0.7)
    assert progress.Share((0, 3), 0.3).add(line) == pytest.approx(0.35)


def test_a_choice_among_rates_is_done_when_its_last_part_is():
    trained = {"seeds": [0], "step": 4, "of": 4, "loss": [1.0], "parts": 3}
    share = progress.Share((0,), 0.3)
    done = [share.add(trained | {"part": part}) for part in (0, 1)]
    done.append(share.add({"part": 2, "parts": 3, "evaluated": 2, "of": 2}))
    assert done == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_a_quiet_line_now_and_then_without_a_terminal(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    view = progress.Bar("2 runs", 2.0, done=1.0)
    for seconds, done in ((10, 1.01), (11, 1.02), (12, 1.2), (40, 1.5)):
        now[0] += seconds
        view.update(done, "rope  step 3/12\nt5  compiling")
    assert capsys.readouterr().err.splitlines() == [
        "2 runs: 51%, time left: measuring; rope  step 3/12; t5  compiling",
        "2 runs: 75%, 1 min 13 s left; rope  step 3/12; t5  compiling",
    ]


def test_a_terminal_of_80_columns_has_a_line_for_each_run_at_work(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal is to rich
    names = ("transformer_xl, trained at 256 tokens  evaluating  40%", "t5  step 3/350  loss 2.3")
    with progress.Bar("8 runs", 8) as view:
        view.update(1.0, "\n".join(names))
        view.progress.refresh()
    shown = capsys.readouterr().err
    assert all(name in shown for name in names)


def test_evaluation_has_its_share_of_the_tokens_of_a_run():
    """10 steps of 4 windows of 16 tokens, three times; 8 windows of 16 and 8 of 32 tokens."""
    values = {"train.steps": 10, "train.batch": 4, "train.length": 16}
    values |= {"eval.targets": 64, "eval.lengths": (16, 32), "eval.swaps": ()}
    run = run_of("rope", **values)
    assert progress.evaluation_share(run) == pytest.approx(384 / (1920 + 384))
