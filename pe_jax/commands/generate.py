"""Text from a model, as it comes: its prompt, then new tokens.

    pe-jax generate --workdir=DIR/RUN --prompt="def " --tokens=500 --top_p=0.9
    pe-jax generate --model=hf:DIR --prompt="Call me" --tokens=100

RUN is a run's folder, the one with config.json and checkpoints/; --model is a pretrained model,
hf:DIR or gguf:PATH. Tokens a second go to stderr.
"""

from __future__ import annotations

import codecs
import functools
import statistics
import sys
import time
from typing import TYPE_CHECKING

from absl import flags

from pe_jax.commands import cli

if TYPE_CHECKING:
    from pe_jax.model.generate import TextModel

OPTIONS = flags.FlagValues()
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
integer = functools.partial(flags.DEFINE_integer, flag_values=OPTIONS)
number = functools.partial(flags.DEFINE_float, flag_values=OPTIONS)
_WORKDIR = string("workdir", None, "Folder of the run: <workdir>/<run id>.")
_MODEL = string("model", None, "A pretrained model instead of a run: hf:DIR or gguf:PATH.")
_PROMPT = string("prompt", "\n", "What the text begins with.")
_TOKENS = integer("tokens", 500, "How many new tokens.")
_TEMPERATURE = number("temperature", 1.0, "Divides the logits; 0: greedy.")
_TOP_K = integer("top_k", None, "Draw from this many likeliest tokens; default: all.")
_TOP_P = number(
    "top_p", None, "Draw from the fewest likeliest tokens of this probability; default: all."
)
_SEED = integer("seed", 0, "Of the draws: the same seed, the same text.")
_MODEL_SEED = integer(
    "model_seed", None, "Which of the run's models, by its seed; default: the first."
)
_SWAP = string("swap", "", "Encodings swapped in, as in eval.swaps.")


def main() -> int:
    pretrained, workdir = _MODEL.value, _WORKDIR.value
    if bool(workdir) == bool(pretrained):
        return cli.fail(
            "give either --workdir=RUN, the folder of a trained run, or --model=hf:DIR or "
            "gguf:PATH, a pretrained model"
        )
    from pe_jax.errors import Refused
    from pe_jax.model.generate import Sampling
    from pe_jax.pretrained.load import load

    prompt = _PROMPT.value.encode("utf-8", "surrogateescape")
    try:
        sampling = Sampling(_TEMPERATURE.value, _TOP_K.value, _TOP_P.value)
        model = load(pretrained) if pretrained else _trained(workdir or "")
        pieces = model.stream(prompt, _TOKENS.value, sampling, _SEED.value, _SWAP.value)
    except (Refused, ValueError, OSError) as error:
        return cli.fail(error)
    _stream(prompt, pieces, model.tokenizer)
    return 0


def _trained(folder: str) -> TextModel:
    """The model of a run, which may have been cut off in training."""
    from pe_jax.runs.trained import Trained

    trained = Trained.of(folder, _MODEL_SEED.value, _say)
    if trained.step < trained.run.train.steps:
        _say(f"trained for {trained.step} of {trained.run.train.steps} steps")
    return trained


def _stream(prompt: bytes, pieces, tokenizer) -> None:
    """Prints whole characters as their bytes come, then the speed."""
    import numpy as np

    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def put(text: bytes, final: bool = False) -> None:
        sys.stdout.write(decoder.decode(text, final))
        sys.stdout.flush()

    encoded = tokenizer.encode([np.frombuffer(prompt, np.uint8)])[0]
    put(tokenizer.decode(encoded))  # with the space that parts a task's symbols from what follows
    begun, count, rates = time.monotonic(), 0, []
    called = begun
    for piece in pieces:
        put(tokenizer.decode(piece))
        now = time.monotonic()
        count += piece.size
        rates.append(piece.size / (now - called))
        called = now
    put(b"\n", final=True)
    rate = statistics.median(rates)
    _say(f"{count} tokens in {called - begun:.1f} s, compilation included; {rate:.0f} tokens/s")


def _say(message: str) -> None:
    print(f"{sys.argv[0]}: {message}", file=sys.stderr)
