"""The engine of Ray: each task is a Ray task that starts the command where Ray has the resources.

The worker of Ray only waits for its process, and imports no JAX, so that devices are free as soon
as the process ends. Ray itself retries nothing (max_retries=0): queue.py does, for all engines
alike. What Ray does when a worker is killed or a node is lost is that the task fails.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from pe_jax.errors import Refused, to_install
from pe_jax.runs.resources import Resources, cores
from pe_jax.sweep.engine import Command, Exit, start

LOG = logging.getLogger("pe_jax")
LOOK_SECONDS = 0.1  # between two looks of a worker at its process
STORE_BYTES = 100 * 2**20  # for Ray's objects: there are none
DEVICES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "TPU_VISIBLE_CHIPS",
    "TPU_CHIPS_PER_HOST_BOUNDS",
    "TPU_HOST_BOUNDS",
)
"""The environment variables by which Ray gives devices to its workers."""


class Ray:
    """Tasks on the cluster at `address`, or without one on this machine; up to `jobs` at a time, or
    where that is 0 as many as have room. `wanted` is what each run asks for.
    """

    def __init__(self, address: str, jobs: int, wanted: Sequence[Resources]):
        self.address, self.jobs, self.wanted = address, jobs, wanted
        self.refs: dict[Any, str] = {}
        self.kept: dict[str, dict[str, float]] = {}

    def __enter__(self) -> Ray:
        LOG.info(f"joining Ray at {self.address}" if self.address else "starting Ray")
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray

        handler = signal.getsignal(signal.SIGTERM)
        place: dict[str, Any] = {"address": self.address}
        if not self.address:
            place = {"address": "local", "num_cpus": cores(), "include_dashboard": False}
            place["object_store_memory"] = STORE_BYTES
        try:
            ray.init(**place, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            raise Refused(f"Ray does not start: {str(error).splitlines()[0]}") from error
        signal.signal(signal.SIGTERM, handler)  # Ray has put its own handler there
        self.ray, self.carried_out = ray, ray.remote(max_retries=0)(carry_out)
        for resources in set(self.wanted):
            self._check(_names(resources))
        return self

    def _check(self, wanted: dict[str, float]) -> None:
        # Refused if this machine has less than a task wants; on a cluster a message says so, since
        # a node may join.
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if any(all(n <= node.get(name, 0.0) for name, n in wanted.items()) for node in nodes):
            return
        asked = ", ".join(f"{n:g} {name}" for name, n in wanted.items())
        if not self.address:
            raise Refused(
                f"a run asks Ray for {asked}, and this machine has not as much: lower "
                "config.resources, or give the --address of a cluster"
            )
        LOG.warning("no node of the cluster has %s, which a run asks for: it waits for one", asked)

    def __exit__(self, *exception: object) -> None:
        self.ray.shutdown()

    def has_room(self, resources: Resources) -> bool:
        """Whether the nodes together have these resources free of submitted tasks. With
        no other task, one is submitted all the same: a cluster that grows sees what is asked for.
        """
        if not self.refs:
            return True
        if self.jobs and len(self.refs) >= self.jobs:
            return False
        there = self.ray.cluster_resources()
        used = [_names(resources), *self.kept.values()]
        return all(
            sum(one.get(name, 0.0) for one in used) <= there.get(name, 0.0)
            for name in _names(resources)
        )

    def threads(self, resources: Resources, waiting: int) -> int:
        return resources.cpus

    def submit(self, id: str, command: Command) -> None:
        wanted = _names(command.resources)
        options: dict[str, Any] = {"num_cpus": wanted["CPU"], "num_gpus": wanted.get("GPU", 0.0)}
        if "TPU" in wanted:
            options["resources"] = {"TPU": wanted["TPU"]}
        self.refs[self.carried_out.options(**options).remote(command)] = id
        self.kept[id] = wanted

    def poll(self, seconds: float) -> dict[str, Exit]:
        if not self.refs:
            time.sleep(seconds)
            return {}
        every = list(self.refs)
        self.ray.wait(every, timeout=seconds)
        ended, _ = self.ray.wait(every, num_returns=len(every), timeout=0)
        exits = {self.refs.pop(ref): self._exit(ref) for ref in ended}
        for id in exits:
            del self.kept[id]
        return exits

    def _exit(self, ref: Any) -> Exit:
        try:
            return Exit(self.ray.get(ref))
        except self.ray.exceptions.RayTaskError as error:  # the worker cannot start the command
            return Exit(1, f"not started on a node of Ray: {error.cause}")
        except self.ray.exceptions.RayError as error:
            kind = type(error).__name__
            return Exit(-signal.SIGKILL, f"lost with its Ray worker or node ({kind})")

    def stop(self) -> None:
        every = list(self.refs)
        for ref in every:
            self.ray.cancel(ref)
        try:
            if every:
                self.ray.wait(every, num_returns=len(every))
        except KeyboardInterrupt:
            for ref in every:
                self.ray.cancel(ref, force=True)
            raise


def check_installed() -> None:
    """Refused where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise Refused(f"--engine=ray needs Ray: {to_install('ray')}")


def carry_out(command: Command) -> int:
    """Starts a task where this worker of Ray is, and returns its exit code. The KeyboardInterrupt
    that Ray raises here for a task that is cancelled is a SIGTERM to it.

    The process stays in the process group of the worker: Ray kills that with the worker.
    """
    given = {name: os.environ[name] for name in DEVICES if name in os.environ}
    process = start(command._replace(environment=command.environment | given))
    try:
        while process.poll() is None:  # `wait` would not be interrupted
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        process.terminate()
    return process.wait()


def _names(resources: Resources) -> dict[str, float]:
    """What is asked of Ray, by Ray's names."""
    every = {"CPU": resources.cpus, "GPU": resources.gpus, "TPU": resources.tpus}
    return {name: float(number) for name, number in every.items() if number or name == "CPU"}
