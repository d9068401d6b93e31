"""The gradient of attention with RoPE by our kernel and by JAX's splash attention, compiled for one
TPU v5e. It shows why attention/choose.py prefers ours even for encodings that only rotate.

XLA rotates queries and keys before either kernel. Splash attention places the components of a head
in the 128 lanes of a register; ours places tokens there. With heads of 64 components half of splash
attention's lanes are padding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.sharding import SingleDeviceSharding

from experiments.accelerators.programs import CHIPS, measure
from experiments.benchmark import turns
from experiments.device.attention import Sizes, bound, ours_of
from pe_jax.attention.fused import attend_fused
from pe_jax.runs import environment

SIZES = Sizes(64, 512, 5, 64), Sizes(8, 4096, 5, 64), Sizes(32, 512, 5, 128)
BLOCK = 512
NO_PARAMETERS: Any = ({},)


def run(out: Path) -> None:
    """Compiles both kernels for each size and writes kernels.json and kernels.md."""
    rows = []
    for sizes in SIZES:
        for name, form in ("pe_jax", ours), ("splash attention", others):
            needs = measure(lowered(functools.partial(form, sizes), sizes))
            rows.append({"kernel": name, "sizes": vars(sizes), **needs})
    record = {"commit": environment.commit(), "jax": jax.__version__, "rows": rows}
    turns.write(out / "kernels", record, markdown(record))


def ours(sizes: Sizes, q, k, v) -> Any:
    """The kernel of attention/fused.py."""
    form = functools.partial(attend_fused, target="tpu")
    return ours_of("rope", sizes, form, NO_PARAMETERS, q, k, v)


def others(sizes: Sizes, q, k, v) -> Any:
    """Splash attention."""
    pe, rows = bound("rope", sizes, NO_PARAMETERS)
    mask = masks.MultiHeadMask([masks.CausalMask((sizes.length, sizes.length))] * sizes.heads)
    names = "q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute", "q_dq", "kv_dq"
    blocks: dict[str, Any] = {f"block_{name}": BLOCK for name in names}
    kernel: Any = splash.make_splash_mha(
        mask, head_shards=1, q_seq_shards=1, block_sizes=splash.BlockSizes(**blocks)
    )

    def of_sequence(q, k, v):
        scaled = (q * sizes.head**-0.5).astype(q.dtype)
        q, k = pe.qk(scaled, k, rows.coords, rows.coords)
        return jnp.swapaxes(kernel(*(jnp.swapaxes(a, 0, 1) for a in (q, k, v))), 0, 1)

    return jax.vmap(of_sequence)(q, k, v)


def lowered(form: Callable, sizes: Sizes) -> Any:
    """The gradient of a sum of the outputs to q, k and v, lowered for the chip."""
    chip = CHIPS["v5e"].devices(1)[0]
    shape = sizes.batch, sizes.length, sizes.heads, sizes.head
    vectors = jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=SingleDeviceSharding(chip))

    def total(q, k, v, weights):
        return (form(q, k, v).astype(jnp.float32) * weights.astype(jnp.float32)).sum()

    return jax.jit(jax.grad(total, (0, 1, 2))).lower(*[vectors] * 4)


def markdown(record: dict[str, Any]) -> str:
    """A row for each kernel and size."""
    rows = [
        [
            row["kernel"],
            *(str(row["sizes"][name]) for name in ("batch", "length", "heads", "head")),
            f"{row['temporaries'] / 2**20:,.0f}",
            f"{row['moved'] / 1e9:.2f}",
        ]
        for row in record["rows"]
    ]
    head = ["kernel", "sequences", "tokens", "heads", "components", "temporaries, MiB", "GB moved"]
    return (
        "### The gradient of attention with RoPE, causal, bfloat16\n\n"
        + turns.table(head, rows)
        + f"\n\nCompiled for one TPU v5e by jax {record['jax']}, blocks of {BLOCK} tokens, commit "
        f"{record['commit'][:12]}. Reads of a kernel that goes through an array again are not "
        "counted."
    )
