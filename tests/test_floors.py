"""The layers of the package: imports run down, without a circle, and reports need no JAX."""

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pe_jax"
FLOORS = (
    (
        *("contract", "encoding", "task", "metric", "conformance"),
        *("record", "fields", "geometry", "errors", "terms"),
    ),
    ("encodings", "metrics", "storage"),
    ("specs", "data", "tasks", "report"),
    ("attention",),
    ("model",),
    ("testing", "training"),
    ("evaluation", "pretrained"),
    ("runs",),
    ("sweep", "atlas"),
    ("commands", "configs"),
    ("__main__",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"  # the roof: public names, imported when they are first used
}


def imports(path):
    """The modules of the package that a file imports: at its top, under TYPE_CHECKING, inside."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by dots; write the whole name"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in inside)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room(module):
    return module.split(".")[1]


@functools.cache  # each process of pytest-xdist imports this file, one runs its tests
def edges():
    return {
        module: {name for name in imports(path) if name.startswith("pe_jax.")}
        for module, path in MODULES.items()
    }


def test_every_module_has_a_floor_and_every_floor_a_module():
    assert {room(module) for module in MODULES} == set(FLOOR)


def test_imports_run_down():
    """A module imports its own room and lower floors; one of the lowest floor nothing above it."""
    up = {
        (module, name)
        for module in MODULES
        for name in edges()[module]
        if FLOOR[room(name)] >= FLOOR[room(module)] > 0
        and room(name) != room(module)
        or FLOOR[room(name)] > FLOOR[room(module)]
    }
    assert not up


def test_no_module_imports_itself_by_way_of_others():
    order = [*graphlib.TopologicalSorter(edges()).static_order()]  # CycleError names the circle
    assert set(order) >= set(MODULES)


def test_the_package_reports_batches_and_workers_of_ray_import_no_jax():
    names = [module for module in MODULES if room(module) == "report"]
    names += [f"pe_jax.data.{module}" for module in ("batches", "load", "tokenizer")]
    code = f"import sys, pe_jax, pe_jax.sweep.ray, {', '.join(names)}; pe_jax.__version__; "
    code += "sys.exit(bool({'jax', 'grain'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
