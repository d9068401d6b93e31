"""The form of attention of a layer, dense, blockwise or fused, and the size of its blocks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax

from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend
from pe_jax.attention.fused import attend_fused, refusal


def choose(
    form: str, pe: Bound, batch: int, heads: int, queries: int, keys: int, full: bool = False
) -> Callable:
    """`attend`, `attend_blockwise` with a size of blocks, or `attend_fused` with one of these two
    for encodings that it does not serve (`fused.refusal`).

    `form` is "dense", "blockwise", "fused" or "auto": fused on a TPU or GPU from 128 keys on, else
    dense while the logits fit. A single query, which would be padded to a block, has dense
    attention always. Fused attention needs a `full` forward pass, without a cache or a memory;
    without it "fused" is "auto". `queries` and `keys` are numbers of each sequence.
    """
    auto = form in ("auto", "fused")
    if queries == 1 or form == "dense" or auto and _prefers_dense(pe, batch * heads, queries, keys):
        unfused = attend
    else:
        unfused = functools.partial(attend_blockwise, block=_block_size(pe, keys))
    worth = form == "auto" and queries > 1 and keys >= 128 and _has_kernels()
    if full and (form == "fused" or worth):
        return functools.partial(_fused_or, unfused)
    return unfused


# Fused attention where it serves the encodings. On a CPU the TPU's kernel is interpreted.
def _fused_or(unfused: Callable, pe: Bound, q, k, v, queries, keys):
    backend = jax.default_backend()
    target = "gpu" if backend == "gpu" else "tpu"
    if refusal(pe, queries, keys, q.shape[1], target):
        return unfused(pe, q, k, v, queries, keys)
    return attend_fused(pe, q, k, v, queries, keys, target=target, interpret=backend == "cpu")


# Whether the program is for one TPU, or for one GPU that Triton serves: NVIDIA's from compute
# capability 8.0 on. XLA cannot split a kernel over several devices.
def _has_kernels() -> bool:
    backend = jax.default_backend()
    if backend not in ("tpu", "gpu") or jax.device_count() > 1:
        return False
    capability = getattr(jax.devices()[0], "compute_capability", "8.0")
    return backend == "tpu" or not capability[0].isdigit() or float(capability) >= 8


# Whether the float32 logits of `heads` heads, over all sequences, fit in 8 MiB on a CPU, for its
# caches, or in 1 GiB on an accelerator, and no window hides most. On a CPU also for keys that do
# not fill two blocks: at 80 tokens a step takes 2/3 of the time.
def _prefers_dense(pe: Bound, heads: int, queries: int, keys: int) -> bool:
    cpu = jax.default_backend() == "cpu"
    fits = (cpu and keys < 128) or 4 * heads * queries * keys <= (2**23 if cpu else 2**30)
    mostly_hidden = any(keys > 4 * (window + sinks) for window, sinks in pe.reach)
    return fits and not mostly_hidden


# A power of two from 64 to 512: a quarter of the keys up to 128, of more than 1024 keys 1/8, and no
# more than a window needs.
def _block_size(pe: Bound, keys: int) -> int:
    if pe.whole_rows:  # a query block has logits with all keys, so it must not grow with them
        return 64
    window = min((window for window, _ in pe.reach), default=keys)
    wanted = min(max(min(keys // 4, 128), keys // 8), window)
    return min(512, max(64, 2 ** math.ceil(math.log2(max(1, wanted)))))
