"""Reads a pretrained model, its weights included."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax.data import tokenizer
from pe_jax.errors import nearest
from pe_jax.model.config import LmConfig, stored
from pe_jax.model.generate import TextModel
from pe_jax.pretrained.source import Source
from pe_jax.training.step import structure


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Pretrained(TextModel):
    """A pretrained model; its name is that of its folder or file."""

    source: str
    weights: str
    """The dtype of its matrices."""
    lm: LmConfig
    spec: str
    """As in "rope(base=100000.0)"."""
    length: int
    """Training length in tokens."""
    files: dict[str, str]
    """SHA-256 of each file, by name."""

    def __repr__(self) -> str:
        return (
            f"Pretrained {self.name}: {self.spec}, {self.size:,} parameters in {self.weights}, "
            f"trained at length {self.length}\n  {self.source}"
        )


def load(source: str, weights: str = "float32", activations: str = "float32") -> Pretrained:
    """The model of "hf:DIR" or "gguf:PATH", matrices in `weights`, computing in `activations`.

    ValueError for a model that is unknown, incomplete or damaged, weights that are not finite and a
    tokenizer with more tokens than the model; FileNotFoundError, with similar names.
    """
    there = Source.of(source)
    about = there.about
    config = dataclasses.replace(about.lm, dtype=activations)
    tokens = tokenizer.named(source)
    if len(tokens.pieces) > config.vocab:
        raise ValueError(
            f"the tokenizer of {source} has {len(tokens.pieces)} tokens and its model embeds "
            f"{config.vocab} (vocab_size): give the tokenizer.json that the model was trained with"
        )
    recipes = recipes_of(about.family, config)
    with there.tensors() as (names, read):
        _check_names(there, recipes, names, read)  # before a model with too many layers is made
        graphdef, shapes = structure(config, about.encodings)

        def parameter(path: Any, like: jax.ShapeDtypeStruct) -> jax.Array:
            tensors, make = recipes["/".join(str(key.key) for key in path)]
            arrays = [jnp.asarray(read(name)) for name in tensors]
            try:
                array = make(*arrays)
            except (TypeError, ValueError):  # shapes do not fit each other
                array = None
            if array is None or array.shape != like.shape:
                raise ValueError(
                    f"{source} has {' and '.join(tensors)} of the shape "
                    f"{' and '.join(str(array.shape) for array in arrays)}; by the model's "
                    f"description they make a parameter of the shape {like.shape}"
                )
            array = stored(array, weights)
            if not jnp.isfinite(array).all():
                raise ValueError(
                    f"{source} has NaN or infinity in the tensor {' or '.join(tensors)}: the file "
                    "is damaged, or training diverged"
                )
            return array

        params = jax.tree.map_with_path(parameter, shapes)
    return Pretrained(
        source=source,
        name=there.name,
        weights=weights,
        lm=config,
        spec=str(about.spec),
        length=about.length,
        members=about.encodings,
        graphdef=graphdef,
        params=params,
        tokenizer=tokens,
        files=there.digests,
    )


Recipe = tuple[Sequence[str], Callable[..., jax.Array]]
"""(names of tensors, the function from tensors to a parameter)."""

TOP = {
    "llama": ("model.embed_tokens", "model.norm", "lm_head"),
    "gpt_neox": ("gpt_neox.embed_in", "gpt_neox.final_layer_norm", "embed_out"),
    "modernbert": ("model.embeddings.tok_embeddings", "model.final_norm", "decoder"),
}
LLAMA = {
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "query": "self_attn.q_proj",
    "key_value": "self_attn.k_proj self_attn.v_proj",
    "out": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
"""{part of a layer: its modules in HuggingFace's Llama}."""
PHI3 = LLAMA | {
    "query": "self_attn.qkv_proj",
    "key_value": "self_attn.qkv_proj",
    "gate": "mlp.gate_up_proj",
    "up": "mlp.gate_up_proj",
}
QK_NORM = {"query_norm": "self_attn.q_norm", "key_norm": "self_attn.k_norm"}
SANDWICH = {
    "attended_norm": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_out_norm": "post_feedforward_layernorm",
}
AFTER = {
    "attended_norm": "post_attention_layernorm",
    "mlp_out_norm": "post_feedforward_layernorm",
}
"""Of OLMo 2 and 3, without norms of inputs."""
NEOX = {
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "query": "attention.query_key_value",
    "key_value": "attention.query_key_value",
    "out": "attention.dense",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}
MODERNBERT = {
    "attention_norm": "attn_norm",
    "mlp_norm": "mlp_norm",
    "query": "attn.Wqkv",
    "key_value": "attn.Wqkv",
    "out": "attn.Wo",
    "gate": "mlp.Wi",
    "up": "mlp.Wi",
    "down": "mlp.Wo",
}
JOINED = {"phi3": PHI3, "modernbert": MODERNBERT}
"""Families that join queries, keys and values, and the two matrices of an MLP."""
BUFFERS = ("rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""Ends of names of tensors that old versions of libraries stored and never read."""


def recipes_of(family: str, lm: LmConfig) -> dict[str, Recipe]:
    """The recipe of each parameter, by its path, as in "blocks/0/query/kernel".

    Their matrices are [outputs, inputs], kernels here [inputs, outputs], except `down`, which is
    [D, F] in both. Rotary pairs are (i, i + K/2) in both. Gemma stores norms minus 1, and scales
    the input, not the output, by the root of D.
    """
    neox, gemma = family == "gpt_neox", lm.norm == "sandwich"
    queries = lm.heads * (lm.head or lm.model // lm.heads)
    parts = {  # rows of a joined matrix
        "query": (0, queries),
        "key_value": (queries, None),
        "gate": (0, lm.mlp),
        "up": (lm.mlp, None),
    }
    embedding, last_norm, head = TOP.get(family, TOP["llama"])
    modules = {"norm": last_norm}
    layer = NEOX if neox else JOINED.get(family, LLAMA)
    if lm.norm == "after":
        layer = {n: theirs for n, theirs in layer.items() if not n.endswith("norm")} | AFTER
    layer = layer | (QK_NORM if lm.qk_norm else {}) | (SANDWICH if gemma else {})
    for i in range(lm.layers):
        start = f"{'gpt_neox' if neox else 'model'}.layers.{i}."
        for name, theirs in layer.items():
            modules[f"blocks/{i}/{name}"] = " ".join(start + part for part in theirs.split())
    if lm.norm == "embedded":
        del modules["blocks/0/attention_norm"]
        modules["embedded_norm"] = "model.embeddings.norm"
    out: dict[str, Recipe] = {"embedding": ([f"{embedding}.weight"], _same)}
    if gemma:
        out["embedding"] = [f"{embedding}.weight"], lambda a: lm.model**0.5 * a.astype(jnp.float32)
    if not lm.tie_embeddings:
        out["head/kernel"] = [f"{head}.weight"], jnp.transpose
    for path, theirs in modules.items():
        weights, biases = ([f"{m}.{kind}" for m in theirs.split()] for kind in ("weight", "bias"))
        name = path.rpartition("/")[2]
        if name.endswith("norm"):
            out[f"{path}/scale"] = weights, _plus_one if gemma else _same
            if neox:
                out[f"{path}/bias"] = biases, _same
            continue
        make = _same if name == "down" else lambda *parts: jnp.concatenate(parts).T
        if neox and name in ("query", "key_value"):
            make = functools.partial(_of_joined, lm.heads, [0] if name == "query" else [1, 2])
        if family in JOINED and name in parts:
            make = functools.partial(_rows, *parts[name])
        out[f"{path}/kernel"] = weights, make
        if lm.biases == "all" or (lm.biases == "qkv" and name in ("query", "key_value")):
            out[f"{path}/bias"] = biases, make
    if lm.masked_head:
        out["head_dense/kernel"] = ["head.dense.weight"], jnp.transpose
        out["head_norm/scale"] = ["head.norm.weight"], _same
        out["head_bias"] = [f"{head}.bias"], _same
    return out


def _same(array: jax.Array) -> jax.Array:
    return array


def _rows(start: int, stop: int | None, array: jax.Array) -> jax.Array:
    return array[start:stop].T


def _plus_one(scale: jax.Array) -> jax.Array:
    return 1 + scale.astype(jnp.float32)


# Queries (part 0), keys (1) or values (2) of a tensor with rows [H, 3, K].
def _of_joined(heads: int, parts: Sequence[int], array: jax.Array) -> jax.Array:
    rows = array.reshape(heads, 3, -1, *array.shape[1:])
    return jnp.concatenate([rows[:, i].reshape(-1, *array.shape[1:]) for i in parts]).T


def _check_names(
    there: Source, recipes: dict[str, Recipe], names: frozenset[str], read: Callable[[str], Any]
) -> None:
    wanted = [name for tensors, _ in recipes.values() for name in tensors]
    for name in wanted:
        if name not in names:
            raise ValueError(f"{there.text} lacks the tensor {name}{nearest(name, names)}")
    unknown = {name for name in names.difference(wanted) if not name.endswith(BUFFERS)}
    table, _, head = (f"{name}.weight" for name in TOP.get(there.about.family, TOP["llama"]))
    if head in unknown and jnp.array_equal(read(head), read(table)):
        unknown.remove(head)  # some trainers write the tied matrix twice
    if unknown:
        first = ", ".join(sorted(unknown)[:5])
        raise ValueError(f"{there.text} has tensors that are not understood: {first}")
