"""The language model: a pre-norm decoder (Flax NNX) that owns every array and asks its encodings
at fixed sites.

Parameters are float32, activations `dtype`. Every dense layer sees tokens flattened to [B*L, D],
since on CPU the gradient of a three-dimensional dense layer costs two to three times as much; only
hooks and attention are vmapped over the batch. Axes: B batch, L length, T queries, S keys, H
heads, K head size, D model size, V vocab.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, Num

from pe_jax.attention import Rows, choose
from pe_jax.bound import Bound, fold_positions, init_params
from pe_jax.encoding import Dims, Encoding, active, acts_once, overrides
from pe_jax.past import Past

ACTIVATIONS = {"gelu": jax.nn.gelu, "relu": jax.nn.relu, "silu": jax.nn.silu}
NORMS = {"rms": nnx.RMSNorm, "layer": nnx.LayerNorm}
DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
ATTENTIONS = ("auto", "dense", "blockwise")


@dataclasses.dataclass(frozen=True)
class LmConfig:
    """The shape of the model; configs/base.py has a comment on each knob."""

    vocab: int = 256
    layers: int = 2
    model: int = 64
    heads: int = 4
    mlp: int | None = None
    """Hidden size of the MLP; None: 4 * model."""
    activation: str = "gelu"
    norm: str = "rms"
    dropout: float = 0.0
    dtype: str = "float32"
    """Of activations; parameters, logits and the softmax are float32."""
    attention: str = "auto"
    tie_embeddings: bool = False
    causal: bool = True
    embed_std: float = 1.0
    """Of the token embeddings: at unit scale a sinusoid does not drown them."""
    memory: int = 0
    """Hidden states of each layer that training keeps of the segments before (memory.py)."""

    def __post_init__(self):
        for name, known in (
            ("activation", ACTIVATIONS),
            ("norm", NORMS),
            ("dtype", DTYPES),
            ("attention", ATTENTIONS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"lm.{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}"
                )
        for name in ("vocab", "layers", "model", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"lm.{name} must be at least 1, got {getattr(self, name)}")
        if self.model % self.heads:
            raise ValueError(
                f"lm.heads must divide lm.model, got {self.heads} heads for {self.model}; "
                "change one of them"
            )
        if self.memory < 0:
            raise ValueError(f"lm.memory must be at least 0, got {self.memory}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"lm.dropout must be in [0, 1), got {self.dropout}")

    def dims(self, train_len: int) -> Dims:
        """What encodings may know of this model."""
        head = self.model // self.heads
        return Dims(self.model, self.heads, head, self.layers, train_len, self.vocab, self.causal)


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
