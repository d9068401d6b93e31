"""One process of the long-context benchmark: a trained run, a swap, a length and a kind.

A pass gives -ln p of every token of a sequence, which is what is timed. Scored are the same targets
at every length, by the metric same_targets: those before each of PLACES places, which are spread
over the text so that the longest sequence fits before them. The sequence that is timed ends at the
first place; before the others only what their targets need is computed. A gradient is that of the
mean -ln p of the sequence, and must be finite.

The text are the documents of the run's test split that are long enough; where these have not room
for all places, the split's documents are joined, and "joined" in the record is true.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from pe_jax.compose.swap import swap as swapped
from pe_jax.data.tokenizer import Tokenizer
from pe_jax.encoding import Encoding
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.scoring import target_nats
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.runs import environment
from pe_jax.runs.trained import Trained
from pe_jax.storage import records

KINDS = ("pass", "gradient")
PLACES = 4
LAST = 256  # targets before each place


def targets(lengths: Sequence[int]) -> EvalConfig:
    """Which targets are scored at each of these lengths: half of the shortest before each place, if
    that is less than LAST.
    """
    last = min(LAST, min(lengths) // 2)
    config = EvalConfig(tuple(lengths), ("same_targets",), targets=PLACES * last, last=last)
    return config.resolved(min(lengths))


def sequences(
    documents: Sequence[np.ndarray], length: int, config: EvalConfig, tokenizer: Tokenizer
) -> tuple[Windows, bool]:
    """The window of `length` tokens before each place, and whether documents had to be joined.

    ValueError if all of them together have too few tokens.
    """
    try:
        return windows(documents, "same_targets", length, config, tokenizer), False
    except ValueError:
        text = np.concatenate(sorted(documents, key=len, reverse=True))
    try:
        return windows([text], "same_targets", length, config, tokenizer), True
    except ValueError as error:
        raise ValueError(f"the test split has {len(text):,} tokens") from error


def measure(
    folder: Path, swap: str, length: int, kind: str, lengths: Sequence[int]
) -> dict[str, Any]:
    """What is recorded of this process: seconds, peak memory in MiB, and of a pass the bits per
    byte of the targets that are the same at all `lengths`; or the reason why there are none.
    """
    trained = Trained.of(folder)
    members = trained.run.encodings
    members = swapped(members, swap) if swap else members
    members = tuple(encoding.at(length) for encoding in members)
    measured = {"label": trained.run.label, "id": trained.run.id, "swap": swap}
    measured |= {"length": length, "kind": kind}
    limit = min((n for e in members if (n := e.limit()) is not None), default=length)
    if limit < length:
        return measured | {"reason": f"beyond its {limit} positions"}
    corpus = trained.run.load()
    config = targets(lengths)
    try:
        cut, joined = sequences(corpus.splits["test"], length, config, corpus.tokenizer)
    except ValueError as error:
        return measured | {"reason": str(error)}
    measured |= {
        "joined": joined,
        "corpus": records.plain(corpus.about),
        "environment": environment.environment(),
    }
    program = _program(kind, trained, members, length)
    values, seconds = _timed(program, trained.params, cut.tokens[:1])
    measured |= {"seconds": seconds, "peak_memory_mib": _peak_memory_mib()}
    if kind == "pass":
        others = _program(kind, trained, members, cut.last)
        nats = [values[:, -cut.last :]]
        nats += [np.asarray(others(trained.params, window[None])) for window in cut.tokens[1:]]
        values = np.concatenate(nats)
        measured |= {"targets": cut.targets, "bits_per_byte": cut.value(values)}
    if not np.isfinite(values).all():
        kept = ("label", "id", "swap", "length", "kind")
        return {name: measured[name] for name in kept} | {"reason": "not finite"}
    return measured


def _program(kind: str, trained: Trained, members: tuple[Encoding, ...], last: int) -> Callable:
    """A jitted function of the parameters and the tokens [1, T + 1]: -ln p of the last tokens,
    [1, last], or for the kind "gradient" the norm of the gradient of their mean.
    """

    def loss(params, tokens):
        options: dict[str, Any] = {"graphdef": trained.graphdef, "encodings": members}
        return target_nats(params, tokens, np.int32(0), last=last, **options)

    def norm(params, tokens):
        return optax.tree.norm(jax.grad(lambda p: loss(p, tokens).mean())(params))

    return jax.jit({"pass": loss, "gradient": norm}[kind])


def _timed(program: Any, *arguments: Any) -> tuple[np.ndarray, float]:
    """The result of a program, and the seconds that it ran, without compilation."""
    compiled = program.lower(*arguments).compile()
    begun = time.monotonic()
    result = np.asarray(compiled(*arguments))
    return result, time.monotonic() - begun


def _peak_memory_mib() -> float | None:
    """Peak memory of the accelerator, or of the process where JAX reports no device memory."""
    device = jax.devices()[0].memory_stats() or {}
    return device["peak_bytes_in_use"] / 2**20 if device else environment.peak_memory_mib()


if __name__ == "__main__":
    folder, swap, length, kind, *lengths = sys.argv[1:]
    print(json.dumps(measure(Path(folder), swap, int(length), kind, [*map(int, lengths)])))
