"""Searches factors of `longrope` for a finished run, on validation text; nothing is trained.

    pe-jax longrope --workdir=DIR/RUN --length=256 [--generations=40 --population=64]
    [--targets=16384] [--seed=1] [--model_seed=0]

The model was trained with rope on shorter texts. The search is that of the paper (Ding et al.,
2024), begun with pi, ntk, yarn and longrope itself. At its end stand the encoding that scores best
on validation text and the command that scores it on test text. The paper's search has a population
of 64 and 40 generations, 1344 candidates; the defaults are 32 and 10, 192 candidates. The same
command goes on where it was cut off, and with more --generations from where it ended. What was
scored is kept in RUN/longrope.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from absl import flags

from pe_jax.commands import cli

OPTIONS = flags.FlagValues()
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the finished run: <workdir>/<run id>.", flag_values=OPTIONS
)
_LENGTH = flags.DEFINE_integer(
    "length", None, "The longer length, in tokens, that factors are for.", flag_values=OPTIONS
)
_TARGETS = flags.DEFINE_integer(
    "targets", 4096, "Scored tokens of validation text, for each candidate.", flag_values=OPTIONS
)
_POPULATION = flags.DEFINE_integer(
    "population",
    32,
    "Candidates of the first generation; of each later one half as many.",
    flag_values=OPTIONS,
)
_GENERATIONS = flags.DEFINE_integer(
    "generations", 10, "Generations after the first.", flag_values=OPTIONS
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the search.", flag_values=OPTIONS)
_MODEL_SEED = flags.DEFINE_integer(
    "model_seed",
    None,
    "Which of the run's models, by its seed; default: the first.",
    flag_values=OPTIONS,
)


def main() -> int:
    if not _WORKDIR.value or _LENGTH.value is None:
        return cli.fail(
            "--workdir=RUN, the folder of a finished run, and --length=TOKENS are required"
        )
    for flag, least in ((_TARGETS, 1), (_GENERATIONS, 0), (_SEED, 0)):
        if flag.value < least:
            return cli.fail(f"--{flag.name} must be at least {least}, got {flag.value}")
    from pe_jax.commands import console
    from pe_jax.errors import Refused
    from pe_jax.runs.longrope import Asked, search
    from pe_jax.runs.trained import Trained
    from pe_jax.training.session import Interrupted

    asked = Asked(_LENGTH.value, _TARGETS.value, _POPULATION.value, _GENERATIONS.value, _SEED.value)
    try:
        said = []
        model = Trained.of(_WORKDIR.value, _MODEL_SEED.value, said.append)
        with console.SearchView(model.run.label) as view:
            for message in said:
                view.say(message)
            found = search(model, asked, view)
    except Interrupted as error:
        cli.fail(f"stopped by {error}, saved: {cli.goes_on(cli.command_line())}")
        return cli.INTERRUPTED
    except (Refused, ValueError, OSError) as error:
        return cli.fail(error)
    print(f"bits per byte of validation text at {asked.length} tokens, seed {model.seed}:")
    for name, value in (*found.begin.items(), ("found", found.value)):
        print(f"  {name:10}{value:.4f}")
    swaps = ",".join((*found.begin, found.spec))
    print(f"{found.spec}\n{found.path}\nOn test text:\n{_test(model.folder, asked.length, swaps)}")
    return 0


def _test(folder: Path, length: int, swaps: str) -> str:
    """The command that scores the swaps on test text."""
    flags_of = {"workdir": str(folder), "lengths": str(length), "swaps": swaps, "split": "test"}
    quoted = (f"--{name}={shlex.quote(value)}" for name, value in flags_of.items())
    return f"{cli.other('evaluate')} {' '.join(quoted)}"
