"""A trained run at other lengths, by other metrics, with other swaps or on other text; nothing is
trained.

    pe-jax evaluate --workdir=DIR/RUN --lengths=128,4096 [--metrics=sliding] [--swaps=window]
    [--source=files:PATH] [--split=valid] [--out=FILE.json]

What is not given is as the run's own config has it. The run's folder is left as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from pe_jax.commands import cli

if TYPE_CHECKING:
    from pe_jax.run import Run

OPTIONS = flags.FlagValues()
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the run: <workdir>/<run id>.", flag_values=OPTIONS
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
    from pe_jax import atomic, record
    from pe_jax.commands import console
    from pe_jax.errors import Refused
    from pe_jax.run import Run

    folder = Path(_WORKDIR.value)
    try:
        finished = atomic.read(folder / "result.json")
        if finished is None:
            raise ValueError(f"{folder} has no result.json: give the folder of a finished run")
        run = Run.of(_config(finished["config"], folder))
        result = finished | {"config": run.config} | _evaluated(run, folder)
        if _OUT.value:
            atomic.write(Path(_OUT.value), record.encode(record.decode(record.Result, result)))
    except (Refused, ValueError, TypeError, OSError) as error:
        return cli.fail(error)
    console.show(result)
    if _OUT.value:
        print(_OUT.value)
    return 0


def _config(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The config of the run with what the flags ask for."""
    evaluation = {
        "lengths": _LENGTHS.value and [_integer(length) for length in _LENGTHS.value],
        "metrics": _METRICS.value,
        "swaps": None if _SWAPS.value is None else cli.specs(_SWAPS.value),
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


def _evaluated(run: Run, folder: Path) -> dict[str, Any]:
    """The parts of a result that an evaluation of all seeds gives."""
    import jax
    import numpy as np

    from pe_jax.environment import threads
    from pe_jax.evaluate import evaluate
    from pe_jax.trained import Trained

    corpus = run.load()
    models = [Trained.of(folder, seed) for seed in run.run.seeds]
    found = evaluate(
        models[0].graphdef,
        jax.tree.map(lambda *leaves: np.stack(leaves), *(model.params for model in models)),
        run.encodings,
        corpus.splits[run.eval.split],
        run.eval,
        run.run.seeds,
        [-1] * len(models),  # the parameters of a diverged seed show that by themselves
        threads=threads() if jax.default_backend() == "cpu" else 1,
        sizes=corpus.tokenizer.sizes,
        segment=run.train.length,
    )
    return vars(found) | {"corpus": corpus.about}
