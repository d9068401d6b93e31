"""One pre-norm layer of the language model: attention, then an MLP.

Hooks and attention are vmapped over the batch, all else takes its tokens as `flat` leaves them.

Axes: B batch, L tokens that enter the layer, T the last of these, whose outputs are wanted (the
queries), S all tokens that they may look at (the keys), H heads, D model size, F size of the MLP.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from pe_jax.attention.bound import Bound
from pe_jax.attention.choose import choose
from pe_jax.attention.rows import Rows
from pe_jax.encoding import overrides
from pe_jax.model.cache import LayerPast, Seen, rows_from
from pe_jax.model.config import ACTIVATIONS, DTYPES, LmConfig


class Layer(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); with lm.parallel both at once."""

    def __init__(self, config: LmConfig, *, rngs: nnx.Rngs):
        D, F = config.model, config.mlp or 4 * config.model
        K = config.head or D // config.heads
        self.config = config
        every, qkv = config.biases == "all", config.biases != ""

        def dense(inputs, outputs, gain=1.0, bias=every):
            return nnx.Linear(
                inputs,
                outputs,
                use_bias=bias,
                dtype=DTYPES[config.dtype],
                kernel_init=nnx.initializers.variance_scaling(gain, "fan_in", "normal"),
                rngs=rngs,
            )

        residual = 1 / (2 * config.layers)  # 2 * layers matrices add to the residual stream
        self.attention_norm, self.mlp_norm = config.make_norm(D, rngs), config.make_norm(D, rngs)
        self.query = dense(D, config.heads * K, bias=qkv)
        self.key_value = dense(D, 2 * (config.kv_heads or config.heads) * K, bias=qkv)
        self.out = dense(config.heads * K, D, residual)
        self.up = dense(D, F)
        # [D, F]: XLA's CPU takes twice as long for the gradient of a kernel taller than wide.
        self.down = nnx.Einsum(
            "...f,df->...d",
            (D, F),
            bias_shape=(D,) if every else None,
            dtype=DTYPES[config.dtype],
            kernel_init=nnx.initializers.variance_scaling(
                residual, "fan_in", "normal", in_axis=-1, out_axis=-2
            ),
            rngs=rngs,
        )
        if config.gated:
            self.gate = dense(D, F)
        if config.qk_norm:
            self.query_norm, self.key_norm = config.make_norm(K, rngs), config.make_norm(K, rngs)
        self.dropout = nnx.Dropout(config.dropout)

    def __call__(
        self,
        x: Float[Array, "B L D"],
        pe: Bound,
        seen: Seen,
        last: int,
        cache: LayerPast,
        dropout_keys: tuple[Key[Array, ""] | None, Key[Array, ""] | None] = (None, None),
    ) -> tuple[Float[Array, "B T D"], LayerPast]:
        """(outputs of the last `last` tokens of x, the cache with all of x in it).

        `seen` has all S tokens, of which those of x are the L from `seen.start` on. The keys are
        for the dropout of attention and of the MLP; None: nothing is dropped.
        """
        B, L, D = x.shape
        attended, cache = self._attention(self._norm(x), pe, seen, last, cache)
        before = flat(x[:, L - last :])
        x = before + self._drop(attended, dropout_keys[0])
        mlp = self._mlp(self.mlp_norm(before if self.config.parallel else x))
        x = x + self._drop(mlp, dropout_keys[1])
        return x.reshape(B, last, D), cache

    @jax.named_scope("mlp")
    def _mlp(self, h: Float[Array, "*tokens D"]) -> Float[Array, "*tokens D"]:
        activation = ACTIVATIONS[self.config.activation]
        if self.config.gated:
            return self.down(activation(self.gate(h)) * self.up(h))
        return self.down(activation(self.up(h)))

    @jax.named_scope("attention")
    def _attention(self, h: Float[Array, "B L D"], pe: Bound, seen: Seen, last: int, cache):
        """(what attention adds to the last tokens, `flat`, the cache), from normalised inputs."""
        B, L, _ = h.shape
        H, S = self.config.heads, seen.index.shape[-1]
        kv_heads = self.config.kv_heads or H
        q = self.query(flat(h[:, L - last :])).reshape(B, last, H, -1)
        new = self.key_value(flat(h)).reshape(B, L, 2 * kv_heads, -1)
        k, v = jnp.split(new, 2, axis=2)
        if self.config.qk_norm:
            q, k = self.query_norm(q), self.key_norm(k)
        k, v, cache = cache.keys_values(k, v, seen.start)
        if kv_heads != H:
            k, v = (jnp.repeat(a, H // kv_heads, axis=2) for a in (k, v))
        coords, cache = _locate(pe, h, seen, cache)

        # Consecutive positions have the distances of 0 .. S - 1, so the batch can share these.
        keys = Rows(seen.index, jnp.arange(S) if pe.contiguous else seen.pos, coords)
        # The axis of the batch in each of the rows' arrays; None where the batch shares it.
        of_pos = None if seen.pos.ndim == 1 else 0
        of_coords = tuple(0 if overrides(e, "locate") else of_pos for e in pe.encodings)
        of_index, of_distance = (None if a.ndim == 1 else 0 for a in keys[:2])
        axes: Any = Rows._make((of_index, of_distance, of_coords))
        first = seen.start + L - last
        queries = jax.tree.map(
            lambda axis, rows: rows_from(rows, first, last, axis=0 if axis is None else 1),
            axes,
            keys,
            is_leaf=lambda axis: axis is None,
        )
        pe = pe.tabulated(last, S)
        full = type(cache) is LayerPast
        attend = choose(self.config.attention, pe, B, H, last, S, full)
        over_batch = jax.vmap(lambda *args: attend(pe, *args), in_axes=(0, 0, 0, axes, axes))
        with jax.named_scope("attend"):
            out = over_batch(q, k, v, queries, keys)
        return self.out(flat(out.reshape(B, last, -1))), cache

    def _norm(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        return self.attention_norm(flat(x)).reshape(x.shape)

    def _drop(self, x: Array, key: Key[Array, ""] | None) -> Array:
        return self.dropout(x, deterministic=key is None, rngs=key)


def flat(x: Float[Array, "B L D"]) -> Float[Array, "*tokens D"]:
    """On a CPU [B*L, D], since there the gradient of a product with three axes takes two to three
    times as long. On an accelerator x itself, since there the heads of attention would have to be
    copied from one memory layout to another: on a TPU v5e a step with RoPE would move 89 GB in
    place of 72, one with ALiBi 75 in place of 56 (configs/encodings_gpu.py without train.remat).
    """
    return x.reshape(-1, x.shape[-1]) if jax.default_backend() == "cpu" else x


def _locate(pe: Bound, x: Float[Array, "B L D"], seen: Seen, cache: LayerPast):
    """(coordinates of all S tokens for each encoding, the cache), from the normalised input x.

    [B, S, ...] for an encoding with a `locate`; for the others the positions, [S] or [B, S]. Where
    there is no token `locate` gets x = 0, as if the sequence began at its first token.
    """
    token_axis = seen.pos.ndim - 1
    index, pos = (
        rows_from(a, seen.start, x.shape[1], axis=a.ndim - 1) for a in (seen.index, seen.pos)
    )
    x = jnp.where(jnp.atleast_2d(index)[..., None] < 0, 0, x)
    located = jax.vmap(pe.locate, in_axes=(0, 0 if token_axis else None, 0))(
        x, pos, cache.located_last(seen.start)
    )
    locating = [overrides(e, "locate") for e in pe.encodings]
    new = tuple(c if locates else None for locates, c in zip(locating, located, strict=True))
    coords, cache = cache.coords(new, seen.start)
    return tuple(seen.pos if c is None else c for c in coords), cache
