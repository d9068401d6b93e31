"""The model of pe_jax with rope, written the usual way, to compare its training step with.

Every dense layer is an nnx.Linear on [B, T, D], and attention is one einsum over the batch. The
parameters have the names and shapes of those of pe_jax.model.lm.LM (`down` transposed), so that
tests can load its weights and compare the outputs.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from pe_jax.model.config import LmConfig


class PlainBlock(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: LmConfig, *, rngs: nnx.Rngs):
        def dense(inputs: int, outputs: int) -> nnx.Linear:
            return nnx.Linear(inputs, outputs, use_bias=False, rngs=rngs)

        D, F = config.model, config.mlp or 4 * config.model
        self.heads = config.heads
        self.attention_norm, self.mlp_norm = nnx.RMSNorm(D, rngs=rngs), nnx.RMSNorm(D, rngs=rngs)
        self.query, self.key_value, self.out = dense(D, D), dense(D, 2 * D), dense(D, D)
        self.up, self.down = dense(D, F), dense(F, D)

    def __call__(self, x):
        B, T, D = x.shape
        h = self.attention_norm(x)
        q = self.query(h).reshape(B, T, self.heads, -1)
        k, v = jnp.split(self.key_value(h).reshape(B, T, 2 * self.heads, -1), 2, axis=2)
        K = q.shape[-1]
        logits = jnp.einsum("bthk,bshk->bhts", rotary(q), rotary(k)) * K**-0.5
        weights = jax.nn.softmax(jnp.where(jnp.tri(T, dtype=bool), logits, -1e30))
        x = x + self.out(jnp.einsum("bhts,bshk->bthk", weights, v).reshape(B, T, D))
        return x + self.down(jax.nn.gelu(self.up(self.mlp_norm(x))))


class PlainLM(nnx.Module):
    """Tokens [B, T] to logits [B, T, V]."""

    def __init__(self, config: LmConfig, *, rngs: nnx.Rngs):
        table = jax.random.normal(rngs.params(), (config.vocab, config.model))
        self.embedding = nnx.Param(table)
        self.blocks = nnx.List([PlainBlock(config, rngs=rngs) for _ in range(config.layers)])
        self.norm = nnx.RMSNorm(config.model, rngs=rngs)
        self.head = nnx.Linear(config.model, config.vocab, use_bias=False, rngs=rngs)

    def __call__(self, tokens):
        x = self.embedding[...][tokens]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def rotary(x):
    """Rotates each pair (x_i, x_{i + K/2}) of [B, T, H, K] by the angle t * 10000^(-2i / K)."""
    T, K = x.shape[1], x.shape[3]
    angle = jnp.outer(jnp.arange(T), 10000.0 ** (-jnp.arange(0, K, 2) / K))[None, :, None]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
