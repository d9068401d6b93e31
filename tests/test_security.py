"""Nothing that is read runs, and a user's own file only where a run needs its encoding."""

import ast
import dataclasses
import re
from pathlib import Path

from drawn import drawn

from pe_jax.commands.cli import COMMANDS
from pe_jax.storage import records

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [
    path for name in ("pe_jax", "experiments", "configs") for path in (ROOT / name).rglob("*.py")
]
SCRIPTS = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
EXECUTES_A_USERS_FILE = "contract.py"
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "_pickle", "jsonpickle"}
CALLS = {"eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load", "pandas.read_pickle"}
READS = {"np.load", "numpy.load"}


def unsafe(source: str) -> list[str]:
    """What in a Python source could run what it reads."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module] if node.module.split(".")[0] in MODULES else []
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            pickles = {k.arg: ast.unparse(k.value) for k in node.keywords}.get("allow_pickle")
            if name in CALLS or name in READS and pickles != "False" or pickles == "True":
                found.append(name)
    return found


def test_nothing_that_is_read_is_unpickled_or_executed():
    found = {str(path.relative_to(ROOT)): unsafe(path.read_text()) for path in SOURCES}
    assert found.pop(f"pe_jax/{EXECUTES_A_USERS_FILE}") == ["exec"]
    assert {path: calls for path, calls in found.items() if calls} == {}
    words = re.compile(rf"\b({'|'.join(MODULES)}|allow_pickle)\b")
    assert [path.name for path in SCRIPTS if words.search(path.read_text())] == []


def test_what_could_run_a_file_is_seen():
    for source in (
        *("import pickle", "from joblib import load", "import a, shelve", "def f():\n import dill"),
        *("np.load(path)", "numpy.load(path, allow_pickle=True)"),
        *("np.save(a, b, allow_pickle=True)", "torch.load(path)", "yaml.load(text)"),
        *("eval(text)", "exec(compile(text, '', 'exec'))"),
    ):
        assert unsafe(source), source
    for source in ("np.load(path, allow_pickle=False)", "model.eval()", "json.load(f)"):
        assert unsafe(source) == []


def test_a_users_file_runs_only_where_a_run_needs_it(lab, tmp_path):
    """Its results are listed, compared and reported without it."""
    marker, path = tmp_path / "marker", tmp_path / "mine.py"
    path.write_text(f"open({str(marker)!r}, 'w')\nraise SystemExit\n")
    spec, workdir = f"{path}:Mine", tmp_path / "runs"
    for i, label in enumerate((spec, "rope")):
        result = dataclasses.replace(drawn("passkey", label, 2), id=f"{i}-1a2b3c4d")
        for name in ("result.json", "config.json", "queued.json"):
            records.write(workdir / result.id / name, result)
    config = f"--config=configs/base.py:pe={spec}"
    for started in [
        *(lab.start(name, config, "--help") for name in COMMANDS),
        lab.start("status", f"--workdir={workdir}"),
        lab.start("report", f"--workdir={workdir}", f"--out={tmp_path / 'out'}"),
        lab.start("compare", str(workdir), str(workdir)),
        lab.start("compare", str(workdir), "--baseline=rope"),
        lab.start("prepare", f"--source={lab.text}"),
    ]:
        assert started.wait().code == 0, started.err
    assert not marker.exists()
    assert lab.start("run", config, f"--workdir={tmp_path / 'new'}").wait().code == 2
    assert marker.exists()
