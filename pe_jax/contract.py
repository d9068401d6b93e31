"""What the contracts of encodings and tasks share: a class overrides hooks, methods whose names and
arguments the contract knows, and has fields and helpers of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from pe_jax.errors import nearest

Hooks = Mapping[str, tuple[str, ...]]
"""{hook: the names of its arguments}"""


def hooks(contract: type) -> dict[str, tuple[str, ...]]:
    """The hooks of a contract: the public methods of its class."""
    return {
        name: tuple(inspect.signature(function).parameters)
        for name, function in vars(contract).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }


def check_class(cls: type, contract: type, hooks: Hooks) -> None:
    """TypeError unless every public method of a subclass of the contract is a hook, with the hook's
    arguments. A misspelt one would do nothing, in silence. The subclass's __post_init__ is made to
    run after that of the contract.
    """
    if own := vars(cls).get("__post_init__"):
        cls.__post_init__ = _after(contract, own)  # pyright: ignore[reportAttributeAccessIssue]
    fields = cls.__dict__.get("__annotations__", {})
    if taken := [name for name in fields if name in hooks]:
        raise TypeError(f"{cls.__name__}.{taken[0]} is a field, and the hook's name: rename it")
    for name, function in vars(cls).items():
        if isinstance(function, staticmethod | classmethod):
            function = function.__func__
        field = name in fields or isinstance(function, type)
        if callable(function) and not name.startswith("_") and not field:
            _check_hook(cls.__name__, name, function, contract, hooks)


def _after(contract: type, own: Callable) -> Callable:
    """A __post_init__ that runs the contract's, then the class's `own`, which may call it too."""

    def __post_init__(self):
        contract.__post_init__(self)
        own(self)

    return __post_init__


def _check_hook(owner: str, name: str, function: Callable, contract: type, hooks: Hooks) -> None:
    if name not in hooks:
        raise TypeError(
            f"{owner}.{name} is not a hook of {contract.__name__}{nearest(name, hooks)} The hooks "
            f"are {', '.join(hooks)}; the name of a helper begins with an underscore."
        )
    given = tuple(inspect.signature(function).parameters)
    if given != hooks[name]:
        raise TypeError(f"{owner}.{name} takes {given}, and the hook takes {hooks[name]}")
