"""A pretrained model at longer lengths than it was trained for: as it is, and with each scaling of
RoPE, a window and other encodings swapped in. Nothing is trained.

    pe-jax extend --model=hf:DIR --source=files:PATH --workdir=DIR [--lengths=2048,8192,16384]
    [--swaps=pi,yarn] [--places=8] [--last=256] [--weights=bfloat16] [--out=results/NAME]

--model is hf:DIR, a folder of HuggingFace's with a Llama, Mistral, Qwen2, Qwen3 or GPT-NeoX
(Pythia), or gguf:PATH, a Llama in llama.cpp's format. The last --last tokens before each of
--places places of the text are scored, the same at every length and with every swap. With
--metrics=same_targets,passkey also --samples numbers are hidden in filler text and asked for. It is
a run of no steps: the same command goes on where it was cut off, and computes only what it lacks.
"""

from __future__ import annotations

import re

from absl import flags

from pe_jax.commands import cli

SWAPS = "window,window(sinks=4),pi,ntk,dynamic_ntk,yarn,rerope,self_extend,lm_infinite"
OPTIONS = flags.FlagValues()
_MODEL = flags.DEFINE_string("model", None, "hf:DIR or gguf:PATH.", flag_values=OPTIONS)
_SOURCE = flags.DEFINE_string(
    "source",
    None,
    "Text, as in data.source: files:PATH.",
    flag_values=OPTIONS,
)
_LENGTHS = flags.DEFINE_list(
    "lengths",
    None,
    "Evaluation lengths in tokens; default: that of training, and twice as long.",
    flag_values=OPTIONS,
)
_SWAPS = flags.DEFINE_string(
    "swaps", SWAPS, "Encodings swapped in, with commas between them.", flag_values=OPTIONS
)
_PLACES = flags.DEFINE_integer("places", 8, "Places of the text, at least 2.", flag_values=OPTIONS)
_LAST = flags.DEFINE_integer("last", 256, "Scored tokens before a place.", flag_values=OPTIONS)
_METRICS = flags.DEFINE_list(
    "metrics", ["same_targets"], "Metrics, as in eval.metrics.", flag_values=OPTIONS
)
_SAMPLES = flags.DEFINE_integer("samples", 64, "Prompts of a metric.", flag_values=OPTIONS)
_WEIGHTS = flags.DEFINE_enum(
    "weights",
    "float32",
    ["float32", "bfloat16"],
    "What the parameters are stored in; activations are float32.",
    flag_values=OPTIONS,
)
_WORKDIR = flags.DEFINE_string("workdir", "runs", "Folder of the scores.", flag_values=OPTIONS)
_OUT = flags.DEFINE_string(
    "out", None, "Folder for the tables and the report; default: none.", flag_values=OPTIONS
)


def main() -> int:
    model, source = _MODEL.value, _SOURCE.value
    if not model or not source:
        return cli.fail("--model=hf:DIR or gguf:PATH and --source=files:PATH are required")
    if _PLACES.value < 2 or _LAST.value < 1:
        return cli.fail(
            f"--places must be at least 2 and --last at least 1, got {_PLACES.value} and "
            f"{_LAST.value}: intervals are over places"
        )
    from pe_jax.commands import console
    from pe_jax.compose.parse import parse_list
    from pe_jax.errors import Refused
    from pe_jax.pretrained.source import Source
    from pe_jax.runs.execute import execute
    from pe_jax.runs.folder import Folder
    from pe_jax.runs.run import Run
    from pe_jax.training.session import Interrupted

    try:
        out = console.folder(_OUT.value)
        length = Source.of(model).about.length
        asked = {
            "lengths": tuple(
                console.integer("--lengths", n) for n in _LENGTHS.value or (length, 2 * length)
            ),
            "metrics": tuple(_METRICS.value),
            "swaps": tuple(parse_list(_SWAPS.value)),
            "targets": _PLACES.value * _LAST.value,
            "last": _LAST.value,
            "samples": _SAMPLES.value,
            "weights": _WEIGHTS.value,
        }
        run = Run.pretrained(model, source, asked)
        with console.RunView(run) as view:
            result = execute(run, _WORKDIR.value, cli.command_line(), view)
        console.publish([result], out)
    except Interrupted as error:
        cli.fail(f"stopped by {error}, saved: {cli.goes_on(cli.command_line())}")
        return cli.INTERRUPTED
    except (Refused, ValueError, TypeError, OSError) as error:
        return cli.fail(error if isinstance(error, OSError) else _in_flags(error))
    print(Folder.of(run.id, _WORKDIR.value).path / "result.json")
    return 0


def _in_flags(error: Exception) -> str:
    """The message with the flags of this command in place of the fields of section `eval`."""
    text = str(error).replace("eval.targets", "--places times --last")
    return re.sub(r"\beval\.(lengths|last|swaps|metrics|samples)\b", r"--\1", text)
