"""First sentences of docstrings, read from the source, since importing JAX takes seconds."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]


class Section(NamedTuple):
    """A section of the config."""

    name: str
    sentence: str
    knobs: dict[str, str]
    """The sentence of each field, by its flag with the default: "--config.train.steps=350"."""


def sections() -> Iterator[Section]:
    """The sections of `runs.config.SECTIONS`, with every field of their dataclasses."""
    config = "pe_jax.runs.config"
    imports = _statements(config, ast.ImportFrom)
    modules = {alias.name: node.module for node in imports for alias in node.names}
    tables = _statements(config, ast.Assign) + _statements(config, ast.AnnAssign)
    (table,) = (node.value for node in tables if ast.unparse(node).startswith("SECTIONS"))
    for key, kind in zip(table.keys, table.values, strict=True):
        classes = _statements(modules.get(kind.id, config), ast.ClassDef)
        (fields,) = (cls.body for cls in classes if cls.name == kind.id)
        flags = {}
        for field, below in itertools.pairwise(fields):
            if hasattr(field, "annotation"):
                value = str(ast.literal_eval(field.value)).replace("'", '"')
                flag = f"--config.{key.value}.{field.target.id}={shlex.quote(value)}"
                flags[flag] = sentence(below.value.value)
        yield Section(key.value, sentence(fields[0].value.value), flags)


def of_file(path: Path) -> str:
    """The first sentence of a Python file."""
    return sentence(ast.get_docstring(ast.parse(path.read_text())))


def sentence(text: str | None) -> str:
    """The first sentence of a docstring, or its first paragraph where that ends otherwise."""
    first = " ".join((text or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)(?<!al\.) ", first)[0]  # "et al." ends no sentence


def _statements(module: str, kind: type[ast.stmt]) -> list[Any]:
    """The statements of one kind of a module, without those inside others."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, kind)]
