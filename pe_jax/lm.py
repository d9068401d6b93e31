"""The language model: a pre-norm decoder (Flax NNX) that owns every array and asks its encodings
at fixed sites.

Parameters are float32, activations `dtype`. Axes: B batch, L length, T queries, S keys, D model
size, V vocab.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, Num

from pe_jax.block import Block
from pe_jax.bound import Bound, fold_positions
from pe_jax.encoding import Encoding, acts_once, overrides
from pe_jax.layers import active
from pe_jax.lm_config import DTYPES, NORMS, LmConfig
from pe_jax.parameters import init_params
from pe_jax.past import Past


class LM(nnx.Module):
    """Tokens to next-token logits. `encodings` are applied in order; README.md, "Design", has the
    rules.
    """

    def __init__(self, config: LmConfig, encodings: Sequence[Encoding], *, rngs: nnx.Rngs):
        """`rngs` has the streams `params` and `encodings`: shared weights do not depend on the
        encodings.
        """
        self.config, self.encodings = config, tuple(encodings)
        self.embedding = nnx.Param(
            config.embed_std * jax.random.normal(rngs.params(), (config.vocab, config.model))
        )
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.layers)])
        self.norm = NORMS[config.norm](config.model, dtype=DTYPES[config.dtype], rngs=rngs)
        if not config.tie_embeddings:
            self.head = nnx.Linear(
                config.model, config.vocab, use_bias=False, dtype=DTYPES[config.dtype], rngs=rngs
            )
        key = rngs.encodings()
        drawn = [init_params(e, jax.random.fold_in(key, i)) for i, e in enumerate(self.encodings)]
        self.shared = nnx.List([_parameters(shared) for shared, _ in drawn])
        self.owned = nnx.List(
            [
                nnx.List([_parameters(layers.get(layer, {})) for _, layers in drawn])
                for layer in range(config.layers)
            ]
        )

    def __call__(
        self,
        tokens: Int[Array, "B L"],
        *,
        encodings: tuple[Encoding, ...] | None = None,
        key: Key[Array, "..."] | None = None,
        dropout_key: Key[Array, ""] | None = None,
        train: bool = False,
        last: int | None = None,
        pos: Num[Array, "..."] | None = None,
        past: Past | None = None,
    ) -> Float[Array, "B T V"]:
        """Float32 logits [B, L, V], or of the last `last` tokens alone.

        `encodings` replaces the model's own over the same parameters (a swap, or `at(length)`);
        those beyond its number have none. `key` draws random positions: one for the batch, or one
        a sequence. Without `dropout_key` nothing is dropped. `past` has what is kept of the tokens
        before these (a cache, or a segment's memory), and takes what is to be kept; `pos`, [S] or
        [B, S], gives the positions of all, which else the `positions` hooks make of 0, 1, ...
        """
        B, L = tokens.shape
        encodings = self.encodings if encodings is None else encodings
        past = Past(None, 0, L) if past is None else past
        tokens = past("tokens", tokens)
        if pos is None:
            before = past.positions(tokens.shape[1])
            pos = fold_positions(encodings, tokens, before, key, train)
        contiguous = not any(overrides(e, "positions") for e in encodings)
        index = past.indices(pos.shape[-1])
        drop = _Dropout(self.config.dropout, dropout_key)

        x = self.embedding[...][past.last(tokens, L)].astype(DTYPES[self.config.dtype])
        x = drop(self._embed(x, tokens, pos, encodings, None, past))
        for layer, block in enumerate(self.blocks):
            here = [i for i, e in enumerate(encodings) if active(e, layer)]
            kept = past.part(f"layer {layer}")
            x = self._embed(kept.hidden(x), tokens, pos, encodings, layer, kept)
            pe = Bound(
                tuple(self._params(i, layer) for i in here),
                tuple(encodings[i] for i in here),
                contiguous,
                self.config.causal,
            )
            final = layer == self.config.layers - 1
            x = block(x, pe, index, pos, last if final and last else L, drop, kept)
        x = self.norm(x.reshape(-1, self.config.model))
        if self.config.tie_embeddings:
            table = self.embedding[...] * self.config.model**-0.5 / self.config.embed_std
            logits = x @ table.T.astype(x.dtype)
        else:
            logits = self.head(x)
        return logits.astype(jnp.float32).reshape(B, -1, self.config.vocab)

    def _params(self, member: int, layer: int | None) -> dict[str, Array]:
        """What the hooks of one encoding see, in a layer or (None) at the model's input."""
        if member >= len(self.shared):
            return {}
        parts = [self.shared[member]] + ([] if layer is None else [self.owned[layer][member]])
        return {name: value[...] for part in parts for name, value in part.items()}

    def _embed(self, x, tokens, pos, encodings, layer: int | None, past: Past):
        """The `embed` hooks that act here: on the model's input (None) or on that of a layer.

        They may read neighbours, so they get the rows of all tokens; those of the new ones stay.
        """
        members = [
            (i, e)
            for i, e in enumerate(encodings)
            if overrides(e, "embed")
            and (acts_once(e) if layer is None else not acts_once(e) and active(e, layer))
        ]
        if not members:
            return x
        count, x = x.shape[1], past("input", x)
        for i, e in members:
            params = self._params(i, layer)
            hook = jax.vmap(
                lambda x, tokens, pos, e=e, params=params: e.embed(params, x, tokens, pos),
                in_axes=(0, 0, 0 if pos.ndim == 2 else None),
            )
            x = hook(x, tokens, pos)
        return past.last(x, count)


def decayed(params) -> dict:
    """True for what weight decay acts on: the kernels of dense layers, never an encoding's
    parameters.
    """

    def is_kernel(path, _):
        return path[-1].key == "kernel" and path[0].key not in ("shared", "owned")

    return jax.tree.map_with_path(is_kernel, params)


class _Dropout:
    """Inverted dropout, a new key at each call; without a key, the identity."""

    def __init__(self, rate: float, key):
        self.rate, self.key, self.calls = rate, key, 0

    def __call__(self, x):
        if self.key is None or self.rate == 0:
            return x
        self.calls += 1
        keep = jax.random.bernoulli(
            jax.random.fold_in(self.key, self.calls), 1 - self.rate, x.shape
        )
        return jnp.where(keep, x / (1 - self.rate), 0).astype(x.dtype)


def _parameters(arrays) -> nnx.Dict:
    return nnx.Dict({name: nnx.Param(value) for name, value in arrays.items()})
