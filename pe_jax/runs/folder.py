"""The folder of a run:

queued.json      the config, when a sweep is about to run it
config.json      the run when it begins, and tokenizer.json if its text has one
state.json       how it stands; .lock, which the process that is at work holds
metrics.jsonl    losses and speed of training, and how far evaluation is
checkpoints/     of each program, by its seeds
scores.jsonl     every score so far (scores.py)
result.json      the record, which answers what was asked for last
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pe_jax.errors import Interrupted, Refused, in_words
from pe_jax.record import Begun, Reason, Result, Stage, divergence
from pe_jax.runs.config import users_files
from pe_jax.storage import atomic, locks, records

LOG = logging.getLogger("pe_jax")
SEEDS = re.compile(r"\d+(-\d+)*")


@dataclasses.dataclass(frozen=True)
class Folder:
    """A run's folder, which need not be there yet."""

    path: Path

    @classmethod
    def of(cls, id: str, workdir: str | Path) -> Folder:
        """<workdir>/<run id>."""
        return cls(Path(workdir) / id)

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def scores(self) -> Path:
        return self.path / "scores.jsonl"

    def checkpoints(self, group: Sequence[int]) -> Path:
        """The folder of the checkpoints of one program."""
        return self.path / "checkpoints" / "-".join(map(str, group))

    def begun(self) -> Begun | None:
        return records.read(Begun, self.path / "config.json")

    def result(self) -> Result | None:
        return records.read(Result, self.path / "result.json")

    # Seeds that train together

    @property
    def begun_groups(self) -> list[tuple[int, ...]]:
        """The seeds of each program that has a checkpoint, the program of the lowest seed first."""
        steps = (self.path / "checkpoints").glob("*/*")
        names = {path.parent.name for path in steps if path.name.isdecimal()}
        return sorted(tuple(map(int, n.split("-"))) for n in names if SEEDS.fullmatch(n))

    def groups(self, seeds: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The seeds of each program that trains these seeds: a seed stays in the program with which
        its training began, and the others begin in a program of their own.
        """
        begun = [group for group in self.begun_groups if set(group) & set(seeds)]
        placed = {seed for group in begun for seed in group}
        others = tuple(seed for seed in seeds if seed not in placed)
        return (*begun, others) if others else tuple(begun)

    def last_step(self, group: Sequence[int]) -> int:
        """The step of the newest checkpoint of a program; 0 without one."""
        steps = (path.name for path in self.checkpoints(group).glob("[0-9]*"))
        return max((int(step) for step in steps if step.isdecimal()), default=0)

    # Whether it has what is asked for

    def answer(self, seeds: Sequence[int], asked: str | None = None) -> Result | None:
        """result.json, if it is whole, of these seeds and answers what is `asked` (`Run.asked`;
        None: anything), even if some scores ran out of memory.
        """
        try:
            result = self.result()
        except Refused:  # it is made anew
            return None
        same = result and {*result.seeds} == {*seeds} and asked in (None, result.asked or None)
        return result if same else None

    def complete(self, seeds: Sequence[int], asked: str | None = None) -> Result | None:
        """The answer, unless scores that are asked for lacked memory: they are computed again."""
        result = self.answer(seeds, asked)
        lacks = asked and result and any(r.reason is Reason.OUT_OF_MEMORY for r in result.rows)
        return None if lacks else result

    def check_sources(self, begun: Begun) -> None:
        """Refused if a user's file of the config is another than when the run was trained."""
        for path, digest in begun.sources.items():
            if users_files(begun.config).get(path) != digest:
                raise Refused(
                    f"{path} has changed since {self.path} was trained with it: restore the file, "
                    "or train with the new one, which is another run"
                )

    # The process at work

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Keeps state.json: running; and stopped or failed if an error ends the work. Refused, and
        nothing is written, where the folder, which is locked, was deleted meanwhile.
        """
        records.put_state(self.path, Stage.RUNNING)
        try:
            yield
        except BaseException as error:
            if not (self.path / locks.FILE).exists():
                raise Refused(f"{self.path}: its folder was deleted while it ran") from error
            with contextlib.suppress(OSError):  # the error matters more
                records.put_state(self.path, *_ending(error))
            raise

    def finish(self, result: Result) -> None:
        """Writes state.json, and the record, which says that the run is finished."""
        if not (self.path / locks.FILE).exists():
            raise FileNotFoundError(self.path)  # for `at_work`
        records.put_state(self.path, Stage.DONE, divergence(result.diverged))
        records.write(self.path / "result.json", result)

    def begin(self, about: Begun, tokenizer: str | None) -> Begun:
        """Writes config.json, and the text of tokenizer.json if there is one. Where the run was
        begun before, checks that it goes on with the same text and tokens, and says what else has
        changed.
        """
        if earlier := self.begun():
            return self._go_on(earlier, about)
        if tokenizer is not None:
            atomic.write(self.path / "tokenizer.json", tokenizer)
        for doubt in about.corpus.doubts():
            LOG.warning("note: %s", doubt)
        records.write(self.path / "config.json", about)
        return about

    def _go_on(self, earlier: Begun, about: Begun) -> Begun:
        if earlier.corpus.hash != about.corpus.hash:
            raise Refused(
                f"{self.path} was begun on other text ({about.corpus.source} has changed since): "
                "delete the folder, or give another --workdir"
            )
        tokenizer = about.config["data"]["tokenizer"]
        theirs, ours = (dataclasses.replace(one.tokenizer, spec="") for one in (earlier, about))
        if theirs != ours:
            raise Refused(
                f"{self.path} was begun with other tokens ({tokenizer} by another version of its "
                "library): delete the folder, or give another --workdir"
            )
        commit, devices = earlier.commit, earlier.devices
        if not commit.endswith(about.commit):
            commit = f"{commit}, then {about.commit}"
        before = devices or tuple(filter(None, [earlier.device]))
        if about.device and about.device not in before[-1:]:
            devices = (*before, about.device)
        about = dataclasses.replace(about, started=earlier.started, commit=commit, devices=devices)
        for part in ("versions", "device", "commit"):
            if getattr(earlier, part) != getattr(about, part):
                LOG.warning(
                    "%s: %s changed since the run was begun; its results are not bit-reproducible",
                    about.label,
                    part,
                )
        begun = dataclasses.replace(earlier, commit=commit, devices=devices)
        if begun != earlier:
            records.write(self.path / "config.json", begun)
        return about


def _ending(error: BaseException) -> tuple[Stage, str]:
    # The stage and the reason of a run that this error has ended
    match error:
        case Interrupted() | KeyboardInterrupt():
            return Stage.STOPPED, f"by {str(error) or 'SIGINT'}"
        case Refused():
            return Stage.FAILED, str(error)
        case OSError():
            return Stage.FAILED, in_words(error)
    return Stage.FAILED, f"{type(error).__name__}: {error}"
