"""A work directory of many finished runs, made of the records of a study: the same with other
learning rates, each with a history of its training.
"""

import dataclasses
from pathlib import Path

from pe_jax.record import Begun, Stage
from pe_jax.report import study
from pe_jax.storage import records, state
from pe_jax.storage.history import write_lines


def make(workdir: Path, published: Path, count: int) -> None:
    """`count` folders of runs in `workdir`, as if their sweep had just ended."""
    known = study.load(published)
    for i in range(count):
        result = known[i % len(known)]
        rate = result.config["train"]["rate"] * (1 + i // len(known) / 1000)
        config = result.config | {"train": result.config["train"] | {"rate": rate}}
        run = f"{result.id[:-8]}{i:08x}"
        rows = tuple(
            dataclasses.replace(row, value=None if row.value is None else row.value + i / 1e5)
            for row in result.rows
        )
        made = dataclasses.replace(result, id=run, config=config, rows=rows)
        names = [field.name for field in dataclasses.fields(Begun)]
        folder = workdir / run
        folder.mkdir(parents=True)
        records.write(folder / "config.json", Begun(**{n: getattr(made, n) for n in names}))
        records.write(folder / "result.json", made)
        state.put(folder, Stage.DONE)
        steps = config["train"]["steps"]
        line = {"seeds": list(result.seeds), "of": steps, "loss": [1.0] * len(result.seeds)}
        line |= {"grad_norm": line["loss"], "rate": rate, "ms_per_step": 1.0}
        line |= {"tokens_per_second": 1.0}
        write_lines(
            folder / "metrics.jsonl", (line | {"step": step} for step in range(25, steps + 1, 25))
        )
