"""Many finished runs: those of `studies`, at many learning rates."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from helpers import trained_line
from studies import make_records

from pe_jax.record import Begun, Result, Stage
from pe_jax.storage import jsonl, records

BEGUN = [field.name for field in dataclasses.fields(Begun)]


def results(count: int) -> Iterator[Result]:
    known = make_records()
    for i in range(count):
        one = known[i % len(known)]
        rate = 0.009 * (1 + i // len(known) / 1000)
        config = one.config | {"train": one.config["train"] | {"rate": rate}}
        rows = tuple(
            dataclasses.replace(row, value=row.value and row.value + i / 1e5) for row in one.rows
        )
        yield dataclasses.replace(one, id=f"{one.id[:-8]}{i:08x}", config=config, rows=rows)


def write(workdir: Path, count: int) -> None:
    """The folders of so many runs, as after their sweep, with the history of their training."""
    for result in results(count):
        folder = workdir / result.id
        records.write(folder / "config.json", Begun(**{n: getattr(result, n) for n in BEGUN}))
        records.write(folder / "result.json", result)
        records.put_state(folder, Stage.DONE)
        loss = [1.0] * len(result.seeds)
        history = (trained_line(result.seeds, step, loss) for step in range(25, 351, 25))
        jsonl.replace(folder / "metrics.jsonl", history)
