"""One process of the long-context benchmark: a trained run, a swap, a length and a kind.

A pass gives -ln p of every token, and from these the bits per byte of the last LAST tokens and the
curve over positions. A gradient is that of the mean -ln p, and must be finite. The text is the
longest document of the run's test split; where that is too short, the split's documents are joined,
and "joined" in the record is true.
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

from pe_jax import record
from pe_jax.encoding import Encoding
from pe_jax.evaluation.scoring import target_nats
from pe_jax.evaluation.windows import Windows
from pe_jax.metric import bits_per_byte, named
from pe_jax.runs import environment
from pe_jax.runs.trained import Trained
from pe_jax.spec.swap import swap as swapped

KINDS = ("pass", "gradient")
LAST = 1024  # tokens at the end of the sequence


def sequence(documents: Sequence[np.ndarray], length: int) -> tuple[np.ndarray, bool]:
    """The first length + 1 tokens, int32 [1, length + 1], and whether documents had to be joined.

    ValueError if all of them together have fewer tokens.
    """
    documents = sorted(documents, key=len, reverse=True)
    joined = len(documents[0]) <= length
    text = np.concatenate(documents) if joined else documents[0]
    if len(text) <= length:
        raise ValueError(f"the test split has {len(text):,} tokens")
    return text[: length + 1].astype(np.int32)[None], joined


def measure(folder: Path, swap: str, length: int, kind: str) -> dict[str, Any]:
    """What is recorded of this process: seconds, peak memory in MiB, and of a pass its scores; or
    the reason why there are none.
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
    try:
        tokens, joined = sequence(corpus.splits["test"], length)
    except ValueError as error:
        return measured | {"reason": str(error)}
    measured |= {
        "joined": joined,
        "corpus": record.plain(corpus.about),
        "environment": environment.environment(),
    }
    values, seconds = _timed(_program(kind, trained, members, length), trained.params, tokens)
    if not np.isfinite(values).all():
        return measured | {"reason": "not finite"}
    if kind == "pass":
        measured |= _scores(values, tokens, corpus.tokenizer.sizes)
    return measured | {"seconds": seconds, "peak_memory_mib": _peak_memory_mib()}


def _program(kind: str, trained: Trained, members: tuple[Encoding, ...], length: int) -> Callable:
    """A function of the parameters and the tokens [1, T + 1]: -ln p of each token, [1, T], or for
    the kind "gradient" the norm of the gradient of their mean.
    """

    def loss(params, tokens):
        options: dict[str, Any] = {"graphdef": trained.graphdef, "encodings": members}
        return target_nats(params, tokens, np.int32(0), last=length, **options)

    def norm(params, tokens):
        return optax.tree.norm(jax.grad(lambda p: loss(p, tokens).mean())(params))

    return {"pass": loss, "gradient": norm}[kind]


def _timed(program: Callable, *arguments: Any) -> tuple[np.ndarray, float]:
    """The result of a program, and the seconds that it ran, without compilation."""
    compiled = jax.jit(program).lower(*arguments).compile()
    begun = time.monotonic()
    result = np.asarray(compiled(*arguments))
    return result, time.monotonic() - begun


def _scores(losses: np.ndarray, tokens: np.ndarray, token_bytes: np.ndarray) -> dict[str, Any]:
    """Bits per byte of the last LAST tokens, and by position."""
    length, sizes = losses.shape[1], token_bytes[tokens[:, 1:]]
    metric, begin, end = named("nonoverlapping"), np.array([0]), np.array([length])
    position, bits = Windows(metric, length, tokens, sizes, begin, end).curve(losses)
    last = bits_per_byte(losses[0, -LAST:], sizes[0, -LAST:])
    return {"last_bits_per_byte": last, "position": position, "bits_per_byte": bits}


def _peak_memory_mib() -> float | None:
    """Peak memory of the accelerator, or of the process where JAX reports no device memory."""
    device = jax.devices()[0].memory_stats() or {}
    return device["peak_bytes_in_use"] / 2**20 if device else environment.peak_memory_mib()


if __name__ == "__main__":
    folder, swap, length, kind = sys.argv[1:]
    print(json.dumps(measure(Path(folder), swap, int(length), kind)))
