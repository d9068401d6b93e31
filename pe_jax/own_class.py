"""What a config names in a user's own file, outside the package, as path/to/file.py:NAME: the class
of an encoding or a task, or a metric. The file may import others of its folder, which is the last
on Python's path while the file is executed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

Contract = TypeVar("Contract")


def own_class(path: str, name: str, contract: type[Contract]) -> type[Contract]:
    """The class `name`, a subclass of the contract, of the Python file at `path`.

    ValueError if the file does not exist or does not run, or if it has no such class, or one that
    is no dataclass.
    """
    kind = contract.__name__.lower()
    module = _module(path, name, kind)
    cls = getattr(module, name, None)
    if not (isinstance(cls, type) and issubclass(cls, contract)):
        known = [
            n
            for n, c in vars(module).items()
            if isinstance(c, type) and issubclass(c, contract) and c.__module__ == module.__name__
        ]
        raise ValueError(f"{path} has no {kind} {name!r}; it has {', '.join(known) or 'none'}")
    if "__dataclass_fields__" not in vars(cls):
        raise ValueError(
            f"{path}:{name} lacks the line @dataclasses.dataclass(frozen=True) above its class"
        )
    return cls


def own_instance(path: str, name: str, contract: type[Contract]) -> Contract:
    """The value `name`, an instance of the contract, of the Python file at `path`. ValueError as by
    `own_class`.
    """
    kind = contract.__name__.lower()
    module = _module(path, name, kind)
    found = getattr(module, name, None)
    if not isinstance(found, contract):
        known = [n for n, value in vars(module).items() if isinstance(value, contract)]
        raise ValueError(f"{path} has no {kind} {name!r}; it has {', '.join(known) or 'none'}")
    return found


def _module(path: str, name: str, kind: str) -> types.ModuleType:
    """The module of the file at `path`; `name` and `kind`, what is wanted of it, are for the error
    alone. It is executed once per process, and again when it, or a file of its folder that it
    imports, has changed.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise ValueError(f"no file {path!r} for the {kind} {path}:{name}")
    every = sources(str(file))
    module_name = f"pe_jax_user_{hashlib.sha256(repr(every).encode()).hexdigest()[:16]}"
    module = sys.modules.get(module_name)
    if module is None:
        module = sys.modules[module_name] = types.ModuleType(module_name)
        module.__file__ = str(file)
        _forget(every)
        added = [] if str(file.parent) in sys.path else [str(file.parent)]
        sys.path += added
        try:  # no import: its cache takes a file of the same size and second for unchanged
            exec(compile(file.read_bytes(), str(file), "exec"), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[module_name]
            raise ValueError(f"{path} does not import: {type(error).__name__}: {error}") from error
        finally:
            for folder in added:
                sys.path.remove(folder)
    return module


def sources(path: str) -> dict[str, str]:
    """The SHA-256 of the user's file at `path`, and of each file beside it that it imports, itself
    or through another, by their paths: part of a run's identity.
    """
    found, left = {}, [path]
    while left:
        if (file := left.pop()) in found:
            continue
        source = Path(file).read_bytes()
        found[file] = hashlib.sha256(source).hexdigest()
        names = (os.path.join(os.path.dirname(path), f"{name}.py") for name in _imported(source))
        left += sorted(filter(os.path.isfile, names))
    return found


def _imported(source: bytes) -> set[str]:
    """The modules that a file imports, without their submodules; none if Python cannot read it."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def _forget(files: Iterable[str]) -> None:
    """Makes Python import these files anew: they may have changed, or files of another user's
    folder with the same names may have been imported. Modules on Python's path stay.
    """
    for name in (Path(file).stem for file in files):
        known = getattr(sys.modules.get(name), "__file__", None)
        if known and os.path.dirname(known) not in sys.path:
            del sys.modules[name]
