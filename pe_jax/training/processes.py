"""Many processes, on one host or many, that carry out one run. The first, of index 0, decides and
writes; the others are told what they need. In one process all of this does nothing.

What is here must be called by all processes in the same order.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import msgspec
import numpy as np
from jax.experimental import multihost_utils

from pe_jax.errors import Refused
from pe_jax.training.session import Interrupted

ENDS = (Refused, OSError, Interrupted)
"""What ends a run in an orderly way. If it happens to the first process, the others are told."""
WAIT = 300  # seconds in which all processes must have started
_SAID = 1024  # bytes of a message that each process tells the others
Value = TypeVar("Value")


def initialize(
    coordinator: str | None, processes: int | None, process: int | None, wait: int = WAIT
) -> None:
    """Joins the processes of a run. It must be called before JAX has looked for devices.

    `coordinator` is the HOST:PORT at which the first process listens, `processes` their number and
    `process` the index of this one; all None: JAX asks the cluster (SLURM, Open MPI, Kubernetes, a
    TPU pod). Refused for wrong numbers, without a cluster, and where nobody listens for `wait`
    seconds.
    """
    given = coordinator, processes, process
    if None in given and given != (None, None, None):
        raise Refused(
            "--coordinator=HOST:PORT, --processes=N and --process=I are given together, or none of "
            "them: then the cluster tells"
        )
    if coordinator is not None and processes is not None and process is not None:
        _check(coordinator, processes, process)
        if process:
            _await(coordinator, wait)
    # its handler of SIGTERM would take the place of ours
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=wait,
            shutdown_timeout_seconds=60,
        )
    except (ValueError, RuntimeError) as error:
        if coordinator is None:
            raise Refused(
                f"--distributed found no cluster ({error}): give --coordinator=HOST:PORT, "
                "--processes=N and --process=I, with I from 0 to N - 1 on each process"
            ) from error
        raise Refused(f"--coordinator={coordinator}: {error}") from error


def _check(coordinator: str, processes: int, process: int) -> None:
    """Refused unless these can be an address, a number of processes and an index."""
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise Refused(
            "--coordinator is the HOST:PORT of the process with --process=0, such as "
            f"10.0.0.1:4321, got {coordinator!r}"
        )
    if not 0 <= process < processes:
        raise Refused(
            f"--process is the index of this process, from 0 to --processes - 1, got {process} "
            f"of {processes}"
        )


def _await(coordinator: str, wait: int) -> None:
    """Refused unless somebody listens within `wait` seconds. JAX would kill the process."""
    host, _, port = coordinator.rpartition(":")
    end = time.monotonic() + wait
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), 5).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise Refused(
                    f"nobody listens at --coordinator={coordinator} for {wait} s ({error}): start "
                    "the process with --process=0 on that host, and open the port"
                ) from error
            time.sleep(0.2)


def broadcast(make: Callable[..., Any], *args: Any, kind: Any = Any, **named: Any) -> Any:
    """In all processes what `make(*args, **named)` gives in the first, which alone calls it; or,
    raised in all, one of ENDS that it raises. It is sent as MessagePack, which holds values and
    runs nothing; the others read it as the type `kind`.
    """
    if _alone():
        return make(*args, **named)
    value, raised, sent = None, -1, b""
    if jax.process_index() == 0:
        try:
            value = make(*args, **named)
            sent = msgspec.msgpack.encode(value)
        except ENDS as error:
            raised = next(i for i, end in enumerate(ENDS) if isinstance(error, end))
            sent = msgspec.msgpack.encode(str(error))
    size, raised = _broadcast(np.array([len(sent), raised])).tolist()
    room = max(_SAID, 1 << size.bit_length())  # few sizes, each of which is compiled
    sent = _broadcast(np.frombuffer(sent.ljust(room), np.uint8)[:room]).tobytes()[:size]
    if raised >= 0:
        raise ENDS[raised](msgspec.msgpack.decode(sent))
    return value if jax.process_index() == 0 else msgspec.msgpack.decode(sent, type=kind)


def broadcast_arrays(make: Callable[[], Any], like: Any) -> Any:
    """In all processes the tree of arrays, of the shapes and dtypes of `like`, that `make()` gives
    in the first, as `broadcast` does it. They are sent one at a time.
    """
    if _alone():
        return make()
    made = []
    broadcast(lambda: made.append(make()))

    def sent(leaf: Any) -> np.ndarray:
        array = np.asarray(leaf) if made else np.zeros(leaf.shape, leaf.dtype)
        raw = _broadcast(np.frombuffer(array.tobytes(), np.uint8))  # bytes: sums lose minus zero
        return np.frombuffer(np.asarray(raw).tobytes(), array.dtype).reshape(array.shape)

    return jax.tree.map(sent, made[0] if made else like)


def each(make: Callable[[], Value]) -> Value:
    """What `make()` gives in each process. Refused in all if it is refused in one; what it raises
    of ValueError, TypeError and OSError is such a refusal, too.
    """
    if _alone():
        return make()
    value, said = None, ""
    try:
        value = make()
    except (Refused, ValueError, TypeError, OSError) as error:
        said = str(error) or type(error).__name__
    for process, heard in enumerate(gather_texts(said)):
        if heard:
            raise Refused(f"process {process}: {heard}")
    return value  # pyright: ignore[reportReturnType]  # nobody has failed


def gather_texts(text: str) -> list[str]:
    """The text of each process, of which the first 1024 bytes are sent."""
    sent = np.frombuffer(text.encode()[:_SAID].ljust(_SAID, b"\0"), np.uint8)
    heard = multihost_utils.process_allgather(sent).reshape(-1, _SAID)
    return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in heard]


def gather(tree: Any) -> Any:
    """A tree of arrays on the mesh as NumPy arrays, whole in each process. They are gathered one at
    a time.
    """
    if _alone():
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def _alone() -> bool:
    """Whether there is one process; JAX looks for devices only if it may be otherwise."""
    return not jax.distributed.is_initialized() or jax.process_count() == 1


def _broadcast(array: Any) -> Any:
    return multihost_utils.broadcast_one_to_all(array)
