"""What each seed of a run loses in nats where one of its parts is frozen (docs/atlas.md), as CSV.

    python -m experiments.studies.parts RUN [RUN ...] > FILE

`pe-jax atlas --carriers` has the first seed alone.
"""

from __future__ import annotations

import csv
import sys

from pe_jax.atlas import carriers
from pe_jax.report.stats import Interval
from pe_jax.runs.trained import Trained


def main(folders: list[str]) -> None:
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(("model", "seed", "part", "frozen", "half"))
    for folder in folders:
        for seed in Trained.of(folder).run.run.seeds:
            model = Trained.of(folder, seed=seed)
            for part in carriers.of_model(model)[1:]:
                lost = part.lost["frozen"]
                assert isinstance(lost, Interval)  # every part can be frozen
                rows.writerow((model.name, seed, part.name, f"{lost.mean:.4f}", f"{lost.half:.4f}"))


if __name__ == "__main__":
    main(sys.argv[1:])
