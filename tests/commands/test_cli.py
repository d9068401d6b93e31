"""The command lines: help at once, a user's mistake in one line before anything is done."""

import dataclasses
import re
import shlex
import subprocess
import sys

import pytest
from absl import flags
from commands import ROOT, Lab, run_of, tiny

import pe_jax
from pe_jax import record
from pe_jax.commands import cli, generate, sweep
from pe_jax.encodings import ENCODINGS
from pe_jax.metrics import METRICS
from pe_jax.runs.config import SECTIONS
from pe_jax.storage import locks, records
from pe_jax.tasks import TASKS

SWAPS = (
    "partial_rope p_rope xpos resonance mobius evq_cosh pi ntk dynamic_ntk yarn mrrope llama3 "
    "longrope clipped_rope rerope leaky_rerope self_extend lm_infinite streaming string chunk "
    "drope window log_n"
).split()
HEAVY = ("jax", "flax", "pandas", "matplotlib", "tensorflow_datasets", "grain", "orbax", "scipy")
BEGUN = record.Begun(
    id="rope-1a2b3c4d",
    label="rope",
    config={"run": {"seeds": [0, 1]}},
    seeds=(0, 1),
    corpus=record.CorpusRecord(source="stdlib", hash="0" * 64),
)
MINE = """
import dataclasses

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class Mine(Encoding):
    def {hook}(self, params, n):
        return 0.0 * n
"""
EXIT = """
import dataclasses
import sys

from pe_jax import Encoding
from pe_jax.configs.base import get_config


@dataclasses.dataclass(frozen=True)
class Hook(Encoding):
    def relative_bias(self, params, n):
        sys.exit(0)


@dataclasses.dataclass(frozen=True)
class Init(Encoding):
    def __post_init__(self):
        sys.exit(0)


def get_sweep():
    yield get_config("pe=rope")
    sys.exit(0)
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    for name, text in {
        "mine.py": MINE.format(hook="relative_bias"),
        "hook.py": MINE.format(hook="relative_bais"),
        "exit.py": EXIT,
        "list.py": MINE.format(hook="relative_bias") + "    size: list = None\n",
        "syntax.py": "def f(:\n",
        "undefined.py": "def get_config(arg=''):\n    return configuration\n",
        "key.py": "def get_config(arg=''):\n    return {}[\"rope\"]\n",
        "short.txt": "ab " * 60,
        "long.txt": "abc " * 300,
        "record.json": "{",
        "deep.json": "[" * 10**5,
    }.items():
        (lab.folder / name).write_text(text)
    (lab.folder / "latin.txt").write_bytes("é".encode("latin-1") * 5000)
    return lab


def imported(*command):
    """The packages that a command imports, with its exit code and standard output."""
    command = [sys.executable, "-X", "importtime", "-m", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    return names, done.returncode, done.stdout


def test_help_comes_at_once():
    for name in cli.COMMANDS:
        names, code, out = imported("pe_jax", name, "--help")
        assert code == 0 and "absl" in names and not names.intersection(HEAVY), name
        assert f"pe-jax {name}" in out


def test_the_commands_are_listed_at_once():
    for arguments in ((), ("--help",)):
        names, code, out = imported("pe_jax", *arguments)
        assert code == 0 and not names.intersection(HEAVY)
        assert [line.split()[0] for line in out.splitlines()[2:]] == list(cli.COMMANDS)


def test_a_misspelt_command_is_told_with_the_nearest():
    process = [sys.executable, "-m", "pe_jax", "swep"]
    done = subprocess.run(process, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("pe-jax: unknown command 'swep'; did you mean 'sweep'?")


def test_a_full_disk_under_help_is_told():
    process = [sys.executable, "-m", "pe_jax", "--help"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(process, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and re.fullmatch("pe-jax: no space left.*\n", done.stderr)


def test_conformance_writes_the_files_of_the_repository(tmp_path):
    names, code, out = imported("pe_jax", "conformance", f"--out={tmp_path / 'vectors'}")
    assert code == 0 and not names.intersection(HEAVY) and str(tmp_path) in out
    kept = [path for path in (ROOT / "pe_jax/conformance").iterdir() if path.is_file()]
    written = {path.name: path.read_bytes() for path in (tmp_path / "vectors").iterdir()}
    assert written == {path.name: path.read_bytes() for path in kept}


def test_what_there_is_is_listed_with_a_sentence_each(lab):
    tables = {"encodings": ENCODINGS, "tasks": TASKS, "metrics": METRICS}
    tables |= {"configs": sorted(cli.known_configs()), "swaps": SWAPS}
    names, code, out = imported("pe_jax", "list")
    assert code == 0 and not names.intersection(HEAVY)
    assert [line.split()[0] for line in out.splitlines()] == list(tables)
    for what, table in tables.items():
        done = lab.start("list", what).wait()
        listed = dict(line.split(maxsplit=1) for line in done.out.splitlines())
        assert done.code == 0 and set(listed) == set(table)
        assert min(map(len, listed.values())) > 20


def test_a_misspelt_list_is_told_with_the_nearest(lab):
    assert_told(lab.start("list", "encodins").wait(), "list", "did you mean 'encodings'?")


def test_the_version_is_told():
    process = [sys.executable, "-m", "pe_jax", "--version"]
    done = subprocess.run(process, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"pe_jax {pe_jax.__version__}\n")


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_an_experiment_runner_of_a_clone_is_the_command(name):
    _, code, out = imported(f"experiments.{name}", "--help")
    assert code == 0 and f"pe-jax {name} --config" in out


def test_a_config_of_the_package_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("base.py", "configs/base.py"):
        assert cli._config(f"{path}:pe=rope") == f"{cli.CONFIGS / 'base.py'}:pe=rope"
    for path in ("none.py", "other/base.py", "/configs/base.py", "configs"):
        with pytest.raises(ValueError, match=f"no config file '{path}'.* base.py, .*replay.py"):
            cli._config(f"{path}:pe=rope")
    (tmp_path / "base.py").write_text("")  # one's own comes first
    assert cli._config("base.py:pe=rope") == "base.py:pe=rope"
    found = cli._with_configs_found(["run", "--config", "replay.py:a", "--config.a=replay.py"])
    assert found == ["run", "--config", f"{cli.CONFIGS / 'replay.py'}:a", "--config.a=replay.py"]


def test_a_config_of_the_clone_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("encodings.py", "configs/encodings.py"):
        assert cli._config(path) == str(ROOT / "configs/encodings.py")
    monkeypatch.setattr(cli, "CLONE", tmp_path)  # as an installed package, which has no clone
    with pytest.raises(
        ValueError, match="quickstart.py, replay.py; .* are in a clone of the project"
    ):
        cli._config("configs/encodings.py")
    assert cli._config("configs/quickstart.py") == str(cli.CONFIGS / "quickstart.py")


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_help_has_every_knob_of_the_config_with_its_default_and_a_sentence(name):
    _, _, out = imported("pe_jax", name, "--help")
    knobs = out.partition("The config, ")[2]
    assert max(map(len, knobs.splitlines())) <= 80
    listed = " ".join(knobs.split()).split(" --config.")
    for section, kind in SECTIONS.items():
        for field in dataclasses.fields(kind):
            (knob,) = (text for text in listed if text.startswith(f"{section}.{field.name}="))
            flag, _, sentence = knob.partition(": ")
            (value,) = shlex.split(flag.partition("=")[2])
            assert value.replace('"', "'") == str(field.default), knob
            assert len(sentence) > 10 and sentence[-1] != ",", knob


def test_help_shows_the_defaults():
    shown = cli._listed(generate.OPTIONS)
    assert "the same text. (default: 0)" in shown and r'begins with. (default: "\n")' in shown
    assert "default: False" not in cli._listed(sweep.OPTIONS)


def test_the_status_of_runs_comes_at_once(tmp_path):
    records.write(tmp_path / "rope-1a2b3c4d/config.json", BEGUN)
    names, code, out = imported("pe_jax", "sweep", "--status", f"--workdir={tmp_path}")
    assert code == 0 and "stopped" in out and not names.intersection(HEAVY)


def assert_told(done, name, *words, code=2):
    assert done.code == code, done.err
    assert done.out == "" and len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith(f"pe-jax {name}: ") and "Traceback" not in done.err
    for word in words:
        assert word in done.err, done.err


def alternating(mistakes, mistake):
    """The command that makes a mistake: what reads configs and texts is one for run and sweep."""
    return ("run", "sweep")[list(mistakes).index(mistake) % 2]


CONFIG_MISTAKES = {
    "unknown encoding": ("ropee", {}, ["'ropee'", "did you mean 'rope'", "pe-jax list encodings"]),
    "misspelt field": ("rope", {"train.stepz": 3}, ["stepz", '"steps"']),
    "misspelt encoding field": ("rope", {"pe.rope.bas": 3}, ["bas", '"base"']),
    "no number": ("rope", {"train.steps": "1e3x"}, ["config.train.steps", "1e3x"]),
    "a hook that ends the program": ("{lab}/exit.py:Hook", {}, ["SystemExit: 0", "line 12"]),
    "a field that ends the program": ("{lab}/exit.py:Init", {}, ["SystemExit: 0", "line 18"]),
    "syntax error": ("{lab}/syntax.py:Mine", {}, ["syntax.py", "SyntaxError", "line 1"]),
}


@pytest.mark.parametrize("mistake", CONFIG_MISTAKES)
def test_a_mistake_in_a_config_is_told_before_any_text_is_read(lab, tmp_path, mistake):
    spec, values, words = CONFIG_MISTAKES[mistake]
    values = {"data.source": "files:nowhere"} | values
    workdir = tmp_path / "runs"
    done = lab.run(workdir, spec.format(lab=lab.folder), **values).wait()
    assert_told(done, "run", *words)
    assert not workdir.exists()


REFUSED = {
    "unreadable spec": ("rope(", {}, ["'rope('", "name(field=value)[layers]"]),
    "layers that are no slice": ("rope[first]", {}, ["'first'", "'::2'"]),
    "a field twice": ("rope(base=1.0,base=2.0)", {}, ["has base twice"]),
    "odd head size": ("rope", {"lm.model": 14}, ["even", "got 7", "lm.heads"]),
    "heads": ("rope", {"lm.heads": 3}, ["lm.heads must divide lm.model", "3 heads for 16"]),
    "vocabulary": ("rope", {"lm.vocab": 100}, ["lm.vocab must be at least 256", "got 100"]),
    "unknown activation": ("rope", {"lm.activation": "gelo"}, ["lm.activation", "gelu"]),
    "unknown metric": ("rope", {"eval.metrics": ("longpple",)}, ["did you mean 'longppl'"]),
    "unknown swap": ("rope", {"eval.swaps": ("windwo",)}, ["did you mean 'window'"]),
    "swap with parameters": ("rope", {"eval.swaps": ("t5",)}, ["'t5' needs parameters (table)"]),
    "a list without None": ("{lab}/list.py:Mine", {}, ["Mine's size must be", "got None"]),
    "misspelt hook": ("{lab}/hook.py:Mine", {}, ["relative_bais", "did you mean 'relative_bias'"]),
    "no such class": ("{lab}/mine.py:Mime", {}, ["'Mime'", "it has Mine"]),
    "no such file": ("{lab}/mien.py:Mine", {}, ["mien.py"]),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_what_cannot_run_is_refused_with_the_remedy(lab, mistake):
    """Numbers beyond their bounds: tests/runs/test_wrong_values.py."""
    spec, values, words = REFUSED[mistake]
    with pytest.raises(ValueError) as error:
        run_of(spec.format(lab=lab.folder), **values)
    assert all(word in str(error.value) for word in words), error.value


def test_a_mistake_in_an_encoding_is_told_without_what_a_run_needs():
    names, code, _ = imported("pe_jax", "run", "--config=configs/base.py:pe=ropee")
    assert code == 2 and "jax" in names
    assert not names & {"flax", "pandas", "matplotlib", "tensorflow_datasets", "grain", "orbax"}


TEXT_MISTAKES = {
    "missing": ("files:{lab}/shrot.txt", {}, ["no shrot.txt", "did you mean 'short.txt'"]),
    "unknown source": ("stdlb", {}, ["'stdlb'", "did you mean 'stdlib'"]),
    "not UTF-8": ("files:{lab}/latin.txt", {}, ["latin.txt is not UTF-8 at byte 0", "iconv"]),
    "shorter than a window": (
        "files:{lab}/short.txt",
        {"train.length": 512, "eval.lengths": (512,)},
        ["162 tokens, a window needs 513", "smaller train.length"],
    ),
    "documents shorter than an evaluation": (
        "files:{lab}/long.txt",
        {"eval.lengths": (16, 256)},
        ["no document of the test split has the 256 tokens", "the longest document has 60"],
    ),
    "too little to score": (
        "files:{lab}/text",
        {"eval.targets": 10**6},
        ["the test split has room for", "lower eval.targets"],
    ),
}


@pytest.mark.parametrize("mistake", TEXT_MISTAKES)
def test_a_mistake_in_the_text_is_told_before_anything_is_written(lab, tmp_path, mistake):
    name = alternating(TEXT_MISTAKES, mistake)
    source, values, words = TEXT_MISTAKES[mistake]
    workdir = tmp_path / "runs"
    config = "--config=configs/base.py:pe=rope"
    flags = tiny(**{"data.source": source.format(lab=lab.folder)} | values)
    done = lab.start(name, config, *flags, f"--workdir={workdir}").wait()
    assert_told(done, name, *words)
    assert not workdir.exists()


COMMAND_MISTAKES = {
    "no config": ([], ["--config=FILE is required"]),
    "missing config": (["--config=configs/bas.py"], ["no config file", "did you mean 'base.py'"]),
    "folder": (["--config={lab}"], ["no config file", "Found from any folder: base.py"]),
    "no Python": (["--config={lab}/short.txt"], ["is a Python file", "short.txt"]),
    "no argument": (["--config=configs/base.py:rope"], ["pe=SPEC", "'rope'"]),
    "unknown flag": (["--wrokdir=x"], ["unknown flag 'wrokdir'; did you mean 'workdir'?"]),
    "misspelt config flag": (["--conifg.train.steps=1"], ["did you mean 'config'?"]),
    "knob without section": (
        ["--config=configs/base.py", "--config.step=1"],
        ["no such name: 'step'; did you mean --config.train.steps?"],
    ),
    "no flag": (["--config=configs/base.py", "rope"], ["unknown argument 'rope'"]),
    "nothing to replay": (["--config=configs/replay.py"], ["replay.py:DIR"]),
    "missing record": (
        ["--config=configs/replay.py:{lab}/none.json"],
        ["none.json': no such file or directory"],
    ),
    "damaged record": (["--config=configs/replay.py:{lab}/record.json"], ["no record of a run"]),
    "deep record": (["--config=configs/replay.py:{lab}/deep.json"], ["no record of a run"]),
    "no UTF-8": (["--config=\udcff"], [r"'--config=\udcff' is not UTF-8"]),
    "syntax error": (["--config={lab}/syntax.py"], ["SyntaxError", "syntax.py, line 1"]),
    "undefined name": (
        ["--config={lab}/undefined.py"],
        ["'configuration'", "undefined.py, line 2"],
    ),
    "no such key": (["--config={lab}/key.py"], ["KeyError: 'rope'", "key.py, line 2"]),
    "no get_config": (["--config={lab}/mine.py"], ["get_config"]),
}


@pytest.mark.parametrize("mistake", COMMAND_MISTAKES)
def test_a_mistake_in_a_command_is_told(lab, tmp_path, mistake):
    name = alternating(COMMAND_MISTAKES, mistake)
    arguments, words = COMMAND_MISTAKES[mistake]
    workdir = f"--workdir={tmp_path / 'runs'}"
    done = lab.start(name, *(a.format(lab=lab.folder) for a in arguments), workdir).wait()
    assert_told(done, name, *words)
    assert not (tmp_path / "runs").exists()


SWEEP_MISTAKES = {
    "no integer": (["--config.train.steps=many"], ["steps must be an integer, got 'many'"]),
    "no number": (["--config.train.rate=1e"], ["--config.train.rate must be a number, got '1e'"]),
    "no truth": (["--dry_run=maybe"], ["--dry_run must be true or false, got 'maybe'"]),
    "a number of seeds": (
        ["--config.run.seeds=3"],
        ["lists seeds, got 3: --config.run.seeds='(0,1,2)' has three, ", "'(3,)' this one"],
    ),
    "unknown encoding": (["--also=alibi,ropee"], ["did you mean 'rope'"]),
    "misspelt field": (["--config.train.stepz=3"], ["stepz", '"steps"']),
    "no jobs": (["--jobs=-1"], ["jobs"]),
    "a value twice": (
        ["--config.run.seeds=(0,)", "--config.run.seeds=(1,)"],
        ["--config.run.seeds is given twice"],
    ),
    "a file that ends the program": (["--config={lab}/exits.py"], ["SystemExit: 0", "line 1"]),
    "runs that end the program": (["--config={lab}/exit.py"], ["SystemExit: 0", "line 23"]),
}


@pytest.mark.parametrize("mistake", SWEEP_MISTAKES)
def test_a_mistake_in_a_sweep_is_told(lab, tmp_path, mistake):
    arguments, words = SWEEP_MISTAKES[mistake]
    workdir = f"--workdir={tmp_path / 'runs'}"
    (lab.folder / "exits.py").write_text("raise SystemExit(0)")
    arguments = [argument.format(lab=lab.folder) for argument in arguments]
    done = lab.start("sweep", "--config=configs/quickstart.py", *arguments, workdir).wait()
    assert_told(done, "sweep", *words)
    assert not (tmp_path / "runs").exists()


def test_mistakes_of_a_report_are_told(lab, tmp_path):
    assert_told(lab.start("report").wait(), "report", "--workdir=DIR is required")
    empty = lab.start("report", f"--workdir={tmp_path}", f"--out={tmp_path / 'out'}").wait()
    assert_told(empty, "report", "no results in", "pe-jax sweep --config=")
    (tmp_path / "rope-1").mkdir()
    (tmp_path / "rope-1/result.json").write_text("{")
    damaged = lab.start("report", f"--workdir={tmp_path}", f"--out={tmp_path / 'out'}").wait()
    assert_told(damaged, "report", "no results in")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def folder(lab, tmp_path):
    """The folder that lab.run(tmp_path) is going to write."""
    path = tmp_path / run_of(**{"data.source": lab.text}).id
    path.mkdir()
    return path


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_folder_that_another_process_holds_is_refused(lab, folder):
    with locks.locked(folder):
        assert locks.is_locked(folder)
        done = lab.run(folder.parent).wait()
    assert_told(done, "run", str(folder), "is being written by another process", code=4)
    assert not locks.is_locked(folder) and [*files(folder)] == [locks.FILE]


def test_a_run_begun_on_other_text_is_refused(lab, folder):
    begun = records.encode(BEGUN)
    (folder / "config.json").write_text(begun)
    done = lab.run(folder.parent).wait()
    assert_told(done, "run", "was begun on other text", "delete the folder")
    assert files(folder) == {"config.json": begun.encode(), locks.FILE: b""}


@pytest.mark.parametrize(
    "error, code, said",
    [
        (
            KeyboardInterrupt(),
            cli.INTERRUPTED,
            "stopped: the same command goes on: pe-jax program",
        ),
        (RuntimeError("a\nb"), 1, "RuntimeError: a b"),
    ],
)
def test_what_ends_a_program_is_the_last_line_it_prints(monkeypatch, capsys, error, code, said):
    def main():
        raise error

    monkeypatch.setattr(sys, "argv", ["pe-jax program"])
    monkeypatch.setattr(cli.os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as stop:
        cli.carry_out(main, flags.FlagValues())
    assert stop.value.code == code
    assert capsys.readouterr().err.splitlines()[-1] == f"pe-jax program: {said}"
