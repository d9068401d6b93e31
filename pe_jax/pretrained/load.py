"""Reads a pretrained model, its weights included."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax.data import tokenizer
from pe_jax.errors import nearest
from pe_jax.model.config import LmConfig, stored
from pe_jax.model.generate import TextModel
from pe_jax.pretrained.source import Source, Tensors
from pe_jax.training.step import structure


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Pretrained(TextModel):
    """A pretrained model; its name is that of its folder or file."""

    source: str
    weights: str
    """The dtype of its parameters."""
    lm: LmConfig
    spec: str
    """Its encodings, as specs are written: "rope(base=100000.0)"."""
    length: int
    """Tokens for which it was trained."""
    files: dict[str, str]
    """SHA-256 of each file that it was read from, by name."""

    def __repr__(self) -> str:
        return (
            f"Pretrained {self.name}: {self.spec}, {self.size:,} parameters in {self.weights}, "
            f"trained at length {self.length}\n  {self.source}"
        )


def load(source: str, weights: str = "float32", activations: str = "float32") -> Pretrained:
    """The model of "hf:DIR" or "gguf:PATH", its matrices stored in the dtype `weights` and
    computed with in `activations`.

    ValueError for a model that is not understood, whole or readable, for weights that are not
    finite and for a tokenizer with more tokens than the model has, FileNotFoundError for a file
    that is not there, with the names of similar ones.
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
    with there.tensors() as tensors:  # first, so that no model of too many layers is made
        found = _parameters(there, tensors, weights)
    graphdef, shapes = structure(config, about.encodings)
    return Pretrained(
        source=source,
        name=there.name,
        weights=weights,
        lm=config,
        spec=str(about.spec),
        length=about.length,
        members=about.encodings,
        graphdef=graphdef,
        params=jax.tree.map_with_path(lambda path, like: _placed(found, path, like), shapes),
        tokenizer=tokens,
        files=there.digests,
    )


def _parameters(there: Source, tensors: Tensors, weights: str) -> dict[str, jax.Array]:
    """All parameters, as `_by_our_names` gives them. ValueError for a tensor that is missing or not
    understood.
    """
    used: set[str] = set()

    def read(name: str, change: Change | None = None) -> jax.Array:
        if name not in tensors.names:
            raise ValueError(f"{there.text} lacks the tensor {name}{nearest(name, tensors.names)}")
        used.add(name)
        array = tensors.read(name)
        if change is not None:  # in float32, whatever is kept
            array = change(jnp.asarray(array, jnp.float32))
        array = stored(array, weights)
        if not jnp.isfinite(array).all():
            raise ValueError(
                f"{there.text} has NaN or infinity in the tensor {name}: the file is damaged, or "
                "training diverged"
            )
        return array

    found = _by_our_names(there.about.family, there.about.lm, read)
    if there.about.lm.tie_embeddings:  # some trainers write the tied matrix twice
        names = NEOX if there.about.family == "gpt_neox" else LLAMA
        table, _, head = (f"{name}.weight" for name in names)
        if head in tensors.names and jnp.array_equal(tensors.read(head), tensors.read(table)):
            used.add(head)
    if left := sorted(name for name in tensors.names - used if not name.endswith(BUFFERS)):
        raise ValueError(f"{there.text} has tensors that are not understood: {', '.join(left[:5])}")
    return found


def _placed(found: dict[str, Any], path: Any, like: jax.ShapeDtypeStruct) -> Any:
    """The parameter of a path in the model's tree."""
    name = "/".join(str(key.key) for key in path)
    if found[name].shape != like.shape:
        raise ValueError(
            f"the tensor of {name} has the shape {found[name].shape}; by the model's description "
            f"it is {like.shape}"
        )
    return found[name]


# The tensors of a pretrained model under the names of this package's parameters
#
# A matrix of theirs is [outputs, inputs], a kernel here [inputs, outputs]; that of `down` is
# [inputs of the layer, F], as theirs. Rotary pairs are (i, i + K/2) in both.


Change = Callable[[jax.Array], jax.Array]
Read = Callable[..., Any]
"""read(name, change): the tensor of a name, changed where that is not None."""

LLAMA = "model.embed_tokens", "model.norm", "lm_head"
NEOX = "gpt_neox.embed_in", "gpt_neox.final_layer_norm", "embed_out"
BUFFERS = ("rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""How the names of tensors end that old versions of their libraries stored and never read."""


def _by_our_names(family: str, lm: LmConfig, read: Read) -> dict[str, Any]:
    """{name: array} of all parameters, names as in "blocks/0/query/kernel"."""
    (embedding, norm, head), layer, scaled = LLAMA, _llama_layer, None
    if family == "gpt_neox":
        (embedding, norm, head), layer = NEOX, _neox_layer
    if family == "gemma3_text":  # its input alone
        scaled = functools.partial(jnp.multiply, lm.model**0.5)
    out = {"embedding": read(f"{embedding}.weight", scaled), **_norm("norm", norm, read, lm)}
    if not lm.tie_embeddings:
        out["head/kernel"] = read(f"{head}.weight").T
    for i in range(lm.layers):
        out |= {f"blocks/{i}/{name}": value for name, value in layer(lm, read, i).items()}
    return out


def _llama_layer(lm: LmConfig, read: Read, i: int) -> dict[str, Any]:
    at, own, qkv = f"model.layers.{i}.", lm.biases == "all", lm.biases != ""
    keys, values = (_dense("", f"{at}self_attn.{name}_proj", read, qkv) for name in ("k", "v"))
    joined = {
        f"key_value{name}": jnp.concatenate([keys[name], values[name]], axis=-1) for name in keys
    }
    out = {
        **_dense("query", f"{at}self_attn.q_proj", read, qkv),
        **joined,
        **_dense("out", f"{at}self_attn.o_proj", read, own),
        **_dense("gate", f"{at}mlp.gate_proj", read, own),
        **_dense("up", f"{at}mlp.up_proj", read, own),
        **_dense("down", f"{at}mlp.down_proj", read, own),
    }
    norms = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
    if lm.norm == "sandwich":
        norms |= {"attended_norm": norms["mlp_norm"], "mlp_norm": "pre_feedforward_layernorm"}
        norms |= {"mlp_out_norm": "post_feedforward_layernorm"}
    if lm.qk_norm:
        norms |= {"query_norm": "self_attn.q_norm", "key_norm": "self_attn.k_norm"}
    for name, theirs in norms.items():
        out |= _norm(name, f"{at}{theirs}", read, lm)
    return out


def _neox_layer(lm: LmConfig, read: Read, i: int) -> dict[str, Any]:
    at = f"gpt_neox.layers.{i}."
    joined, size = f"{at}attention.query_key_value", lm.model // lm.heads
    kernel = read(f"{joined}.weight")
    if kernel.shape != (3 * lm.model, lm.model):
        raise ValueError(
            f"the tensor {joined}.weight has the shape {kernel.shape}; by the model's description "
            f"it is {(3 * lm.model, lm.model)}"
        )
    kernel = kernel.reshape(lm.heads, 3, size, lm.model)
    bias = read(f"{joined}.bias").reshape(lm.heads, 3, size)
    q, k, v = (kernel[:, part].reshape(-1, lm.model).T for part in range(3))
    of_q, of_k, of_v = (bias[:, part].reshape(-1) for part in range(3))
    return {
        **_norm("attention_norm", f"{at}input_layernorm", read, lm),
        **_norm("mlp_norm", f"{at}post_attention_layernorm", read, lm),
        "query/kernel": q,
        "query/bias": of_q,
        "key_value/kernel": jnp.concatenate([k, v], axis=-1),
        "key_value/bias": jnp.concatenate([of_k, of_v], axis=-1),
        **_dense("out", f"{at}attention.dense", read, True),
        **_dense("up", f"{at}mlp.dense_h_to_4h", read, True),
        **_dense("down", f"{at}mlp.dense_4h_to_h", read, True),
    }


def _norm(name: str, theirs: str, read: Read, lm: LmConfig) -> dict[str, Any]:
    added = (lambda scale: 1 + scale) if lm.norm == "sandwich" else None  # as Gemma stores it
    out = {f"{name}/scale": read(f"{theirs}.weight", added)}
    return out | {f"{name}/bias": read(f"{theirs}.bias")} if lm.norm == "layer" else out


def _dense(name: str, theirs: str, read: Read, bias: bool) -> dict[str, Any]:
    weight = read(f"{theirs}.weight")
    out = {f"{name}/kernel": weight if name == "down" else weight.T}
    return out | {f"{name}/bias": read(f"{theirs}.bias")} if bias else out
