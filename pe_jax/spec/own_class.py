"""An encoding from a user's own file, outside the package."""

from __future__ import annotations

import hashlib
import sys
import types
from pathlib import Path

from pe_jax.encoding import Encoding


def own_class(path: str, name: str) -> type[Encoding]:
    """The class `name` of the Python file at `path`.

    The file is executed once per process, and again when its contents have changed. ValueError if
    it does not exist or does not run, or if the class does not, is no Encoding, or no dataclass.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise ValueError(f"no file {path!r} for the encoding {path}:{name}")
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
        if isinstance(c, type) and issubclass(c, Encoding) and c.__module__ == module_name
    ]
    if not (isinstance(cls, type) and issubclass(cls, Encoding)):
        raise ValueError(f"{path} has no encoding {name!r}; it has {', '.join(known) or 'none'}")
    if "__dataclass_fields__" not in vars(cls):
        raise ValueError(
            f"{path}:{name} lacks the line @dataclasses.dataclass(frozen=True) above its class"
        )
    return cls
