"""Copies of a run's history for TensorBoard and Weights & Biases.

The history itself is metrics.jsonl, which is written first. When a run begins or goes on, its
trackers get the whole history anew, so every step is in them once, whatever a kill lost or a
checkpoint took back. Where a tracker fails, a message says so, and the run goes on without it.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pe_jax.errors import Refused, to_install
from pe_jax.record import Begun, Result
from pe_jax.storage import records
from pe_jax.storage.jsonl import read_lines

PER_SEED = ("loss", "grad_norm", "valid")
PER_RUN = ("rate", "ms_per_step", "tokens_per_second")
"""The numbers of a line of training that are tracked: one of each seed, or one in all."""


class Tracker(NamedTuple):
    """Where a copy of a run's history goes."""

    shown: str
    """The command or the address that shows it."""
    log: Callable[[int, Mapping[str, float]], None]
    """log(step, values): the next point; steps repeat when seeds train one after another."""
    close: Callable[[bool], None]
    """close(failed): called when the run ends; `failed` if it was stopped or has failed."""


def tensorboard(folder: Path, about: Begun) -> Tracker:
    """Event files in `<folder>/tensorboard`."""
    from tensorboardX import SummaryWriter

    path = folder / "tensorboard"
    shutil.rmtree(path, ignore_errors=True)
    writer = SummaryWriter(str(path))

    def log(step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return Tracker(f"tensorboard --logdir={path}", log, lambda failed: writer.close())


def wandb(folder: Path, about: Begun) -> Tracker:
    """A run of the project $WANDB_PROJECT, else "pe_jax"; WANDB_MODE=offline needs no network.

    Its id there has the time at which the run was begun: a run that goes on keeps its id, and the
    same config begun elsewhere has another.
    """
    import wandb  # pyright: ignore[reportMissingImports]  # an extra outside `test`

    id = f"{about.id}-{''.join(c for c in about.started[:19] if c.isalnum())}"
    for earlier in folder.glob(f"wandb/offline-run-*-{id}"):
        shutil.rmtree(earlier)
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "pe_jax"),
            id=id,
            name=about.label,
            config=about.config | {"corpus": records.plain(about.corpus), "commit": about.commit},
            dir=folder,
            resume="allow",
            settings=wandb.Settings(silent=True, console="off"),
        )
    except wandb.Error as error:
        raise Refused(
            f"log.wandb: {str(error).rstrip('.')}. WANDB_MODE=offline needs neither an account nor "
            "a network"
        ) from error
    run.define_metric("*", step_metric="step")
    rows = itertools.count()

    def log(step: int, values: Mapping[str, float]) -> None:
        row = next(rows)
        if row >= run.step:  # an online run that goes on has the first rows already
            run.log({"step": step, **values}, step=row, commit=True)

    shown = f"wandb sync {Path(run.dir).parent}" if run.offline else str(run.url)
    return Tracker(shown, log, lambda failed: run.finish(exit_code=int(failed)))


TRACKERS: dict[str, Callable[[Path, Begun], Tracker]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
}
"""By their names in the section `log` of a config."""
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
"""The module that each needs; pe_jax has an extra of the tracker's name that installs it."""


def require(names: Iterable[str]) -> None:
    """Refused where the package that one of these trackers needs is not installed."""
    for name in names:
        module = importlib.util.find_spec(PACKAGES[name])
        if module is None or module.origin is None:  # a folder of that name is no package
            raise Refused(f"log.{name} needs {PACKAGES[name]}: {to_install(name)}")


class Trackers:
    """The trackers of one run. As a context manager it closes them, however the run ends."""

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
        self._each(lambda tracker: tracker.close(kind is not None))

    def watch(self, line: Mapping[str, Any]) -> None:
        """Tracks a new line of metrics.jsonl; with the first, all that are in the file."""
        self._track((line,) if self.begun else read_lines(self.history))

    def _track(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Tracks the lines of training among these."""
        for new in lines:
            if "loss" in new and (key := (*new["seeds"], new["step"])) not in self.sent:
                self.sent.add(key)
                values = {name: new[name] for name in PER_RUN}
                for name in (name for name in PER_SEED if name in new):
                    names = (f"{name}/seed_{seed}" for seed in new["seeds"])
                    values |= dict(zip(names, new[name], strict=True))
                known = {name: value for name, value in values.items() if value is not None}
                self._log(new["step"], known)
        self.begun = True

    def finish(self, result: Result) -> None:
        """Tracks the evaluation as one point at the last step: each number's mean over seeds. Where
        nothing was computed, and so no line has come, all that are in the file before it.
        """
        if not self.begun:
            self._track(read_lines(self.history))
        values: dict[str, list[float]] = {}
        for row in result.rows:
            name = "/".join(filter(None, (str(row.way), row.metric, str(row.length))))
            if row.value is not None:
                values.setdefault(name, []).append(row.value)
        means = {name: sum(of_seeds) / len(of_seeds) for name, of_seeds in values.items()}
        self._log(result.train.steps, means)

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        self._each(lambda tracker: tracker.log(step, values))

    def _each(self, call: Callable[[Tracker], None]) -> None:
        """Calls every tracker; one that fails is dropped, with a message."""
        for name, tracker in list(self.open.items()):
            try:
                call(tracker)
            except Exception as error:  # a tracker may raise anything; the run matters more
                del self.open[name]
                self.say(f"log.{name} failed and is let go ({type(error).__name__}: {error})")
