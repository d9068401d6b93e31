"""Which form of attention a layer runs, dense or blockwise, and with blocks of which size."""

from __future__ import annotations

import functools
import math

import jax

from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend


def choose(form: str, pe: Bound, batch: int, heads: int, queries: int, keys: int):
    """`attend`, or `attend_blockwise` with the size of its blocks set.

    `form` is "dense", "blockwise" or "auto", which takes dense attention while its logits fit.
    `queries` and `keys` are the numbers of them that each of the `batch` sequences has.
    """
    if form == "dense" or (form == "auto" and _dense_is_better(pe, batch * heads, queries, keys)):
        return attend
    return functools.partial(attend_blockwise, block=_block_size(pe, keys))


def _dense_is_better(pe: Bound, heads: int, queries: int, keys: int) -> bool:
    """Whether the float32 logits of `heads` heads, those of all sequences together, fit in 8 MiB
    on a CPU, for the sake of its caches, or in 1 GiB on an accelerator, and no window hides most.
    On a CPU also for keys that do not fill two blocks: at 80 tokens a step takes two thirds of it.

    Always for a single query, which blockwise attention would pad to a whole block.
    """
    cpu = jax.default_backend() == "cpu"
    fits = (cpu and keys < 128) or 4 * heads * queries * keys <= (2**23 if cpu else 2**30)
    mostly_hidden = any(keys > 4 * (window + sinks) for window, sinks in pe.reach)
    return queries == 1 or (fits and not mostly_hidden)


def _block_size(pe: Bound, keys: int) -> int:
    """A power of two from 64 to 512: a quarter of the keys up to 128, of more than 1024 keys 1/8,
    and no more than a window needs.
    """
    if pe.whole_rows:  # a query block has logits with all keys, so it must not grow with them
        return 64
    window = min((window for window, _ in pe.reach), default=keys)
    wanted = min(max(min(keys // 4, 128), keys // 8), window)
    return min(512, max(64, 2 ** math.ceil(math.log2(max(1, wanted)))))
