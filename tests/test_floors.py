"""The floor plan of the package: imports run down, modules stay short, reports need no JAX."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pe_jax"
FLOORS = (
    (
        "contract",
        "encoding",
        "task",
        "metric",
        "places",
        "own_class",
        "reason",
        "record",
        "record_upgrade",
        "held_out",
        "fields",
        "geometry",
        "errors",
        "terms",
    ),
    ("encodings", "storage"),
    ("spec", "data", "tasks", "report"),
    ("attention",),
    ("model",),
    ("training",),
    ("evaluation", "pretrained"),
    ("runs",),
    ("engines", "atlas"),
    ("commands", "configs"),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"  # the roof: public names, imported when they are first used
}
PROGRAMS = [path for name in ("experiments", "configs") for path in (ROOT / name).rglob("*.py")]


def imports(path):
    """The modules of the package that a file imports anywhere: at its top, under TYPE_CHECKING,
    inside functions.
    """
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by dots; write the whole name"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in inside)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room(module):
    return module.split(".")[1]


EDGES = {
    module: {name for name in imports(path) if name.startswith("pe_jax.")}
    for module, path in MODULES.items()
}


def test_every_module_has_a_floor_and_every_floor_a_module():
    assert {room(module) for module in MODULES} == set(FLOOR)


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_down(module):
    up = {
        name
        for name in EDGES[module]
        if room(name) != room(module) and FLOOR[room(name)] >= FLOOR[room(module)] > 0
    }
    assert not up, f"{module} may import its own room and lower floors"
    assert FLOOR[room(module)] or not {name for name in EDGES[module] if FLOOR[room(name)]}


def circle(edges):
    """Modules that import each other in a circle, the first one again at the end; None: none do."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return error.args[1]


def test_no_module_imports_itself_by_way_of_others():
    assert circle(EDGES) is None
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None


def test_imports_are_seen_wherever_they_stand(tmp_path):
    """At the top, of a module and of a name in it, under TYPE_CHECKING, inside functions."""
    path = tmp_path / "some.py"
    path.write_text(
        "import pe_jax.metric\nfrom pe_jax.spec import swap\n"
        "if TYPE_CHECKING:\n    from pe_jax.model.lm import LM\n"
        "def late():\n    from pe_jax.runs.run import Run\n"
    )
    inside = {"pe_jax.metric", "pe_jax.spec.swap", "pe_jax.model.lm", "pe_jax.runs.run"}
    assert set(imports(path)) == inside


def test_reports_import_no_jax():
    names = [module for module in MODULES if room(module) == "report"]
    code = f"import sys, {', '.join(names)}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("path", [*MODULES.values(), *PROGRAMS], ids=lambda p: p.stem)
def test_files_and_functions_can_be_read_in_one_sitting(path):
    text = path.read_text()
    assert text.count("\n") <= 250
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 50
    }
    assert not long
