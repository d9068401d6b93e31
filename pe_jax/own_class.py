"""A class from a user's own file, outside the package: an encoding or a task. The file may import
those beside it: its folder is the last on Python's path while it is executed.
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

    The file is executed once per process, and again when it has changed, or a file beside it that
    it imports. ValueError if it does not exist or does not run, or if it has no such class, or one
    that is no dataclass.
    """
    file, kind = Path(path).resolve(), contract.__name__.lower()
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
    cls = getattr(module, name, None)
    known = [
        n
        for n, c in vars(module).items()
        if isinstance(c, type) and issubclass(c, contract) and c.__module__ == module_name
    ]
    if not (isinstance(cls, type) and issubclass(cls, contract)):
        raise ValueError(f"{path} has no {kind} {name!r}; it has {', '.join(known) or 'none'}")
    if "__dataclass_fields__" not in vars(cls):
        raise ValueError(
            f"{path}:{name} lacks the line @dataclasses.dataclass(frozen=True) above its class"
        )
    return cls


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
    """Has Python import such files anew, which may have changed, and whose names files of another
    user's folder may have. Modules that Python's path leads to stay.
    """
    for name in (Path(file).stem for file in files):
        known = getattr(sys.modules.get(name), "__file__", None)
        if known and os.path.dirname(known) not in sys.path:
            del sys.modules[name]
