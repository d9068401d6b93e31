"""What the contracts of encodings, tasks and metrics share. A subclass of the contract overrides
hooks, methods whose names and arguments the contract knows, and has fields and helpers of its own.
It may be in a user's own file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import hashlib
import importlib
import inspect
import os
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pe_jax.errors import first_line, last_line, nearest


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

        def __post_init__(self):
            contract.__post_init__(self)
            own(self)  # which may call it too

        cls.__post_init__ = __post_init__  # pyright: ignore[reportAttributeAccessIssue]
    fields, known = cls.__dict__.get("__annotations__", {}), hooks(contract)
    if taken := [name for name in fields if name in known]:
        raise TypeError(f"{cls.__name__}.{taken[0]} is a field, and the hook's name: rename it")
    for name, function in vars(cls).items():
        if isinstance(function, staticmethod | classmethod):
            function = function.__func__
        field = name in fields or isinstance(function, type)
        if not callable(function) or name.startswith("_") or field:
            continue
        if name not in known:
            raise TypeError(
                f"{cls.__name__}.{name} is not a hook of {contract.__name__}{nearest(name, known)} "
                f"The hooks are {', '.join(known)}; the name of a helper begins with an underscore."
            )
        if (given := tuple(inspect.signature(function).parameters)) != known[name]:
            raise TypeError(
                f"{cls.__name__}.{name} takes {given}, and the hook takes {known[name]}"
            )


# Files of users, in which configs name a class or a metric as path/to/file.py:NAME

Contract = TypeVar("Contract")
FROZEN = "@dataclasses.dataclass(frozen=True)"


def own_class(path: str, name: str, contract: type[Contract]) -> type[Contract]:
    """The class `name`, a subclass of the contract, of the Python file at `path`. ValueError if the
    file does not exist or does not run, or if it has no such class, one that is no dataclass, or
    one with a field without a default.
    """
    cls = _value(path, name, contract)
    if "__dataclass_fields__" not in vars(cls):
        raise ValueError(f"{path}:{name} lacks the line {FROZEN} above its class")
    theirs = {field.name for field in dataclasses.fields(contract)}  # pyright: ignore
    for field in dataclasses.fields(cls):
        if field.init and field.name not in theirs and not _recorded(field.default):
            got = "none" if field.default is dataclasses.MISSING else repr(field.default)
            raise ValueError(
                f"{path}:{name}.{field.name} needs a default that a record can hold, as in "
                f"`{field.name}: float = 1.0`, and no default_factory: a number of Python, text, "
                f"True, False, None or a tuple of these, got {got}"
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
    return _value(path, name, contract, instance=True)


def _value(path: str, name: str, contract: type, instance: bool = False) -> Any:
    kind = contract.__name__.lower()
    if not os.path.isfile(path):
        raise ValueError(f"no file {path!r} for the {kind} {path}:{name}")
    module, _ = _loaded(path)
    known = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, contract if instance else type)
        and (instance or issubclass(value, contract))
    }
    if name in known:
        return known[name]
    own = [key for key in known if instance or known[key].__module__ == module.__name__]
    raise ValueError(f"{path} has no {kind} {name!r}; it has {', '.join(own) or 'none'}")


def sources(*names: str) -> dict[str, str]:
    """SHA-256 by path of the users' files that `names`, such as path/to/file.py:NAME, are in, and
    of every module outside Python, installed packages and pe_jax that they import as they are
    executed: part of a run's identity. Other names have no file.
    """
    found = {}
    for path in (name.rpartition(":")[0] for name in names if ":" in name):
        shown = os.path.abspath if os.path.isabs(path) else os.path.relpath
        own, *modules = _loaded(path)[1].items()
        found |= {path: own[1], **{shown(file): digest for file, digest in modules}}
    return found


@contextlib.contextmanager
def calling(what: str, name: str = "") -> Iterator[None]:
    """An error of a user's code inside is a ValueError in one line: `what` is called, the error,
    and its line of the file that `name` is in, as path/to/file.py:NAME.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        line = last_line(Path(name.rpartition(":")[0]).resolve(), error)
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        said = f"{what}: {kind}{first_line(error) if kind or line else error}"
        said += f" (line {line})" * bool(line)
        said += f"; write {FROZEN} above the class" * ("non-frozen" in said)
        raise ValueError(said).with_traceback(error.__traceback__) from error


Loaded = tuple[types.ModuleType, dict[str, str]]  # with the SHA-256 of its files, itself the first
_loaded_files: dict[str, Loaded] = {}
_modules: dict[str, Any] = {}  # what users' files have put into sys.modules
_lock = threading.RLock()  # a file may name another one while it is executed


def _loaded(path: str) -> Loaded:
    """The file at `path`, executed once per process, and again when it, or a module that it
    imported, has changed.
    """
    file = str(Path(path).resolve())
    with _lock:
        known = _loaded_files.get(file)
        return known if known and known[1] == _digests(known[1]) else _executed(path, file)


def _executed(path: str, file: str) -> Loaded:
    """Executes a file without the users' modules that Python knows, so that those in sys.modules
    afterwards are its own; then those that the process itself has imported come back. The folder of
    the file is the last on Python's path meanwhile.
    """
    digests = _digests([file])
    module = types.ModuleType(f"pe_jax_user_{hashlib.sha256(f'{digests}'.encode()).hexdigest()}")
    module.__file__ = file
    before, paths, bytecode = _users_modules(), sys.path[:], sys.dont_write_bytecode
    of_process = {n: known for n, known in before.items() if _modules.get(n) is not known}
    for name in before:
        del sys.modules[name]
    sys.modules[module.__name__] = module  # where dataclasses look up annotations
    loaded = _loaded_files[file] = module, digests
    sys.path.append(os.path.dirname(file))
    sys.dont_write_bytecode = True  # it would stand for a file edited in the same second
    importlib.invalidate_caches()
    try:
        with calling(f"{path} does not import", f"{file}:"):
            exec(compile(Path(file).read_bytes(), file, "exec"), vars(module))
        imported = (getattr(known, "__file__", None) for known in _users_modules().values())
        digests |= _digests(sorted({*filter(None, imported)} - {file}))
        return loaded
    except ValueError:
        del _loaded_files[file]
        raise
    finally:
        sys.path[:], sys.dont_write_bytecode = paths, bytecode
        _modules.update(_users_modules())
        sys.modules.update(before | _users_modules() | of_process)


def _digests(files: Iterable[str]) -> dict[str, str]:
    there = (Path(file) for file in files if os.path.isfile(file))
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in there}


def _users_modules() -> dict[str, Any]:
    """The modules, by name, that belong neither to Python nor to an installed package or pe_jax."""
    others = tuple(os.path.dirname(file) + os.sep for file in (os.__file__, __file__))
    found = {}
    for name, module in list(sys.modules.items()):
        folders = getattr(getattr(module, "__spec__", None), "submodule_search_locations", None)
        place = str(getattr(module, "__file__", None) or next(iter(folders or ()), ""))
        installed = {"site-packages", "dist-packages"} & {*Path(place).parts}
        if os.path.isabs(place) and not installed and not place.startswith(others):
            found[name] = module
    found.pop("__main__", None)
    return found
