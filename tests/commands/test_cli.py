"""The command lines: help at once, a user's mistake in one line before anything is done."""

import dataclasses
import re
import shlex
import subprocess
import sys

import pytest
from commands import ROOT, Lab, run_of, tiny

import pe_jax
from pe_jax import record
from pe_jax.commands import cli, config_file
from pe_jax.encodings import ENCODINGS
from pe_jax.metrics import METRICS
from pe_jax.runs.config import SECTIONS
from pe_jax.storage import locks, records
from pe_jax.tasks import TASKS

HEAVY = ("jax", "flax", "pandas", "matplotlib", "tensorflow_datasets", "grain", "orbax", "scipy")
BEGUN = record.Begun(
    id="rope-1a2b3c4d",
    label="rope",
    config={"run": {"seeds": [0, 1]}},
    seeds=(0, 1),
    corpus=record.CorpusRecord(source="stdlib", hash="0" * 64),
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    for name, text in {
        "empty.py": "",
        "exits.py": "raise SystemExit(0)",
        "syntax.py": "def f(:\n",
        "undefined.py": "def get_config(arg=''):\n    return configuration\n",
        "key.py": "def get_config(arg=''):\n    return {}[\"rope\"]\n",
        "short.txt": "ab " * 60,
        "record.json": "{",
    }.items():
        (lab.folder / name).write_text(text)
    return lab


def imported(*command):
    """The packages that a command imports, with its exit code and standard output."""
    command = [sys.executable, "-X", "importtime", "-m", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    return names, done.returncode, done.stdout


def test_help_imports_nothing_heavy():
    for name in cli.COMMANDS:
        names, code, out = imported("pe_jax", name, "--help")
        heavy = {*HEAVY, "numpy"} | ({"rich"} if name != "status" else set())
        assert code == 0 and "absl" in names and not names & heavy, name
        assert f"pe-jax {name}" in out


def test_commands_are_listed_without_heavy_imports():
    for arguments in ((), ("--help",)):
        names, code, out = imported("pe_jax", *arguments)
        assert code == 0 and not names.intersection(HEAVY)
        assert [line.split()[0] for line in out.splitlines()[2:]] == list(cli.COMMANDS)


@pytest.mark.parametrize(
    "command, code, out, err",
    [
        ("--version", 0, f"pe_jax {pe_jax.__version__}\n", ""),
        ("swep", 2, "", "pe-jax: unknown command 'swep'; did you mean 'sweep'?"),
        ("list encodins", 2, "", "pe-jax list: no list of 'encodins'; did you mean 'encodings'?"),
    ],
)
def test_names_are_recognised_or_the_nearest_is_named(command, code, out, err):
    process = [sys.executable, "-m", "pe_jax", *command.split()]
    done = subprocess.run(process, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, out) and done.stderr.startswith(err)


def test_a_full_disk_under_help_is_one_line():
    process = [sys.executable, "-m", "pe_jax", "--help"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(process, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and re.fullmatch("pe-jax: no space left.*\n", done.stderr)


def test_lists_have_every_name_with_a_sentence(lab):
    tables = {"encodings": ENCODINGS, "tasks": TASKS, "metrics": METRICS}
    tables["configs"] = config_file.known()
    names, code, out = imported("pe_jax", "list")
    assert code == 0 and not names.intersection(HEAVY)
    assert {line.split()[0] for line in out.splitlines()} == {*tables, "fields"}
    for what, table in tables.items():
        done = lab.start("list", what).wait()
        lines = [line for line in done.out.splitlines() if line[-1] != ":"]
        listed = dict(line.split(maxsplit=1) for line in lines)
        assert done.code == 0 and set(listed) == set(table)
        assert min(map(len, listed.values())) > 20
    done = lab.start("list", "encodings", "YaRN").wait()
    assert done.out.startswith("Scalings of RoPE:\nyarn ") and "sinusoidal" not in done.out
    assert "did you mean 'yarn'" in lab.start("list", "encodings", "yarm").wait().err


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_experiment_runners_are_the_commands(name):
    _, code, out = imported(f"experiments.{name}", "--help")
    assert code == 0 and f"pe-jax {name} --config" in out


def test_configs_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("base.py", "configs/base.py"):
        assert config_file.find(path) == config_file.PACKAGE / "base.py"
    assert config_file.find("configs/encodings.py") == ROOT / "configs/encodings.py"
    for path in ("none.py", "other/base.py", "/configs/base.py", "configs"):
        with pytest.raises(ValueError, match=f"no config file '{path}'"):
            config_file.find(path)
    monkeypatch.setattr(config_file, "CLONE", tmp_path)  # as an installed package
    assert {*config_file.known()} == {"base.py", "quickstart.py", "replay.py"}
    (tmp_path / "base.py").write_text("")  # one's own comes first
    assert config_file.find("base.py").resolve() == tmp_path / "base.py"


def test_an_encoding_alone_is_of_its_files_task_and_at_a_rate_that_is_used(monkeypatch):
    assert config_file.read("markov.py:pe=fire").config.task.name == "markov"
    assert config_file.read("hierarchical.py:pe=rope").config.pe.spec == "rope"
    monkeypatch.setattr(sys, "argv", ["", "--config.train.rate=1e-3"])
    with pytest.raises(ValueError, match="train.rate is not used beside rates"):
        config_file.read("headroom.py:pe=rope")


def test_every_field_of_the_config_is_listed_with_its_default_and_a_sentence(lab):
    listed = lab.start("list", "fields").wait().out.splitlines()
    for section, kind in SECTIONS.items():
        for field in dataclasses.fields(kind):
            (knob,) = (x for x in listed if x.startswith(f"--config.{section}.{field.name}="))
            flag, _, sentence = knob.partition("  ")
            (value,) = shlex.split(flag.partition("=")[2])
            assert value.replace('"', "'") == str(field.default), knob
            assert len(sentence) > 10 and sentence[-1] != ",", knob


def test_status_imports_nothing_heavy(tmp_path):
    records.write(tmp_path / "rope-1a2b3c4d/config.json", BEGUN)
    names, code, out = imported("pe_jax", "status", f"--workdir={tmp_path}")
    assert code == 0 and "stopped" in out and not names.intersection(HEAVY)


def test_an_unknown_encoding_raises_before_heavy_imports():
    names, code, _ = imported("pe_jax", "run", "--config=configs/base.py:pe=ropee")
    assert code == 2 and "absl" in names
    assert not names & {"flax", "pandas", "matplotlib", "tensorflow_datasets", "grain", "orbax"}


def assert_fails(done, name, *words, code=2):
    assert done.code == code, done.err
    assert done.out == "" and len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith(f"pe-jax {name}: ") and "Traceback" not in done.err
    for word in words:
        assert word in done.err, done.err


BASE = "--config=configs/base.py:pe="
MISTAKES = {
    "unknown encoding": ([f"{BASE}ropee"], ["did you mean 'rope'", "pe-jax list encodings"]),
    "unknown field": ([f"{BASE}rope", "--config.step=1"], ["no such field: 'step'", "list fields"]),
    "misspelt field": ([f"{BASE}rope", "--config.train.stepz=3"], ["'stepz'", '"steps"']),
    "an encoding's field": ([f"{BASE}rope", "--config.pe.rope.bas=3"], ["bas", '"base"']),
    "no number": ([f"{BASE}rope", "--config.train.steps=1e3x"], ["config.train.steps=1e3x"]),
    "no config": ([], ["--config must have a value"]),
    "missing config": (["--config=configs/bas.py"], ["no config file", "did you mean 'base.py'"]),
    "folder": (["--config={lab}"], ["no config file"]),
    "no Python": (["--config={lab}/short.txt"], ["short.txt: SyntaxError"]),
    "syntax error": ([f"{BASE}{{lab}}/syntax.py:Mine"], ["syntax.py", "SyntaxError", "line 1"]),
    "no argument": (["--config=configs/base.py:rope"], ["pe=SPEC", "'rope'"]),
    "unknown flag": (["--wrokdir=x"], ["'wrokdir'. Did you mean: workdir"]),
    "no flag": ([f"{BASE}rope", "rope"], ["too many positional arguments"]),
    "nothing to replay": (["--config=replay.py"], ["replay.py:DIR"]),
    "missing record": (["--config=replay.py:{lab}/none.json"], ["no record of a run in"]),
    "damaged record": (["--config=replay.py:{lab}/record.json"], ["no record of a run"]),
    "undefined name": (["--config={lab}/undefined.py"], ["undefined.py: NameError: ", "(line 2)"]),
    "no such key": (["--config={lab}/key.py"], ["key.py: KeyError: 'rope' (line 2)"]),
    "no get_config": (["--config={lab}/empty.py"], ["get_config"]),
    "end of program": (["--config={lab}/exits.py"], ["exits.py: SystemExit: 0 (line 1)"]),
    "missing text": (
        [f"{BASE}rope", "--config.data.source=files:{lab}/shrot.txt"],
        ["no file", "did you mean 'short.txt'"],
    ),
    "unknown source": ([f"{BASE}rope", "--config.data.source=stdlb"], ["did you mean 'stdlib'"]),
    "too little to score": (
        [f"{BASE}rope", *tiny(**{"eval.targets": 10**6}), "--config.data.source=files:{lab}/text"],
        ["same_targets, test split: room for", "lower eval.targets"],
    ),
    "one integer for seeds": ([f"{BASE}rope", "--config.run.seeds=3"], ["lists seeds, as in"]),
}
OF_SWEEPS = {
    "no truth": (["--config=quickstart.py", "--dry_run=maybe"], ["--dry_run=maybe"]),
    "also": (["--config=quickstart.py", "--also=alibi,ropee"], ["did you mean 'rope'"]),
    "field": (["--config=quickstart.py", "--config.train.stepz=3"], ["stepz", '"steps"']),
    "no jobs": (["--config=quickstart.py", "--jobs=-1"], ["jobs"]),
}


@pytest.mark.parametrize("mistake", [*MISTAKES, *OF_SWEEPS])
def test_mistakes_are_one_line_and_write_nothing(lab, tmp_path, mistake):
    """Half of them by run, half by sweep."""
    arguments, words = (MISTAKES | OF_SWEEPS)[mistake]
    name = "sweep" if mistake in OF_SWEEPS or [*MISTAKES].index(mistake) % 2 else "run"
    workdir = f"--workdir={tmp_path / 'runs'}"
    done = lab.start(name, *(a.format(lab=lab.folder) for a in arguments), workdir).wait()
    assert_fails(done, name, *words)
    assert not (tmp_path / "runs").exists()


def test_mistakes_in_a_report_are_one_line(lab, tmp_path):
    assert_fails(lab.start("report").wait(), "report", "--workdir must have a value")
    empty = lab.start("report", f"--workdir={tmp_path}", f"--out={tmp_path / 'out'}").wait()
    assert_fails(empty, "report", "no results in", f"--config=FILE --workdir={tmp_path}`")
    (tmp_path / "rope-1").mkdir()
    (tmp_path / "rope-1/result.json").write_text("{")
    damaged = lab.start("report", f"--workdir={tmp_path}", f"--out={tmp_path / 'out'}").wait()
    assert_fails(damaged, "report", "no results in")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def folder(lab, tmp_path):
    """The folder that lab.run(tmp_path) is going to write."""
    path = tmp_path / run_of(**{"data.source": lab.text}).id
    path.mkdir()
    return path


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_folder_held_by_another_process_raises(lab, folder):
    with locks.locked(folder):
        assert locks.is_locked(folder)
        done = lab.run(folder.parent).wait()
    assert_fails(done, "run", str(folder), "is being written by another process", code=4)
    assert not locks.is_locked(folder) and [*files(folder)] == [locks.FILE]


def test_a_run_begun_on_other_text_raises(lab, folder):
    begun = records.encode(BEGUN)
    (folder / "config.json").write_text(begun)
    done = lab.run(folder.parent).wait()
    assert_fails(done, "run", "was begun on other text", "delete the folder")
    assert files(folder) == {"config.json": begun.encode(), locks.FILE: b""}


@pytest.mark.parametrize(
    "error, code, last_line",
    [
        (
            KeyboardInterrupt(),
            cli.INTERRUPTED,
            "pe-jax program: stopped: the same command goes on: pe-jax program",
        ),
        (ValueError("a\nb"), 2, "pe-jax program: a b"),
        (RuntimeError("a"), 1, "RuntimeError: a"),
    ],
)
def test_the_last_line_of_an_error_and_its_exit_code(monkeypatch, capsys, error, code, last_line):
    def main():
        raise error

    def ended(code):
        raise SystemExit(code)

    monkeypatch.setattr(sys, "argv", ["pe-jax program"])
    monkeypatch.setattr(cli.os, "_exit", ended)
    try:
        assert cli.carry_out(main, cli.Options()) == code
    except SystemExit as end:
        assert end.code == code
    assert capsys.readouterr().err.splitlines()[-1] == last_line


def test_a_home_that_the_shell_has_left_is_filled_in(lab, tmp_path):
    done = lab.start("status", "--workdir=~/runs", HOME=str(tmp_path)).wait()
    assert f"no runs in '{tmp_path / 'runs'}'" in done.err
