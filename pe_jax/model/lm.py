"""The language model: a pre-norm transformer (Flax NNX). It owns every array and calls the hooks of
its encodings at fixed sites: `positions` and `embed` before a layer, all others in it.

Parameters are float32, activations `config.dtype`. Axes: B batch, L input tokens of the model or a
layer, T the last of these, with logits or outputs (queries), S the tokens that they may see (keys,
see cache.py), H heads, D model size, F size of the MLP, V vocab.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.choose import choose
from pe_jax.attention.fused import ATTENTION
from pe_jax.attention.rows import Rows
from pe_jax.encoding import Encoding, Params, acts_once, mixes, overrides
from pe_jax.model.cache import LayerPast, Past, Seen, rows_from
from pe_jax.model.config import ACTIVATIONS, DTYPES, LmConfig
from pe_jax.specs.parse import active, layers_of

OF_OUTPUTS = "sandwich", "after"
"""Values of lm.norm by which the outputs of attention and MLP are normalised."""
KEPT = jax.checkpoint_policies.save_only_these_names(ATTENTION)
"""Kept by a rematerialised layer for its backward pass, besides its inputs."""
MOST = 2**26
"""Logits in memory at once: 256 MiB in float32, 1,335 tokens of a vocabulary of 50,257."""
ALIKE = 8
"""The fewest layers in a row for a loop: fewer compile fast enough one by one."""


class LM(nnx.Module):
    """Next-token logits under `encodings`, applied in their order.

    Layers are `blocks`. Parameters of encoding number e are `shared[e][name]`, or
    `owned[layer][e][name]` if each layer owns them. Checkpoints use these names.
    """

    def __init__(self, config: LmConfig, encodings: Sequence[Encoding], *, rngs: nnx.Rngs):
        """`rngs` has the streams `params` and `encodings`: initial weights of embedding, layers and
        head do not depend on the encodings.
        """
        self.config, self.encodings = config, tuple(encodings)
        self.embedding = nnx.Param(
            config.embed_std * jax.random.normal(rngs.params(), (config.vocab, config.model))
        )
        mixed = {layer for e in self.encodings if mixes(e) for layer in layers_of(e)}
        self.blocks = nnx.List(
            [Layer(config, i not in mixed, i == 0, rngs=rngs) for i in range(config.layers)]
        )
        self.norm = config.make_norm(config.model, rngs)
        embedded = config.norm == "embedded"
        self.embedded_norm = config.make_norm(config.model, rngs) if embedded else _same
        if config.masked_head:
            self.head_dense = nnx.Linear(
                config.model, config.model, use_bias=False, dtype=DTYPES[config.dtype], rngs=rngs
            )
            self.head_norm = config.make_norm(config.model, rngs)
            self.head_bias = nnx.Param(jnp.zeros(config.vocab))
        if not config.tie_embeddings:
            self.head = nnx.Linear(
                config.model,
                config.vocab,
                use_bias=False,
                dtype=DTYPES[config.dtype],
                preferred_element_type=jnp.float32,
                rngs=rngs,
            )
        key = rngs.encodings()
        drawn = [init_params(e, jax.random.fold_in(key, i)) for i, e in enumerate(self.encodings)]
        self.shared = nnx.List([_as_nnx(shared) for shared, _ in drawn])
        self.owned = nnx.List(
            [
                nnx.List([_as_nnx(layers.get(layer, {})) for _, layers in drawn])
                for layer in range(config.layers)
            ]
        )

    def __call__(
        self,
        tokens: Array,
        cache: Past | None = None,
        *,
        encodings: tuple[Encoding, ...] | None = None,
        key: Key[Array, "..."] | None = None,
        dropout_key: Key[Array, ""] | None = None,
        train: bool = False,
        last: int | None = None,
        size: Int[Array, ""] | None = None,
        remat: bool = False,
        scan: bool = False,
        rows: bool = False,
    ) -> tuple[Float[Array, "B T V"], Past | None]:
        """(float32 logits [B, L, V] of tokens [B, L], the cache with these tokens in it).

        ValueError if tokens are not integers [B, L].

        Args:
            cache: a Cache of earlier tokens (cache.py), a Memory of earlier segments (memory.py),
                or None for the full forward pass, which returns None.
            encodings: replace the model's own, with their parameters (a swap, or `at(length)`);
                those beyond the model's number get no parameters.
            key: of random positions: one for the batch, or one for each sequence.
            dropout_key: None: no dropout.
            train: for the `positions` hooks.
            last: the number of last tokens with logits; None: all.
            size: in a full forward pass, tokens after the first `size` are padding, which no token
                sees; their logits mean nothing.
            remat: the backward pass keeps each layer's inputs and the inputs and output of fused
                attention, and recomputes the rest of the layer.
            scan: in a full forward pass, ALIKE or more consecutive layers with equal encodings are
                a loop. It compiles faster, with the same results up to rounding.
            rows: return the rows [B, T, D] that `logits_of` takes.
        """
        if tokens.ndim != 2:
            raise ValueError(
                f"tokens must be [B, L], a batch of sequences, got the shape {tokens.shape}; "
                "pass tokens[None] for a single sequence"
            )
        if not jnp.issubdtype(tokens.dtype, jnp.integer):
            raise ValueError(f"tokens must be integers, got {tokens.dtype}: use tokens.astype(int)")
        encodings = self.encodings if encodings is None else encodings
        past = Past.none(self.config.layers) if cache is None else cache
        seen, past = past.see(tokens)
        seen = seen if size is None else seen.cut(size)
        pos = past.pos
        if pos is None:
            pos = fold_positions(encodings, seen.tokens, seen.pos, key, train)
        seen = seen._replace(pos=pos[..., : seen.tokens.shape[1]])
        numbers = range(1, 2 + 2 * self.config.layers)
        keys = [
            None if dropout_key is None else jax.random.fold_in(dropout_key, n) for n in numbers
        ]

        x = self.embedded_norm(self.embedding[...][tokens].astype(DTYPES[self.config.dtype]))
        x, input_past = self._embed(x, seen, encodings, None, past.input)
        x = _dropped(self.config.dropout, x, keys[0])
        pes = [self._bound(layer, encodings) for layer in range(self.config.layers)]
        cuts = cache is None and dropout_key is None
        counts = _row_counts(pes, tokens.shape[1], last, cuts)
        layers = []
        for group in self._groups(pes, counts, scan and cache is None):
            i, own = group[0], [tuple(keys[2 * j + 1 : 2 * j + 3]) for j in group]
            if cuts:
                x, seen = x[:, -counts[i] :], seen.last(counts[i])
            if len(group) > 1:
                x = self._loop(group, seen, encodings, own, train, remat, x)
                layers += past.layers[i : i + len(group)]
                continue
            layer = functools.partial(
                self._layer, i, seen, encodings, pes[i], counts[i + 1], own[0]
            )
            layer = jax.checkpoint(layer, policy=KEPT) if remat else layer
            x, layer_past = layer(x, past.layers[i])
            layers.append(layer_past)
        past = dataclasses.replace(past, input=input_past, layers=tuple(layers))
        return x if rows else self.logits_of(x), None if cache is None else past

    # The outputs of a layer for the last `last` tokens.
    def _layer(
        self,
        layer: int,
        seen: Seen,
        encodings: tuple[Encoding, ...],
        pe: Bound,
        last: int,
        dropout_keys,
        x: Float[Array, "B L D"],
        cache: LayerPast,
    ) -> tuple[Float[Array, "B T D"], LayerPast]:
        x, cache = cache.enter(x)
        x, cache = self._embed(x, seen, encodings, layer, cache)
        return self.blocks[layer](x, pe, seen, last, cache, dropout_keys)

    # The layers in order, in groups: those of a loop, or a single one.
    def _groups(self, pes: Sequence[Bound], counts: Sequence[int], scan: bool) -> list[list[int]]:
        if not scan:
            return [[i] for i in range(self.config.layers)]

        def code(i: int):  # equal for layers of the same code
            owned = jax.tree.map(jnp.shape, nnx.to_pure_dict(nnx.state(self.owned[i])))
            plain = self.blocks[i].attention_norm is _same
            return pes[i].encodings, counts[i], counts[i + 1], owned, plain

        alike = [list(group) for _, group in itertools.groupby(range(self.config.layers), code)]
        return [part for g in alike for part in ([g] if len(g) >= ALIKE else [[i] for i in g])]

    # The outputs of the last of these layers, by the code of the first. Parameters are looked up in
    # the loop, without a second copy; in training they are stacked before it, since the gradient of
    # a look-up would write those of all layers at each.
    def _loop(
        self,
        group: Sequence[int],
        seen: Seen,
        encodings: tuple[Encoding, ...],
        dropout_keys: Sequence[tuple],
        train: bool,
        remat: bool,
        x: Float[Array, "B L D"],
    ) -> Float[Array, "B L D"]:
        graphdef, params = nnx.split(self)
        params, first = nnx.to_pure_dict(params), group[0]
        of_layers = {name: params[name] for name in ("blocks", "owned") if name in params}
        parts = [{name: by[i] for name, by in of_layers.items() if i in by} for i in group]

        def look_up(number):
            return jax.lax.switch(number, [lambda part=part: part for part in parts])

        def step(x, layer):
            own, keys = layer
            own = own if train else look_up(own)
            whole = params | {name: params[name] | {first: part} for name, part in own.items()}
            model = nnx.merge(graphdef, whole)
            pe = model._bound(first, encodings)
            out, _ = model._layer(first, seen, encodings, pe, x.shape[1], keys, x, LayerPast())
            return out, None

        step = jax.checkpoint(step, policy=KEPT, prevent_cse=False) if remat else step
        layers = _stacked(parts) if train else jnp.arange(len(group))
        return jax.lax.scan(step, x, (layers, _stacked(dropout_keys)))[0]

    # The encodings that act in a layer, with their parameters.
    def _bound(self, layer: int, encodings: tuple[Encoding, ...]) -> Bound:
        here = [i for i, e in enumerate(encodings) if active(e, layer)]
        moving = [e for e in encodings if overrides(e, "positions")]
        return Bound(
            tuple(self.params_of(i, layer) for i in here),
            tuple(encodings[i] for i in here),
            contiguous=not moving,
            causal=self.config.causal,
            below=moving[-1].limit() if moving else None,
        )

    def logits_of(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        """The float32 logits of outputs of the last layer."""
        rows = self.norm(flat(x))
        if self.config.masked_head:
            activation = ACTIVATIONS[self.config.activation]
            rows = self.head_norm(activation(self.head_dense(rows)))
        if self.config.tie_embeddings:
            scale = self.config.model**-0.5 / self.config.embed_std  # 1 is exact in bfloat16, too
            table = (self.embedding[...] * scale).T.astype(rows.dtype)
            logits = jnp.matmul(rows, table, preferred_element_type=jnp.float32)
        else:
            logits = self.head(rows)
        if self.config.masked_head:
            logits += jnp.broadcast_to(self.head_bias[...], logits.shape)
        return logits.reshape(*x.shape[:2], self.config.vocab)

    def params_of(self, member: int, layer: int | None) -> dict[str, Array]:
        """The parameters of encoding number `member`, in a layer or (None) at the model's input."""
        if member >= len(self.shared):
            return {}
        parts = [self.shared[member]] + ([] if layer is None else [self.owned[layer][member]])
        items = (item for part in parts for item in nnx.Dict.items(part))  # one may be named items
        params = {name: value[...] for name, value in items}
        fixed = self.encodings[member].fixed
        return {n: jax.lax.stop_gradient(a) if n in fixed else a for n, a in params.items()}

    # (x after the `embed` hooks of a layer's input, or (None) of the model's; the cache). Hooks may
    # read neighbours, so they get the rows of all S tokens.
    def _embed(
        self, x: Float[Array, "B L D"], seen: Seen, encodings, layer: int | None, cache: LayerPast
    ) -> tuple[Float[Array, "B L D"], LayerPast]:
        members = [
            (i, e)
            for i, e in enumerate(encodings)
            if overrides(e, "embed")
            and acts_once(e) == (layer is None)
            and (layer is None or active(e, layer) and not mixes(e))
        ]
        if not members:
            return x, cache
        count = x.shape[1]
        x, cache = cache.embed_inputs(x, seen.start)
        for i, e in members:
            hook = functools.partial(e.embed, self.params_of(i, layer))
            axes = 0, 0, None if seen.pos.ndim == 1 else 0
            x = jax.vmap(hook, axes)(x, seen.tokens, seen.pos).astype(x.dtype)
        return rows_from(x, seen.start, count), cache


# The number of last rows that enter each layer and that leave the last one: all `length`; with
# `cuts` those that the `last` ones depend on by the windows of the layers.
def _row_counts(pes: Sequence[Bound], length: int, last: int | None, cuts: bool) -> list[int]:
    counts = [last or length]
    for pe in reversed(pes):
        embeds = any(overrides(e, "embed") and not acts_once(e) for e in pe.encodings)
        span = pe.span if cuts and not embeds else None
        counts.append(length if span is None else min(length, counts[-1] + span - 1))
    return counts[::-1]


def _stacked(trees: Sequence) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _as_nnx(arrays) -> nnx.Dict:
    return nnx.Dict({name: nnx.Param(value) for name, value in arrays.items()})


def of_logits(
    measure: Callable,
    model: LM,
    rows: Float[Array, "B T D"],
    targets: Any,
    until: int | None = None,
) -> Float[Array, "B T ..."]:
    """measure(logits [B, T, V], targets), which acts on each token alone, from the `rows` of
    `LM.__call__(rows=True)`. Targets are a tree of arrays [B, T, ...]. Logits are of the ids
    below `until`, as of a slice.

    More than MOST logits are computed in chunks of tokens, and again in the backward pass: a step
    of training then has four products with the vocabulary, not three.
    """

    def of_chunk(chunk):
        rows, targets = chunk
        return measure(model.logits_of(rows)[..., :until], targets)

    batch, T = rows.shape[:2]
    size = min(T, max(1, MOST // (batch * model.config.vocab)))
    if size == T:
        return of_chunk((rows, targets))

    def chunks(a):
        padded = jnp.pad(a, [(0, 0), (0, -T % size)] + [(0, 0)] * (a.ndim - 2))
        return jnp.moveaxis(padded.reshape(len(a), -1, size, *a.shape[2:]), 1, 0)

    out = jax.lax.map(jax.checkpoint(of_chunk), jax.tree.map(chunks, (rows, targets)))
    return jnp.moveaxis(out, 0, 1).reshape(len(rows), -1, *out.shape[3:])[:, :T]


def _same(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    return x


# A layer. Hooks and attention are vmapped over the batch; all else takes the tokens of `flat`.


class Layer(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); with lm.parallel both at once. With
    lm.norm=sandwich outputs are normalised, too, with lm.norm=after outputs alone; with
    lm.norm=embedded attention of the `first` layer reads x. A mixer takes the place of attention,
    and of its matrices.
    """

    def __init__(
        self, config: LmConfig, attends: bool = True, first: bool = False, *, rngs: nnx.Rngs
    ):
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
        after, plain = config.norm == "after", config.norm == "embedded" and first
        self.attention_norm = _same if after or plain else config.make_norm(D, rngs)
        self.mlp_norm = _same if after else config.make_norm(D, rngs)
        if config.norm in OF_OUTPUTS:
            self.attended_norm = config.make_norm(D, rngs)
            self.mlp_out_norm = config.make_norm(D, rngs)
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
            counts = (config.heads, config.kv_heads or config.heads)
            q_size, k_size = (K * n if config.qk_norm == "heads" else K for n in counts)
            self.query_norm = config.make_norm(q_size, rngs)
            self.key_norm = config.make_norm(k_size, rngs)
        if not attends:  # drawn all the same, so that other weights are as with attention
            norms = ("query_norm", "key_norm") if config.qk_norm else ()
            for name in ("query", "key_value", "out", *norms):
                delattr(self, name)

    def __call__(
        self,
        x: Float[Array, "B L D"],
        pe: Bound,
        seen: Seen,
        last: int,
        cache: LayerPast,
        dropout_keys: tuple[Key[Array, ""] | None, Key[Array, ""] | None] = (None, None),
    ) -> tuple[Float[Array, "B T D"], LayerPast]:
        """(outputs of the last `last` tokens of x, the cache with all of x in it). x has tokens
        `seen.start` to `seen.start` + L of the S in `seen`. The keys are for the dropout of
        attention and of the MLP; None: no dropout.
        """
        B, L, D = x.shape
        h = self.attention_norm(flat(x)).reshape(x.shape)
        attend = self._attention if pe.attends else self._mixer
        attended, cache = attend(h, pe, seen, last, cache)
        if self.config.norm in OF_OUTPUTS:
            attended = self.attended_norm(attended)
        before = flat(x[:, L - last :])
        x = before + _dropped(self.config.dropout, attended, dropout_keys[0])
        mlp = self._mlp(self.mlp_norm(before if self.config.parallel else x))
        if self.config.norm in OF_OUTPUTS:
            mlp = self.mlp_out_norm(mlp)
        x = x + _dropped(self.config.dropout, mlp, dropout_keys[1])
        return x.reshape(B, last, D), cache

    @jax.named_scope("mlp")
    def _mlp(self, h: Float[Array, "*tokens D"]) -> Float[Array, "*tokens D"]:
        activation = ACTIVATIONS[self.config.activation]
        if self.config.gated:
            return self.down(activation(self.gate(h)) * self.up(h))
        return self.down(activation(self.up(h)))

    # (the output of a mixer for the last tokens, `flat`, the cache), from normalised inputs. Places
    # of a memory without a token are before the first one: they are moved behind the last.
    @jax.named_scope("mixer")
    def _mixer(self, h: Float[Array, "B L D"], pe: Bound, seen: Seen, last: int, cache):
        index = rows_from(seen.index, seen.start, h.shape[1], axis=-1)
        empty = jnp.argmax(index >= 0, axis=-1)

        def of_sequence(x, empty, state):
            y, state = pe.mix(jnp.roll(x, -empty, axis=0), state)
            return jnp.roll(y.astype(x.dtype), empty, axis=0), state

        axes = 0, None if empty.ndim == 0 else 0, 0
        y, state = jax.vmap(of_sequence, axes)(h, empty, cache.state())
        return flat(y[:, y.shape[1] - last :]), cache.mixed(state)

    # (the output of attention for the last tokens, `flat`, the cache), from normalised inputs.
    @jax.named_scope("attention")
    def _attention(self, h: Float[Array, "B L D"], pe: Bound, seen: Seen, last: int, cache):
        B, L, _ = h.shape
        H, S = self.config.heads, seen.index.shape[-1]
        kv_heads = self.config.kv_heads or H
        q = self.query(flat(h[:, L - last :])).reshape(B, last, H, -1)
        new = self.key_value(flat(h)).reshape(B, L, 2 * kv_heads, -1)
        k, v = jnp.split(new, 2, axis=2)
        if self.config.qk_norm == "heads":
            q = self.query_norm(q.reshape(B, last, -1)).reshape(q.shape)
            k = self.key_norm(k.reshape(B, L, -1)).reshape(k.shape)
        elif self.config.qk_norm:
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
        pe = pe.tabulated(last, S)
        full = type(cache) is LayerPast
        attend = choose(self.config.attention, pe, B, H, last, S, full)

        def of_sequence(q, k, v, keys):
            queries = rows_from(keys, seen.start + L - last, last, axis=0)
            return attend(pe, q, k, v, queries, keys)

        with jax.named_scope("attend"):
            out = jax.vmap(of_sequence, in_axes=(0, 0, 0, axes))(q, k, v, keys)
        return self.out(flat(out.reshape(B, last, -1))), cache


# (coordinates of all S tokens for each encoding, the cache), from the normalised input x: [B, S,
# ...] with a `locate`, else the positions, [S] or [B, S]. Where there is no token `locate` gets
# x = 0, as if the sequence began at its first token.
def _locate(pe: Bound, x: Float[Array, "B L D"], seen: Seen, cache: LayerPast):
    index, pos = rows_from((seen.index, seen.pos), seen.start, x.shape[1], axis=-1)
    x = jnp.where(jnp.atleast_2d(index)[..., None] < 0, 0, x)
    axes = 0, None if pos.ndim == 1 else 0, 0
    located = jax.vmap(pe.locate, axes)(x, pos, cache.located_last(seen.start))
    locating = [overrides(e, "locate") for e in pe.encodings]
    new = tuple(c if locates else None for locates, c in zip(locating, located, strict=True))
    coords, cache = cache.coords(new, seen.start)
    return tuple(seen.pos if c is None else c for c in coords), cache


def flat(x: Float[Array, "B L D"]) -> Float[Array, "*tokens D"]:
    """Inputs of dense layers. On a CPU [B*L, D]: the gradient of a product with three axes takes
    two to three times as long. On an accelerator x itself: attention would copy its heads to
    another layout, so that a step on a TPU v5e moves 89 GB, not 72, with RoPE, and 75, not 56,
    with ALiBi (configs/encodings_gpu.py without train.remat).
    """
    return x.reshape(-1, x.shape[-1]) if jax.default_backend() == "cpu" else x


def _dropped(rate: float, x: Array, key: Key[Array, ""] | None) -> Array:
    return nnx.Dropout(rate)(x, deterministic=key is None, rngs=key)


# The parameters of encodings, shared by all layers or owned by each


def init_params(encoding: Encoding, key: Key[Array, ""]) -> tuple[Params, dict[int, Params]]:
    """(shared entries of `init`, {layer: its own entries}), for the layers in which it acts.

    ValueError if `per_layer` names an unknown entry, or if the encoding acts once, on the model's
    input, where no layer can own anything.
    """
    shared = encoding.init(key)
    owned = _owned_names(encoding, shared)
    layers = layers_of(encoding) if owned else []
    draws = {layer: encoding.init(jax.random.fold_in(key, layer + 1)) for layer in layers}
    return (
        {name: value for name, value in shared.items() if name not in owned},
        {layer: {name: draw[name] for name in sorted(owned)} for layer, draw in draws.items()},
    )


# The names of `drawn` that each layer owns. ValueError as of init_params.
def _owned_names(encoding: Encoding, drawn: Params) -> set[str]:
    owned = set(drawn) if encoding.per_layer == ("*",) else set(encoding.per_layer)
    if overrides(encoding, "mix") and not mixes(encoding):
        owned = set()  # a mixer in front of the layers
    if unknown := sorted(owned - set(drawn)):
        raise ValueError(
            f"{type(encoding).__name__}.per_layer names {', '.join(unknown)}; "
            f"its parameters are {', '.join(drawn) or 'none'}"
        )
    if owned and acts_once(encoding) and overrides(encoding, "embed"):
        raise ValueError(
            f"{type(encoding).__name__} acts once, on the model's input, so no layer can own "
            f"{', '.join(sorted(owned))}; give it where='layers' to act on the input of every layer"
        )
    return owned


def learned(encoding: Encoding) -> int:
    """The number of learned parameters in a model, by tracing. ValueError as in init_params."""
    drawn = jax.eval_shape(encoding.init, jax.random.key(0))
    owned = _owned_names(encoding, drawn)
    layers = {name: len(layers_of(encoding)) if name in owned else 1 for name in drawn}
    return sum(a.size * layers[n] for n, a in drawn.items() if n not in encoding.fixed)


def noisy(params: Params, seed: int) -> Params:
    """The parameters plus N(0, 0.3^2), for probes: some initial values have no effect."""
    rng = np.random.default_rng(seed)
    return {
        name: a + (0.3 * rng.normal(size=a.shape)).astype(np.float32) for name, a in params.items()
    }


def decayed(params) -> dict:
    """Booleans, true where weight decay acts: on dense kernels, and of encodings on the
    parameters of a mixer that are named as kernels.
    """

    def acts(path, _):
        of_encoding = path[0].key in ("shared", "owned")
        return path[-1].key.endswith("_kernel") if of_encoding else path[-1].key == "kernel"

    return jax.tree.map_with_path(acts, params)
