"""One process of scripts/long_context: a trained run, a swap, a length, and a kind.

A pass gives -log p of every token: the bits a byte of the last LAST of them, and the curve over
positions. A gradient is that of their mean, and must be finite. The text is the longest document
of the run's test split; where that is too short, its documents joined, which the record says.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

KINDS = ("pass", "gradient")
LAST = 1024  # tokens at the end of the sequence


def sequence(documents: Sequence[Any], length: int) -> tuple[Any, bool]:
    """(the first length + 1 tokens, [1, length + 1], whether documents had to be joined).

    ValueError if all of them have fewer.
    """
    import numpy as np

    documents = sorted(documents, key=len, reverse=True)
    joined = len(documents[0]) <= length
    text = np.concatenate(documents) if joined else documents[0]
    if len(text) <= length:
        raise ValueError(f"the test split has {len(text):,} tokens")
    return text[: length + 1].astype(np.int32)[None], joined


def measure(folder: Path, swap: str, length: int, kind: str) -> dict[str, Any]:
    """What this process finds: seconds, peak MiB, and of a pass bits a byte and the curve."""
    import numpy as np

    from pe_jax import environment, record
    from pe_jax.swaps import swap as swapped
    from pe_jax.trained import Trained

    trained = Trained.of(folder)
    label, id = trained.run.label, trained.run.id
    members = trained.run.encodings
    members = swapped(members, swap) if swap else members
    members = tuple(e.at(length) for e in members)
    found = {"label": label, "id": id, "swap": swap, "length": length, "kind": kind}
    limit = min((n for e in members if (n := e.limit()) is not None), default=length)
    if limit < length:
        return found | {"reason": f"beyond its {limit} positions"}
    corpus = trained.run.load()
    try:
        tokens, joined = sequence(corpus.splits["test"], length)
    except ValueError as error:
        return found | {"reason": str(error)}
    programs = _programs(trained, members, length)
    found |= {
        "joined": joined,
        "corpus": record.plain(corpus.about),
        "environment": environment.environment(),
    }
    values, seconds = _timed(programs[kind], trained.params, tokens)
    if not np.isfinite(values).all():
        return found | {"reason": "not finite"}
    if kind == "pass":
        found |= _scores(values, tokens, corpus.tokenizer.sizes)
    return found | {"seconds": seconds, "peak_memory_mib": _peak_memory_mib()}


def _programs(trained: Any, members: tuple, length: int) -> dict[str, Callable]:
    """Of the parameters and the tokens: -ln p of each token; the norm of its mean's gradient."""
    import jax
    import numpy as np
    import optax

    from pe_jax.scoring import target_nats

    def loss(params, tokens):
        options = {"graphdef": trained.graphdef, "encodings": members, "last": length}
        return target_nats(params, tokens, np.int32(0), **options)

    def norm(params, tokens):
        return optax.tree.norm(jax.grad(lambda p: loss(p, tokens).mean())(params))

    return dict(zip(KINDS, (loss, norm), strict=True))


def _timed(program: Callable, *arguments: Any) -> tuple[Any, float]:
    """(the result, the seconds of a run, without those of compilation)."""
    import jax
    import numpy as np

    compiled = jax.jit(program).lower(*arguments).compile()
    begun = time.monotonic()
    result = np.asarray(compiled(*arguments))
    return result, time.monotonic() - begun


def _scores(nats: Any, tokens: Any, token_bytes: Any) -> dict[str, Any]:
    """Bits a byte of the last tokens, and by position."""
    import numpy as np

    from pe_jax.metric import named
    from pe_jax.windows import Windows

    length, sizes = nats.shape[1], token_bytes[tokens[:, 1:]]
    metric, lo, hi = named("nonoverlapping"), np.array([0]), np.array([length])
    position, bits = Windows(metric, length, tokens, sizes, lo, hi).curve(nats)
    end = nats[0, -LAST:].sum(dtype=np.float64) / sizes[0, -LAST:].sum() / math.log(2)
    return {"last_bits_per_byte": float(end), "position": position, "bits_per_byte": bits}


def _peak_memory_mib() -> float:
    """Of the accelerator, else of the process."""
    import jax

    from pe_jax import environment

    device = jax.devices()[0].memory_stats() or {}
    return device["peak_bytes_in_use"] / 2**20 if device else environment.peak_memory_mib()


if __name__ == "__main__":
    folder, swap, length, kind = sys.argv[1:]
    print(json.dumps(measure(Path(folder), swap, int(length), kind)))
