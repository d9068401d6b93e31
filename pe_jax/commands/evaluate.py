"""A trained run at other lengths, by other metrics, with other swaps or on other text; nothing is
trained.

    pe-jax evaluate --workdir=DIR/RUN --lengths=128,4096 [--metrics=sliding] [--swaps=window]
    [--source=files:PATH] [--split=valid] [--out=FILE.json]

What is not given is as in the run's own config. The run's folder is left as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from pe_jax.commands import cli

if TYPE_CHECKING:
    from pe_jax.record import Result
    from pe_jax.runs.run import Run

OPTIONS = flags.FlagValues()
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of a finished run: DIR/<run id>.", flag_values=OPTIONS
)
_LENGTHS = flags.DEFINE_list(
    "lengths", None, "Evaluation lengths in tokens, as 128,256.", flag_values=OPTIONS
)
_METRICS = flags.DEFINE_list("metrics", None, "Metrics, as in eval.metrics.", flag_values=OPTIONS)
_SWAPS = flags.DEFINE_string(
    "swaps", None, "Encodings swapped in, as in eval.swaps; empty: none.", flag_values=OPTIONS
)
_SOURCE = flags.DEFINE_string("source", None, "Text, as in data.source.", flag_values=OPTIONS)
_SPLIT = flags.DEFINE_string(
    "split", None, "The part of the text that is scored, as in eval.split.", flag_values=OPTIONS
)
_OUT = flags.DEFINE_string("out", None, "File for the result; default: none.", flag_values=OPTIONS)


def main() -> int:
    if not _WORKDIR.value:
        return cli.fail("--workdir=RUN is required: the folder of a finished run")
    from pe_jax import record
    from pe_jax.commands import console
    from pe_jax.errors import Refused
    from pe_jax.runs.run import Run
    from pe_jax.runs.trained import find_run
    from pe_jax.storage import atomic, records

    try:
        folder, _ = find_run(Path(_WORKDIR.value))
        finished = records.read(record.Result, folder / "result.json")
        if finished is None:
            raise ValueError(f"{folder} has no result.json: the run has not finished yet")
        run = Run.of(_config(finished.config, folder))
        result = _evaluated(run, folder, finished)
        if _OUT.value:
            atomic.write(Path(_OUT.value), record.encode(result))
    except (Refused, ValueError, TypeError, OSError) as error:
        return cli.fail(error)
    console.show(result)
    if _OUT.value:
        print(_OUT.value)
    return 0


def _config(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The config of the run with what the flags ask for."""
    from pe_jax.spec.parse import parse_list

    evaluation = {
        "lengths": _LENGTHS.value and [_integer(length) for length in _LENGTHS.value],
        "metrics": _METRICS.value,
        "swaps": None if _SWAPS.value is None else parse_list(_SWAPS.value),
        "split": _SPLIT.value,
    }
    data = {"source": _SOURCE.value}
    if (folder / "tokenizer.json").is_file():  # other text is read by the run's own tokens
        data["tokenizer"] = f"file:{(folder / 'tokenizer.json').resolve()}"
    return config | {
        "eval": config["eval"] | {k: v for k, v in evaluation.items() if v is not None},
        "data": config["data"] | {k: v for k, v in data.items() if v is not None},
        "train": config["train"] | {"init_from": ""},  # where it started does not matter now
    }


def _integer(length: str) -> int:
    if not re.fullmatch(r"\s*\d+\s*", length):
        raise ValueError(f"--lengths must be integers with commas between them, got {length!r}")
    return int(length)


def _evaluated(run: Run, folder: Path, finished: Result) -> Result:
    """The result of the finished run with the scores of all its seeds by the config of `run`.

    Its corpus is still the text that the run was trained on; a note says which other was scored.
    """
    import dataclasses

    from pe_jax.runs.scores import final_states, scores

    corpus = run.load()
    evaluation = scores(run, final_states(run, folder), corpus)
    notes = finished.advice
    if corpus.about.hash != finished.corpus.hash:
        scored = f"{corpus.about.source} (SHA-256 {corpus.about.hash[:12]})"
        notes += (f"{finished.label} was scored on other text than it was trained on: {scored}",)
    return dataclasses.replace(finished, **vars(evaluation), config=run.config, advice=notes)
