"""What the contracts of encodings, tasks and metrics share. A subclass of the contract overrides
hooks, methods whose names and arguments the contract knows, and has fields and helpers of its own.
It may be in a user's own file.
"""

from __future__ import annotations

import contextlib
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
from typing import Any

from pe_jax.errors import first_line, last_line, nearest


@functools.cache
def hooks(contract: type) -> dict[str, tuple[str, ...]]:
    """{hook: the names of its arguments} of a contract: the public methods of its class."""
    return {
        name: tuple(inspect.signature(function).parameters)
        for name, function in vars(contract).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }


def table(package: str, names: str) -> dict[str, Any]:
    """{name: the class that the file of that name defines first}, of the files of a package."""
    files = {name: importlib.import_module(f"{package}.{name}") for name in names.split()}
    return {
        name: next(
            value
            for value in vars(file).values()
            if isinstance(value, type) and value.__module__ == file.__name__
        )
        for name, file in files.items()
    }


def check_class(cls: type, contract: type) -> None:
    """TypeError unless every public method of a subclass is a hook of the contract, with its
    arguments. The __post_init__ of `cls` is made to run after the contract's.
    """
    if own := vars(cls).get("__post_init__"):

        def __post_init__(self):
            contract.__post_init__(self)
            own(self)  # which may call it too

        cls.__post_init__ = __post_init__  # pyright: ignore[reportAttributeAccessIssue]
    fields, known = inspect.get_annotations(cls), hooks(contract)
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
            wanted = f"and the hook takes {known[name]}"
            raise TypeError(f"{cls.__name__}.{name} takes {given}, {wanted}")


# Files of users, in which configs name a class or a metric as path/to/file.py:NAME

FROZEN = "@dataclasses.dataclass(frozen=True)"


def own(name: str, contract: type, instance: bool = False) -> Any:
    """The subclass of the contract, or the instance of it, that path/to/file.py:NAME names.
    ValueError if the file does not exist or does not run, or if it has no such value, or a class
    that is no dataclass.
    """
    path, _, attribute = name.rpartition(":")
    kind = contract.__name__.lower()
    if not os.path.isfile(path):
        raise ValueError(f"no file {path!r} for the {kind} {name}")
    known = {
        key: value
        for key, value in vars(_loaded(path)[0]).items()
        if (isinstance(value, contract) if instance else isinstance(value, type))
        and (instance or issubclass(value, contract) and value is not contract)
    }
    if attribute not in known:
        raise ValueError(f"{path} has no {kind} {attribute!r}; it has {', '.join(known) or 'none'}")
    if not instance and "__dataclass_fields__" not in vars(known[attribute]):
        raise ValueError(f"{name} lacks the line {FROZEN} above its class")
    return known[attribute]


def sources(*names: str) -> dict[str, str]:
    """SHA-256 by path of the users' files that `names`, such as path/to/file.py:NAME, are in, and
    of every module outside Python, installed packages and pe_jax that they import as they are
    executed: part of a run's identity. Other names have no file.
    """
    digests = {}
    for path in (name.rpartition(":")[0] for name in names if ":" in name):
        shown = os.path.abspath if os.path.isabs(path) else os.path.relpath
        own, *modules = _loaded(path)[1].items()
        digests |= {path: own[1], **{shown(file): digest for file, digest in modules}}
    return digests


@contextlib.contextmanager
def calling(what: str, name: str = "", passed: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """An error of a user's code inside is a ValueError in one line: `what` is called, the error,
    and its line of the file that `name` is in, as path/to/file.py:NAME. Errors of the classes
    `passed` stay as they are.
    """
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        line = last_line(Path(name.rpartition(":")[0]).resolve(), error)
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        said = f"{what}: {kind}{first_line(error) if kind or line else error}"
        said += f" (line {line})" * bool(line)
        said += f"; write {FROZEN} above the class" * ("non-frozen" in said)
        raise ValueError(said).with_traceback(error.__traceback__) from error


Loaded = tuple[types.ModuleType, dict[str, str]]  # with the SHA-256 of its files, itself the first
_files: dict[str, Loaded] = {}
_lock = threading.RLock()  # a file may name another one while it is executed


def _loaded(path: str) -> Loaded:
    # The file, executed once per process, and again when it or a module that it imported changes
    file = str(Path(path).resolve())
    with _lock:
        if file not in _files or _files[file][1] != _digests(_files[file][1]):
            _files[file] = _executed(path, file)
        return _files[file]


def _executed(path: str, file: str) -> Loaded:
    # Executed without the users' modules that Python knows, so that those in sys.modules afterwards
    # are its own. The folder of the file is the last on Python's path meanwhile.
    digests = _digests([file])
    module = types.ModuleType(f"pe_jax_user_{hashlib.sha256(f'{digests}'.encode()).hexdigest()}")
    module.__file__ = file
    before, paths, bytecode = _users_modules(), sys.path[:], sys.dont_write_bytecode
    for name in before:
        del sys.modules[name]
    sys.modules[module.__name__] = module  # where dataclasses look up annotations
    sys.path.append(os.path.dirname(file))
    sys.dont_write_bytecode = True  # it would stand for a file edited in the same second
    importlib.invalidate_caches()
    try:
        with calling(f"{path} does not import", f"{file}:"):
            exec(compile(Path(file).read_bytes(), file, "exec"), vars(module))
        imported = (getattr(known, "__file__", None) for known in _users_modules().values())
        return module, digests | _digests(sorted({*filter(None, imported)} - {file}))
    finally:
        sys.path[:], sys.dont_write_bytecode = paths, bytecode
        sys.modules.update(before)


def _digests(files: Iterable[str]) -> dict[str, str]:
    there = (Path(file) for file in files if os.path.isfile(file))
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in there}


def _users_modules() -> dict[str, Any]:
    # The modules that belong neither to Python nor to an installed package or pe_jax
    others = tuple(os.path.dirname(file) + os.sep for file in (os.__file__, __file__))
    modules = {}
    for name, module in list(sys.modules.items()):
        folders = getattr(getattr(module, "__spec__", None), "submodule_search_locations", None)
        place = str(getattr(module, "__file__", None) or next(iter(folders or ()), ""))
        installed = {"site-packages", "dist-packages"} & {*Path(place).parts}
        if os.path.isabs(place) and not installed and not place.startswith(others):
            modules[name] = module
    modules.pop("__main__", None)
    return modules
