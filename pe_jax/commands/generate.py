"""Text from a model, as it comes: its prompt, then new tokens.

    pe-jax generate --workdir=DIR/RUN --prompt="def " --tokens=500 --top_p=0.9
    pe-jax generate --model=hf:DIR --prompt="Call me" --tokens=100

RUN is a run's folder, the one with config.json and checkpoints/; --model is a pretrained model,
hf:DIR or gguf:PATH. The time goes to stderr.
"""

from __future__ import annotations

import codecs
import sys
import time

from pe_jax.commands import cli

OPTIONS = cli.Options()
_WORKDIR = OPTIONS.string("workdir", None, "Folder of the run: <workdir>/<run id>.")
_MODEL = OPTIONS.string("model", None, "A pretrained model instead of a run: hf:DIR or gguf:PATH.")
_PROMPT = OPTIONS.string("prompt", "\n", "Beginning of the text.")
_TOKENS = OPTIONS.integer("tokens", 500, "New tokens.")
_TEMPERATURE = OPTIONS.number("temperature", 1.0, "Divides the logits; 0: greedy.")
_TOP_K = OPTIONS.integer("top_k", None, "Draw from this many likeliest tokens; default: all.")
_TOP_P = OPTIONS.number("top_p", None, "Draw from the likeliest tokens of this total probability.")
_SEED = OPTIONS.integer("seed", 0, "Of the draws: the same seed, the same text.")
_MODEL_SEED = OPTIONS.integer("model_seed", None, "Seed of the run's model; default: the first.")
_SWAP = OPTIONS.string("swap", "", "Encodings swapped in, as in eval.swaps.")


def main() -> int:
    if bool(_WORKDIR.value) == bool(_MODEL.value):
        return cli.fail("give either --workdir=RUN, a trained run, or --model=hf:DIR or gguf:PATH")
    import numpy as np

    from pe_jax.model.generate import Sampling
    from pe_jax.pretrained.load import load
    from pe_jax.runs.progress import Display
    from pe_jax.runs.trained import Trained

    prompt = _PROMPT.value.encode()
    sampling = Sampling(_TEMPERATURE.value, _TOP_K.value, _TOP_P.value)
    if _MODEL.value:
        model = load(_MODEL.value)
    else:
        with Display():
            model = Trained.of(_WORKDIR.value, _MODEL_SEED.value)
        if model.step < (steps := model.run.train.steps):
            print(f"trained for {model.step} of {steps} steps", file=sys.stderr)
    pieces = model.stream(prompt, _TOKENS.value, sampling, _SEED.value, _SWAP.value)
    tokenizer = model.tokenizer
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # of whole characters
    encoded = tokenizer.encode([np.frombuffer(prompt, np.uint8)])[0]
    print(decoder.decode(tokenizer.decode(encoded)), end="", flush=True)
    begun, count = time.monotonic(), 0
    for piece in pieces:
        print(decoder.decode(tokenizer.decode(piece)), end="", flush=True)
        count += piece.size
    print(decoder.decode(b"\n", final=True), end="", flush=True)
    seconds = time.monotonic() - begun
    print(f"{count} tokens in {seconds:.1f} s, compilation included", file=sys.stderr)
    return 0
