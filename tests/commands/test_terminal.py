"""Ctrl-C in a real terminal: the state is saved, and the command that goes on is on the screen."""

import shlex
import signal

from commands import Terminal, lines, run_of, tiny

from pe_jax.commands import cli
from pe_jax.runs import progress
from pe_jax.storage import locks


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
    assert not locks.is_locked(folder)
    saved = [int(path.name) for path in (folder / "checkpoints/0-1").iterdir()]
    assert saved == [lines(folder)[-1]["step"]]
    assert "stopped by SIGTERM, saved" in (folder / "log.txt").read_text()
    arguments = command_in(screen, "sweep")
    assert f"--workdir={tmp_path}" in arguments
    listed = lab.start("sweep", *arguments, "--dry_run").wait()
    assert listed.code == 0 and folder.name in listed.out


LINE = {"step": 3, "of": 12, "loss": [1.0, 2.0], "tokens_per_second": 2e3}


def test_a_quiet_line_now_and_then_without_a_terminal(monkeypatch, capsys):
    """The time left is by the pace since the first line: compilation has no part in it."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.Display() as display:
        display.progress.get_time = lambda: now[0]
        for seconds, step in ((10, 3), (11, 6), (20, 9)):
            now[0] += seconds
            display.show("rope", LINE | {"step": step})
        display.show("rope", {"evaluated": 1, "of": 2})
    with progress.Display(verbose=False) as display:
        display.show("rope", LINE)
    assert capsys.readouterr().err.splitlines() == [
        "rope: 50 %, 22 s left, step 6/12, loss 2.16 bits, 2.0 k tokens/s",
    ]


def test_a_terminal_of_80_columns_has_a_line_for_each_run_at_work(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal is to rich
    with progress.Display() as display:
        display.update("8 runs", 1, "", 8)
        for name in ("transformer_xl, rate 0.01", "t5"):
            display.show(name, LINE)
        display.progress.refresh()
    shown = capsys.readouterr().err
    assert all(name in shown for name in ("8 runs", "transformer_xl, rate 0.01", "t5", "step 3/12"))
