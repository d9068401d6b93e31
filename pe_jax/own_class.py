"""A class from a user's own file, outside the package: an encoding or a task."""

from __future__ import annotations

import hashlib
import sys
import types
from pathlib import Path
from typing import TypeVar

Contract = TypeVar("Contract")


def own_class(path: str, name: str, contract: type[Contract]) -> type[Contract]:
    """The class `name`, a subclass of the contract, of the Python file at `path`.

    The file is executed once per process, and again when its contents have changed. ValueError if
    it does not exist or does not run, or if it has no such class, or one that is no dataclass.
    """
    file, kind = Path(path).resolve(), contract.__name__.lower()
    if not file.is_file():
        raise ValueError(f"no file {path!r} for the {kind} {path}:{name}")
    source = file.read_bytes()
    identity = hashlib.sha256(str(file).encode() + b"\0" + source).hexdigest()
    module_name = f"pe_jax_user_{identity[:16]}"
    module = sys.modules.get(module_name)
    if module is None:
        module = sys.modules[module_name] = types.ModuleType(module_name)
        module.__file__ = str(file)
        try:  # no import: its cache takes a file of the same size and second for unchanged
            exec(compile(source, str(file), "exec"), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[module_name]
            raise ValueError(f"{path} does not import: {type(error).__name__}: {error}") from error
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
