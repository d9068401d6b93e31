"""The runtime context of training and evaluation: history, signals, mesh, validation."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax.sharding import Mesh

from pe_jax.errors import Interrupted
from pe_jax.storage.jsonl import History

Stop = Callable[[Callable[[], object]], None]
"""stop(save): if the run was asked to stop, calls `save` and raises Interrupted."""

Validate = Callable[[Any], list[float | None]]
"""validate(params): bits per byte of validation text, or per scored token of samples, at the
training length, of each replica of params [replicas, ...]; None where it is not finite.
"""


@dataclasses.dataclass(frozen=True)
class Session:
    """The context that training and evaluation share. The default writes nothing, uses one device,
    and cannot be stopped.
    """

    history: History = dataclasses.field(default_factory=History)
    """Gets what is measured."""
    stop: Stop = lambda save: None
    """Called by the loops wherever the state can be saved."""
    mesh: Mesh | None = None
    """The devices that share the work; None: one."""
    checkpoint_seconds: float = 60.0
    """Seconds from one checkpoint to the next."""
    validate: Validate | None = None
    """Scores validation text while training; None: it is not scored."""
    forget: Callable[[Sequence[int]], None] = lambda seeds: None
    """Forgets the scores of seeds whose training goes on, since their parameters change."""
    valid_every: int = 100
    """Steps from one score to the next; the last step is always followed by one."""


@contextlib.contextmanager
def stopping() -> Iterator[Stop]:
    """Gives a `stop` that acts once SIGINT or SIGTERM has come; a second signal raises
    KeyboardInterrupt at once. Outside the main thread signals are left alone.
    """
    asked: list[int] = []

    def note(number, frame):
        if asked:
            raise KeyboardInterrupt(signal.Signals(number).name)
        asked.append(number)
        name = signal.Signals(number).name  # a handler of logging may be at work here already
        with contextlib.suppress(OSError):  # where nobody reads it
            os.write(2, f"{name}: saving as soon as the device is back; again: at once\n".encode())

    def stop(save: Callable[[], object]) -> None:
        if asked:
            save()
            raise Interrupted(signal.Signals(asked[0]).name)

    try:
        earlier = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread may set handlers
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
