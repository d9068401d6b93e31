"""Scores a pretrained model at longer lengths: as it is, and with scalings and windows swapped in.
Its answer says which one to use. Nothing is trained.

    pe-jax extend --model=hf:DIR --source=files:PATH --workdir=DIR
                  [--lengths=2048,8192,16384] [--swaps=pi,yarn] [--places=8]
                  [--last=4096] [--weights=bfloat16] [--out=DIR2] [--dry_run]

--model is hf:DIR, a folder of HuggingFace's with a Llama, Mistral, Qwen2, Qwen3, Phi-3, OLMo 2 or
3, SmolLM3, Gemma 3, GPT-NeoX (Pythia) or ModernBERT, or gguf:PATH, a Llama or Gemma 3 in
llama.cpp's format. The last --last tokens before each of --places places of the text are scored, or
of an encoder hidden tokens among those around it, the same at every length and with every swap;
prompts among the --metrics have --samples samples. With --as_if=N swaps treat the model as trained
at N tokens, and the unchanged model shows the best possible score. The same command goes on where
it was cut off; --dry_run says beforehand how long it will take.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pe_jax import terms
from pe_jax.commands import cli
from pe_jax.errors import nearest

if TYPE_CHECKING:
    from pe_jax.evaluation.evaluate import Estimate
    from pe_jax.pretrained.config import Described
    from pe_jax.runs.run import Run

LAST, RECORDS = 4096, 1024
SWAPS = "pi, ntk, dynamic_ntk, yarn, streaming, lm_infinite, rerope, self_extend"
OPTIONS = cli.Options()
_MODEL = OPTIONS.string("model", None, "hf:DIR or gguf:PATH.", required=True)
_SOURCE = OPTIONS.string("source", None, "Text, as in data.source: files:PATH.", required=True)
_LENGTHS = OPTIONS.numbers(
    "lengths", "Evaluation lengths; default: 1/4, 1 and 2 times the training length."
)
_SWAPS = OPTIONS.string(
    "swaps", None, f"Encodings swapped in; default: {SWAPS}, and the model's own scaling."
)
_PLACES = OPTIONS.integer("places", 8, "Places of the text.", lower_bound=2)
_LAST = OPTIONS.integer(
    "last", None, "Scored tokens before a place; default: up to 4096.", lower_bound=1
)
_METRICS = OPTIONS.names(
    "metrics",
    None,
    "As eval.metrics; default: same_targets, kl, changed, records; of an encoder masked_tokens, "
    "first_choices.",
)
_SAMPLES = OPTIONS.integer("samples", 8, "Prompts of a metric.")
_AS_IF = OPTIONS.integer("as_if", None, "Treats the model as trained at so many tokens.")
_MARGIN = OPTIONS.number("margin", 0.01, "Bits per byte that do not matter.", lower_bound=1e-9)
_WEIGHTS = OPTIONS.choice(
    "weights", "float32", "Dtype of parameters.", enum_values=["float32", "bfloat16"]
)
_WORKDIR = OPTIONS.string("workdir", "runs", "Folder of the scores.")
_SERVE = OPTIONS.names(
    "serve", None, "Programs that must serve the choice as it is scored: transformers, vllm, ..."
)
_OUT = OPTIONS.string("out", None, "Folder for the tables and the report; default: none.")
_DRY_RUN = OPTIONS.boolean("dry_run", False, "Say how long it will take, and stop.")


def main() -> int:
    from pe_jax.commands import console
    from pe_jax.pretrained.recommend import recommend, sheet
    from pe_jax.pretrained.source import Source
    from pe_jax.runs.execute import estimate, execute
    from pe_jax.runs.folder import Folder

    about = Source.of(_MODEL.value).about
    out, run = console.folder(_OUT.value), _run(about)
    if _DRY_RUN.value:
        print(_said(run, estimate(run, _WORKDIR.value)))
        return 0
    result = execute(run, _WORKDIR.value, cli.command_line())
    choices = recommend(result, run.encodings, _MARGIN.value, _SERVE.value or (), about.family)
    console.publish([result], out, answer=sheet(choices))
    print(Folder.of(run.id, _WORKDIR.value).path / "result.json")
    return 0


def _said(run: Run, estimate: Estimate | None) -> str:
    from pe_jax.record import in_bytes
    from pe_jax.runs.progress import duration

    if estimate is None:
        return "all scores are there: the same command without --dry_run writes the tables"
    shortest, longest = run.eval.lengths[0], run.eval.lengths[-1]
    return (
        f"about {duration(estimate.seconds)} for {estimate.passes} windows of "
        f"{shortest} to {longest} tokens, as it is and with {', '.join(run.eval.swaps)}\n"
        f"a window of {shortest} tokens takes {estimate.taken:.2g} s; one of {longest} needs "
        f"{in_bytes(estimate.memory)} of memory"
    )


def _run(about: Described) -> Run:
    from pe_jax.pretrained.served import PROGRAMS, fixed
    from pe_jax.runs.run import Run
    from pe_jax.specs.swap import swap

    for name in _SERVE.value or ():
        if name not in PROGRAMS:
            known = f"{nearest(name, PROGRAMS)} Known: {', '.join(PROGRAMS)}."
            raise ValueError(f"--serve names an unknown program {name!r}{known}")
    real = about.length
    trained = real if _AS_IF.value is None else _AS_IF.value
    if not 2 <= trained <= real:
        raise ValueError(f"--as_if must be between 2 and {real}, its real length, got {trained}")
    usual = (trained, real) if trained < real else (max(2, real // 4), real, 2 * real)
    lengths = _LENGTHS.value or usual
    if trained < real < max(lengths):
        raise ValueError(
            f"with --as_if the lengths are at most {real}, at which the model was trained, got "
            f"{max(lengths)}"
        )
    shortest = min(*lengths, trained)
    last = _LAST.value or max(1, min(LAST, shortest // 2))
    metrics = ("same_targets", "kl", "changed", *(["records"] if shortest >= RECORDS else []))
    metrics = metrics if about.lm.causal else ("masked_tokens", "first_choices")
    swaps = terms.elements(_SWAPS.value) if _SWAPS.present else _usual_swaps(about)
    own = about.spec.encodings(about.lm.dims(trained))
    changing = [spec for spec in swaps if swap(own, spec) != own]
    served = [fixed(own, s, max(lengths)) for s in swaps if s in changing or trained == real]
    if not (_SWAPS.present or changing or any(served)):
        raise ValueError(
            f"none of {SWAPS} can take the place of this model's {about.spec}: give --swaps"
        )
    asked = {
        "lengths": lengths,
        "metrics": tuple(_METRICS.value or metrics),
        "swaps": (*changing, *filter(None, served)),
        "targets": _PLACES.value * last,
        "last": last,
        "samples": _SAMPLES.value,
        "weights": _WEIGHTS.value,
        "reference": min(real, max(lengths)),
    }
    return Run.pretrained(_MODEL.value, _SOURCE.value, asked, trained)


def _usual_swaps(about: Described) -> list[str]:
    # The model's own scaling and SWAPS that change it; of an encoder a window, too
    from pe_jax.encodings.scaled import Scaled
    from pe_jax.specs.swap import swap

    own = about.encodings
    swaps = [m.name for m, e in zip(about.spec, own, strict=True) if isinstance(e, Scaled)]
    for spec in [*SWAPS.split(", "), *([] if about.lm.causal else ["window"])]:
        with contextlib.suppress(ValueError):
            if swap(own, spec) != own:
                swaps.append(spec)
    return swaps
