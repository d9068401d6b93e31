"""A pretrained model at longer lengths than it was trained for: as it is, and with eight scalings
and windows swapped in, or those of --swaps; and which of them it should get. Nothing is trained.

    pe-jax extend --model=hf:DIR --source=files:PATH --workdir=DIR
                  [--lengths=2048,8192,16384] [--swaps=pi,yarn] [--places=8]
                  [--last=4096] [--weights=bfloat16] [--out=DIR2]

--model is hf:DIR, a folder of HuggingFace's with a Llama, Mistral, Qwen2, Qwen3, Gemma 3 or
GPT-NeoX (Pythia), or gguf:PATH, a Llama or Gemma 3 in llama.cpp's format. The last --last tokens
before each of --places places of the text are scored, the same at every length and with every swap,
and with prompts among the --metrics --samples of each. With --as_if=N the model is scored as if
trained at N tokens, where the truth is known: as it is, it can read all that it was really trained
for. It is a run of no steps: the same command goes on where it was cut off, and computes only what
it lacks. --dry_run says beforehand how long it will take, --inspect prints the prompts.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

from absl import flags

from pe_jax.commands import cli

if TYPE_CHECKING:
    from pe_jax.pretrained.config import Described
    from pe_jax.runs.run import Run

LAST, RECORDS = 4096, 1024
SWAPS = "pi,ntk,dynamic_ntk,yarn,streaming,lm_infinite,rerope,self_extend"
OPTIONS = flags.FlagValues()
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
listed = functools.partial(flags.DEFINE_list, flag_values=OPTIONS)
integer = functools.partial(flags.DEFINE_integer, flag_values=OPTIONS)
boolean = functools.partial(flags.DEFINE_bool, flag_values=OPTIONS)
_MODEL = string("model", None, "hf:DIR or gguf:PATH.")
_SOURCE = string("source", None, "Text, as in data.source: files:PATH.")
_LENGTHS = listed(
    "lengths",
    None,
    "Evaluation lengths in tokens; default: a quarter of that of training, that, and twice as "
    "long; with --as_if N and that of training. Where a longer one is among them, that of training "
    "is scored, too.",
)
_SWAPS = string("swaps", SWAPS, "Encodings swapped in, with commas between them.")
_PLACES = integer("places", 8, "Places of the text, at least 2.")
_LAST = integer(
    "last", None, "Scored tokens before a place; default: 4096, at most half the shortest length."
)
_METRICS = listed(
    "metrics",
    None,
    "Metrics, as in eval.metrics; default: same_targets, kl and, where the shortest length is at "
    "least 1024, records.",
)
_SAMPLES = integer("samples", 8, "Prompts of a metric.")
_AS_IF = integer(
    "as_if",
    None,
    "Scores the model as if it had been trained at so many tokens, fewer than it was.",
)
_MARGIN = flags.DEFINE_float(
    "margin",
    0.01,
    "Bits per byte within which two swaps count as equal in the answer.",
    flag_values=OPTIONS,
)
_BASELINE = string(
    "baseline",
    None,
    "The swap that the answer compares with; default: the best on the text, with --as_if the model "
    "as it is.",
)
_INSPECT = boolean(
    "inspect",
    False,
    "Prints the first prompt of each metric with prompts, with the tokens of what it asks for.",
)
_DRY_RUN = boolean(
    "dry_run",
    False,
    "Times a pass at the shortest length, prints how long all will take, and scores nothing.",
)
_WEIGHTS = flags.DEFINE_enum(
    "weights",
    "float32",
    ["float32", "bfloat16"],
    "What the parameters are stored in; activations are float32.",
    flag_values=OPTIONS,
)
_WORKDIR = string("workdir", "runs", "Folder of the scores.")
_OUT = string("out", None, "Folder for the tables and the report; default: none.")


def main() -> int:
    model, source = _MODEL.value, _SOURCE.value
    if not model or not source:
        return cli.fail("--model=hf:DIR or gguf:PATH and --source=files:PATH are required")
    if _PLACES.value < 2 or (_LAST.value is not None and _LAST.value < 1):
        return cli.fail(
            f"--places must be at least 2 and --last at least 1, got {_PLACES.value} and "
            f"{_LAST.value}: intervals are over places"
        )
    if not 0 < _MARGIN.value < math.inf:
        return cli.fail(f"--margin must be a finite number above 0, got {_MARGIN.value:g}")
    from pe_jax.commands import console, estimate, inspection
    from pe_jax.errors import Refused
    from pe_jax.pretrained import answer
    from pe_jax.runs.execute import execute
    from pe_jax.runs.folder import Folder
    from pe_jax.training.session import Interrupted

    try:
        out = console.folder(_OUT.value)
        run = _run(model, source)
        folder = Folder.of(run.id, _WORKDIR.value)
        if _BASELINE.value:  # a misspelt one is told before the work
            answer.way_of(_BASELINE.value, run.eval.ways)
        if _INSPECT.value:
            inspection.show(run)
            return 0
        if _DRY_RUN.value:
            estimate.show(run, folder)
            return 0
        with console.RunView(run, folder) as view:
            result = execute(run, _WORKDIR.value, cli.command_line(), view)
        found = answer.answer(result, run.encodings, _MARGIN.value, _BASELINE.value)
        console.publish([result], out, answer=answer.sheet(found))
    except Interrupted as error:
        cli.fail(f"stopped by {error}, saved: {cli.goes_on(cli.command_line())}")
        return cli.INTERRUPTED
    except (Refused, ValueError, TypeError, OSError) as error:
        return cli.fail(error if isinstance(error, OSError) else _in_flags(error))
    print(folder.path / "result.json")
    return 0


def _run(model: str, source: str) -> Run:
    """The run that the flags ask for. Prints a length that is scored although no flag names it, and
    a hint where no length is beyond the training length.
    """
    from pe_jax.commands import console
    from pe_jax.pretrained.source import Source
    from pe_jax.runs.run import Run
    from pe_jax.specs.parse import parse_list

    about = Source.of(model).about
    real = about.length
    trained = real if _AS_IF.value is None else _AS_IF.value
    if not 2 <= trained <= real:
        raise ValueError(
            f"--as_if must be between 2 and {real}, what the model was trained for, got {trained}"
        )
    usual = (trained, real) if trained < real else (max(2, real // 4), real, 2 * real)
    lengths = tuple(console.integer("--lengths", n) for n in _LENGTHS.value or usual)
    if trained < real < max(lengths):
        raise ValueError(
            f"--as_if holds swaps against the model as it is, which was trained for {real} tokens, "
            f"got --lengths up to {max(lengths)}: leave longer ones out"
        )
    last = _LAST.value or max(1, min(LAST, min(*lengths, trained) // 2))
    metrics = tuple(_METRICS.value or ("same_targets", "kl"))
    if not _METRICS.value and min(*lengths, trained) >= RECORDS:
        metrics += ("records",)
    asked = {
        "lengths": lengths,
        "metrics": metrics,
        "swaps": tuple(parse_list(_SWAPS.value) if _SWAPS.present else _usual_swaps(about)),
        "targets": _PLACES.value * last,
        "last": last,
        "samples": _SAMPLES.value,
        "weights": _WEIGHTS.value,
        "reference": min(real, max(lengths)),
    }
    run = Run.pretrained(model, source, asked, trained)
    if joined := sorted({*run.eval.lengths} - {*lengths}):
        print(f"also scored: {joined[0]} tokens, the training length, which gains are counted from")
    if max(lengths) <= trained:
        print(
            f"no length is beyond the {trained} tokens that the model was trained for, where it "
            "needs no swap: give longer ones, or --as_if=N to score it as if trained at N"
        )
    return run


def _usual_swaps(about: Described) -> list[str]:
    """The default swaps, and the model's own scaling with the factor of each length where it is
    known what length that counts from, as far as they change the model; the others are printed.
    ValueError if none does.
    """
    from pe_jax.encodings.scaled import Scaled
    from pe_jax.specs.parse import parse_list
    from pe_jax.specs.swap import swap

    own = about.encodings
    scaled = [m.name for m, e in zip(about.spec, own, strict=True) if isinstance(e, Scaled)]
    fit, unfit = [], []
    for spec in dict.fromkeys([*scaled, *parse_list(SWAPS)]):
        try:
            made = swap(own, spec)
        except ValueError:
            made = own
        (unfit if made == own else fit).append(spec)
    if not fit:
        raise ValueError(
            f"none of the usual swaps ({SWAPS}) can take the place of this model's {about.spec}: "
            "name others by --swaps, as in --swaps='window(window=2048)'"
        )
    if unfit:
        print(
            f"left out, since they cannot replace or do not change {about.spec}: {', '.join(unfit)}"
        )
    return fit


def _in_flags(error: Exception) -> str:
    """The message with the flags of this command in place of the fields of section `eval`."""
    text = str(error).replace("eval.targets", "--places times --last")
    return re.sub(r"\beval\.(lengths|last|swaps|metrics|samples)\b", r"--\1", text)
