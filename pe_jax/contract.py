"""What the contracts of encodings, tasks and metrics share. A subclass of the contract overrides
hooks, methods whose names and arguments the contract knows, and has fields and helpers of its own.
It may be in a user's own file.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import hashlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pe_jax.errors import line_in, nearest


@functools.cache
def hooks(contract: type) -> dict[str, tuple[str, ...]]:
    """{hook: the names of its arguments} of a contract: the public methods of its class."""
    return {
        name: tuple(inspect.signature(function).parameters)
        for name, function in vars(contract).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }


def check_class(cls: type, contract: type) -> None:
    """TypeError unless every public method of `cls`, a subclass of the contract, is a hook and has
    the hook's arguments: a misspelt one would do nothing, in silence. The __post_init__ of `cls` is
    made to run after the contract's.
    """
    if own := vars(cls).get("__post_init__"):
        cls.__post_init__ = _after(contract, own)  # pyright: ignore[reportAttributeAccessIssue]
    fields, known = cls.__dict__.get("__annotations__", {}), hooks(contract)
    if taken := [name for name in fields if name in known]:
        raise TypeError(f"{cls.__name__}.{taken[0]} is a field, and the hook's name: rename it")
    for name, function in vars(cls).items():
        if isinstance(function, staticmethod | classmethod):
            function = function.__func__
        field = name in fields or isinstance(function, type)
        if callable(function) and not name.startswith("_") and not field:
            _check_hook(cls.__name__, name, function, contract.__name__, known)


def _after(contract: type, own: Callable) -> Callable:
    """A __post_init__ that runs the contract's, then the class's `own`, which may call it too."""

    def __post_init__(self):
        contract.__post_init__(self)
        own(self)

    return __post_init__


def _check_hook(
    owner: str, name: str, function: Callable, contract: str, known: dict[str, tuple[str, ...]]
) -> None:
    if name not in known:
        raise TypeError(
            f"{owner}.{name} is not a hook of {contract}{nearest(name, known)} The hooks are "
            f"{', '.join(known)}; the name of a helper begins with an underscore."
        )
    given = tuple(inspect.signature(function).parameters)
    if given != known[name]:
        raise TypeError(f"{owner}.{name} takes {given}, and the hook takes {known[name]}")


# Users' own files, of which configs name a class or a metric as path/to/file.py:NAME. A file may
# import others of its folder, which is the last on Python's path while the file is executed.

Contract = TypeVar("Contract")


def own_class(path: str, name: str, contract: type[Contract]) -> type[Contract]:
    """The class `name`, a subclass of the contract, of the Python file at `path`. ValueError if the
    file does not exist or does not run, or if it has no such class, one that is no dataclass, or
    one with a field without a default.
    """
    cls = _found(path, name, contract, lambda v: isinstance(v, type) and issubclass(v, contract))
    if "__dataclass_fields__" not in vars(cls):
        raise ValueError(
            f"{path}:{name} lacks the line @dataclasses.dataclass(frozen=True) above its class"
        )
    theirs = {field.name for field in dataclasses.fields(contract)}  # pyright: ignore
    for field in dataclasses.fields(cls):  # pyright: ignore
        if field.init and field.name not in theirs and field.default is dataclasses.MISSING:
            raise ValueError(
                f"{path}:{name}.{field.name} needs a default, as in `{field.name}: float = 1.0`; a "
                "default_factory is none"
            )
        if field.init and field.name not in theirs and not _recorded(field.default):
            raise ValueError(
                f"{path}:{name}.{field.name} needs a default that a record can hold: a number of "
                f"Python, text, True, False, None or a tuple of these, got {field.default!r}"
            )
    return cls


def _recorded(value: Any) -> bool:
    """Whether a value, written as JSON and read again with tuples for lists, is the same."""
    if isinstance(value, tuple):
        return all(map(_recorded, value))
    kinds = int, float, str, types.NoneType
    return isinstance(value, kinds) and not isinstance(value, enum.Enum)


def own_instance(path: str, name: str, contract: type[Contract]) -> Contract:
    """The value `name`, an instance of the contract, of the Python file at `path`. ValueError if
    the file does not exist or does not run, or if it has no such value.
    """
    return _found(path, name, contract, lambda value: isinstance(value, contract))


def sources(path: str) -> dict[str, str]:
    """The SHA-256 of the user's file at `path`, and of the modules and packages of its folder that
    it imports, directly or through others, by the paths of the files: part of a run's identity.
    """
    found, left = {}, [path]
    while left:
        if (file := left.pop()) in found:
            continue
        source = Path(file).read_bytes()
        found[file] = hashlib.sha256(source).hexdigest()
        for name in sorted(_imported(source) - {"pe_jax"}):  # in a clone it is beside the file
            left += _files_of(os.path.join(os.path.dirname(path), name))
    return found


def _found(path: str, name: str, contract: type, fits: Callable[[Any], bool]) -> Any:
    """The value `name` of the Python file at `path`. ValueError unless it fits, with the names of
    the values that do; classes that the file imports are not among them.
    """
    kind = contract.__name__.lower()
    module = _module(path, f"{kind} {path}:{name}")
    value = getattr(module, name, None)
    if not fits(value):
        known = [
            n
            for n, v in vars(module).items()
            if fits(v) and not (isinstance(v, type) and v.__module__ != module.__name__)
        ]
        raise ValueError(f"{path} has no {kind} {name!r}; it has {', '.join(known) or 'none'}")
    return value


def _module(path: str, wanted: str) -> types.ModuleType:
    """The module of the file at `path`; `wanted` is for the error message. It is executed once per
    process, and again when it, or a file of its folder that it imports, has changed.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise ValueError(f"no file {path!r} for the {wanted}")
    every = sources(str(file))
    module_name = f"pe_jax_user_{hashlib.sha256(repr(every).encode()).hexdigest()[:16]}"
    module = sys.modules.get(module_name)
    if module is None:
        module = sys.modules[module_name] = types.ModuleType(module_name)
        module.__file__ = str(file)
        _forget(every, file.parent)
        added = [] if str(file.parent) in sys.path else [str(file.parent)]
        sys.path += added
        try:  # no import: its cache takes a file of the same size and second for unchanged
            exec(compile(file.read_bytes(), str(file), "exec"), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[module_name]
            line = line_in(file, error)  # a SyntaxError says it itself
            raise ValueError(
                f"{path} does not import: {type(error).__name__}: {error}{line}"
            ) from error
        finally:
            for folder in added:
                sys.path.remove(folder)
    return module


def _files_of(path: str) -> list[str]:
    """The files of the package or the module `path`; none where there is neither."""
    if os.path.isdir(path):
        return sorted(map(str, Path(path).rglob("*.py")))
    return [f"{path}.py"] if os.path.isfile(f"{path}.py") else []


def _imported(source: bytes) -> set[str]:
    """The modules that a file imports, without their submodules; none if Python cannot read it."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    # A relative import is of a package, all of whose files count already.
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    names += [node.module or "" for node in froms]
    return {name.partition(".")[0] for name in names}


def _forget(files: Iterable[str], folder: Path) -> None:
    """Makes Python import these files of the folder anew: they may have changed, or files of
    another user's folder with the same names may have been imported. Modules on Python's path stay.
    """
    for file in files:
        parts = Path(file).relative_to(folder).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        known = getattr(sys.modules.get(name), "__file__", None)
        if known and str(Path(known).parents[len(parts) - 1]) not in sys.path:
            del sys.modules[name]
