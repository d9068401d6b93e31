"""One layer of the language model: attention, then an MLP, each on what a norm makes of its input.

Every dense layer sees tokens flattened to [B*L, D], since on CPU the gradient of a
three-dimensional dense layer costs two to three times as much; only hooks and attention are
vmapped over the batch. Axes: B batch, L length, T queries, S keys, H heads, D model size, F mlp.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from pe_jax.bound import Bound
from pe_jax.choose import choose
from pe_jax.encoding import overrides
from pe_jax.lm_config import ACTIVATIONS, DTYPES, NORMS, LmConfig
from pe_jax.past import Past
from pe_jax.rows import Rows


class Block(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), on tokens flattened to [B*L, D]."""

    def __init__(self, config: LmConfig, *, rngs: nnx.Rngs):
        D, F = config.model, config.mlp or 4 * config.model
        self.config = config

        def dense(inputs, outputs, gain=1.0):
            return nnx.Linear(
                inputs,
                outputs,
                use_bias=False,
                dtype=DTYPES[config.dtype],
                kernel_init=nnx.initializers.variance_scaling(gain, "fan_in", "normal"),
                rngs=rngs,
            )

        def norm():
            return NORMS[config.norm](D, dtype=DTYPES[config.dtype], rngs=rngs)

        residual = 1 / (2 * config.layers)
        self.attention_norm, self.mlp_norm = norm(), norm()
        self.query, self.key_value = dense(D, D), dense(D, 2 * D)
        self.out = dense(D, D, residual)
        self.up = dense(D, F)
        # [D, F]: XLA's CPU takes twice as long for the gradient of a kernel taller than wide.
        self.down = nnx.Einsum(
            "nf,df->nd",
            (D, F),
            dtype=DTYPES[config.dtype],
            kernel_init=nnx.initializers.variance_scaling(
                residual, "fan_in", "normal", in_axis=-1, out_axis=-2
            ),
            rngs=rngs,
        )

    def __call__(
        self,
        x: Float[Array, "B L D"],
        pe: Bound,
        index: Array,
        pos: Array,
        last: int,
        drop,
        past: Past,
    ) -> Float[Array, "B T D"]:
        """Of the tokens x, the last `last`. `index` and `pos`, [S] or [B, S], are of all tokens."""
        B, L, D = x.shape
        H, S = self.config.heads, pos.shape[-1]
        h = self.attention_norm(x.reshape(B * L, D))
        tail = h.reshape(B, L, D)[:, L - last :].reshape(-1, D)
        q = self.query(tail).reshape(B, last, H, -1)
        k, v = past.heads("kv", jnp.split(self.key_value(h).reshape(B, L, 2 * H, -1), 2, axis=2))

        shared = None if pos.ndim == 1 else 0
        located = tuple(0 if overrides(e, "locate") else shared for e in pe.encodings)
        axes: Any = Rows._make((None if index.ndim == 1 else 0, shared, located))
        keys = Rows(index, pos, _locate(pe, h.reshape(B, L, D), pos, past))
        queries = jax.tree.map(
            lambda axis, part: past.last(part, last, axis=0 if axis is None else 1),
            axes,
            keys,
            is_leaf=lambda axis: axis is None,
        )
        attend = choose(self.config.attention, pe, B, last, S)
        heads = jax.vmap(lambda *args: attend(pe, *args), in_axes=(0, 0, 0, axes, axes))
        mixed = self.out(heads(q, k, v, queries, keys).reshape(B * last, D))

        x = x[:, L - last :].reshape(-1, D) + drop(mixed)
        activation = ACTIVATIONS[self.config.activation]
        x = x + drop(self.down(activation(self.up(self.mlp_norm(x)))))
        return x.reshape(B, last, D)


def _locate(pe: Bound, x: Float[Array, "B L D"], pos, past: Past):
    """Coordinates of all tokens: batched where an encoding locates or positions are, else shared.

    x is of the new tokens alone.
    """
    locating = [overrides(e, "locate") for e in pe.encodings]
    before = tuple(past.before(f"coords {i}") if own else None for i, own in enumerate(locating))
    batched = pos.ndim - 1
    new = past.last(pos, x.shape[1], axis=batched)
    located = jax.vmap(pe.locate, in_axes=(0, 0 if batched else None, 0))(x, new, before)
    return tuple(
        past(f"coords {i}", c) if own else pos
        for i, (own, c) in enumerate(zip(locating, located, strict=True))
    )
