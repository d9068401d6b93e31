"""Finished runs at other lengths, by other metrics, with other swaps or text, without training.

    pe-jax evaluate --workdir=DIR/RUN --lengths=128,4096
                    [--metrics=nonoverlapping] [--swaps=window]
                    [--source=files:PATH] [--split=valid]
                    [--variant="ignore=0.98" ...] [--last=1024 --targets=4096]
                    [--out=DIR2]

--workdir is one run's folder, or a work directory: then its finished runs are evaluated, of several
train.rates the best. Defaults are each run's config. Scores are kept in RUN/scores.jsonl,
after Ctrl-C too, and not computed again. --out writes the tables, figures and page of these
evaluations, as `pe-jax report` does. RUN/result.json does not change.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pe_jax import terms
from pe_jax.commands import cli

OPTIONS = cli.Options()
_WORKDIR = OPTIONS.string("workdir", None, "Folder of a run, or of runs.", required=True)
_LENGTHS = OPTIONS.numbers("lengths", "Evaluation lengths in tokens, as 128,256.")
_METRICS = OPTIONS.names("metrics", None, "Metrics, as in eval.metrics.")
_SWAPS = OPTIONS.string("swaps", None, "Encodings swapped in, as in eval.swaps; empty: none.")
_VARIANTS = OPTIONS.strings("variant", [], 'Other fields of the task: "ignore=0.98".')
_SOURCE = OPTIONS.string("source", None, "Text, as in data.source.")
_SPLIT = OPTIONS.string("split", None, "The part of the text that is scored, as in eval.split.")
_LAST = OPTIONS.integer("last", None, "Scored tokens at the end of a window, as in eval.last.")
_TARGETS = OPTIONS.integer("targets", None, "Scored tokens at each length, as in eval.targets.")
_OUT = OPTIONS.string("out", None, "Folder for the tables and the report; default: none.")


def main() -> int:
    from pe_jax.commands import console
    from pe_jax.record import divergence
    from pe_jax.runs.execute import evaluate_again

    out = console.folder(_OUT.value)
    asked = {
        "lengths": _LENGTHS.value,
        "metrics": _METRICS.value and tuple(_METRICS.value),
        "swaps": None if _SWAPS.value is None else tuple(terms.elements(_SWAPS.value)),
        "variants": tuple(_VARIANTS.value) or None,
        "source": _SOURCE.value,
        "split": _SPLIT.value,
        "last": _LAST.value,
        "targets": _TARGETS.value,
    }
    changes = {name: value for name, value in asked.items() if value is not None}
    folders, results = console.finished(Path(_WORKDIR.value)), []
    for folder in folders:
        results.append(evaluate_again(folder, changes, verbose=True))
        if words := divergence(results[-1].diverged):
            print(f"{folder.name}: {words}: no scores", file=sys.stderr)
    if len(results) > 1 or out:
        console.publish(results, out)
    else:
        console.show(results[0])
    return 0
