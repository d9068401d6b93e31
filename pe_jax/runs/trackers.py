"""Copies of a run's history for TensorBoard and Weights & Biases.

The record of a run is metrics.jsonl, which is written first. A tracker is a view of it: when a run
is begun or goes on, its trackers get the whole history anew, so every step is in them once,
whatever a kill lost or a checkpoint took back. Where a tracker fails, a message says so, and the
run goes on without it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pe_jax.errors import Refused
from pe_jax.record import Begun, Result, plain
from pe_jax.storage.history import read_lines

PER_SEED = ("loss", "grad_norm")
PER_RUN = ("rate", "ms_per_step", "tokens_per_second")


class Tracker(Protocol):
    """Made of a run's folder and its config.json; `shown` says how to look at it."""

    shown: str

    def __init__(self, folder: Path, about: Begun): ...

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """The next point of the history; steps repeat when seeds train one after another."""
        ...

    def close(self, failed: bool) -> None: ...


class TensorBoard:
    """Event files in `<folder>/tensorboard`."""

    def __init__(self, folder: Path, about: Begun):
        from tensorboardX import SummaryWriter

        path = folder / "tensorboard"
        shutil.rmtree(path, ignore_errors=True)
        self.writer = SummaryWriter(str(path))
        self.shown = f"tensorboard --logdir={path}"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self, failed: bool) -> None:
        self.writer.close()


class WandB:
    """A run of the project $WANDB_PROJECT, else "pe_jax"; WANDB_MODE=offline needs no network.

    Its id tells when the run was begun: one that goes on keeps it, and the same config begun
    elsewhere is another run.
    """

    def __init__(self, folder: Path, about: Begun):
        import wandb  # pyright: ignore[reportMissingImports]  # an extra outside `test`

        id = f"{about.id}-{''.join(c for c in about.started[:19] if c.isalnum())}"
        for earlier in folder.glob(f"wandb/offline-run-*-{id}"):
            shutil.rmtree(earlier)
        self.rows = 0
        try:
            self.run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "pe_jax"),
                id=id,
                name=about.label,
                config={**about.config, "corpus": plain(about.corpus), "commit": about.commit},
                dir=folder,
                resume="allow",
                settings=wandb.Settings(silent=True, console="off"),
            )
        except wandb.Error as error:
            raise Refused(
                f"log.wandb: {str(error).rstrip('.')}. WANDB_MODE=offline needs neither an account "
                "nor a network"
            ) from error
        self.run.define_metric("*", step_metric="step")
        sync = f"wandb sync {Path(self.run.dir).parent}"
        self.shown = sync if self.run.offline else str(self.run.url)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self.rows >= self.run.step:  # an online run that goes on has the first rows already
            self.run.log({"step": step, **values}, step=self.rows, commit=True)
        self.rows += 1

    def close(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "wandb": WandB}
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}


def require(names: Iterable[str]) -> None:
    """Refused where the package of a tracker is not installed."""
    for name in names:
        found = importlib.util.find_spec(PACKAGES[name])
        if found is None or found.origin is None:  # a folder of that name is no package
            raise Refused(f"log.{name} needs {PACKAGES[name]}: pip install 'pe_jax[{name}]'")


class Trackers:
    """The trackers of one run, a context manager: they are closed however the run ends."""

    def __init__(
        self, names: Sequence[str], folder: Path, about: Begun, say: Callable[[str], None]
    ):
        self.history, self.say = folder / "metrics.jsonl", say
        self.open = {name: TRACKERS[name](folder, about) for name in names}
        for name, tracker in self.open.items():
            say(f"log.{name}: {tracker.shown}")
        self.sent: set[tuple[Any, ...]] = set()
        self.begun = False

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, kind: type | None, *exception: Any) -> None:
        for name, tracker in list(self.open.items()):
            self._safely(name, lambda tracker=tracker: tracker.close(kind is not None))

    def watch(self, line: Mapping[str, Any]) -> None:
        """A line that metrics.jsonl has got; before the first, all that are there."""
        for new in (line,) if self.begun else read_lines(self.history):
            self._send(new)
        self.begun = True

    def finish(self, result: Result) -> None:
        """The evaluation, a point at the last step: the mean over seeds of each number."""
        seeds: dict[str, list[float]] = {}
        for row in result.rows:
            name = "/".join(filter(None, (row.swap, row.metric, str(row.length))))
            if row.value is not None:
                seeds.setdefault(name, []).append(row.value)
        means = {name: sum(values) / len(values) for name, values in seeds.items()}
        self._log(result.train.steps, means)

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        for name, tracker in list(self.open.items()):
            self._safely(name, lambda tracker=tracker: tracker.log(step, values))

    def _send(self, line: Mapping[str, Any]) -> None:
        if "loss" not in line or (key := (*line["seeds"], line["step"])) in self.sent:
            return
        self.sent.add(key)
        values = {name: line[name] for name in PER_RUN}
        for name in PER_SEED:
            values |= {
                f"{name}/seed_{s}": v for s, v in zip(line["seeds"], line[name], strict=True)
            }
        self._log(line["step"], {name: v for name, v in values.items() if v is not None})

    def _safely(self, name: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # of any package, at any call: the run matters more
            del self.open[name]
            self.say(f"log.{name} failed and is let go ({type(error).__name__}: {error})")
