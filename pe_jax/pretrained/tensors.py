"""The tensors of a pretrained model under the names of this package's parameters.

A matrix of theirs is [outputs, inputs], a kernel here [inputs, outputs]; that of `down` is [inputs
of the layer, F], as theirs. Rotary pairs are (i, i + K/2) in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from pe_jax.model.config import LmConfig

Read = Callable[[str], Any]
"""The tensor of a name."""

BUFFERS = ("rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""How the names of tensors end that old versions of their libraries stored and never read."""


def parameters(family: str, lm: LmConfig, read: Read) -> dict[str, Any]:
    """{name: array} of all parameters, names as in "blocks/0/query/kernel"."""
    neox = family == "gpt_neox"
    top, layer = (_neox_top, _neox_layer) if neox else (_llama_top, _llama_layer)
    out = top(lm, read)
    for i in range(lm.layers):
        out |= {f"blocks/{i}/{name}": value for name, value in layer(lm, read, i).items()}
    return out


def _llama_top(lm: LmConfig, read: Read) -> dict[str, Any]:
    out = {"embedding": read("model.embed_tokens.weight")}
    out |= _norm("norm", "model.norm", read, lm)
    return out if lm.tie_embeddings else out | {"head/kernel": read("lm_head.weight").T}


def _llama_layer(lm: LmConfig, read: Read, i: int) -> dict[str, Any]:
    at = f"model.layers.{i}."
    own, qkv = lm.biases == "all", lm.biases != ""
    keys, values = (_dense("", f"{at}self_attn.{name}_proj", read, qkv) for name in ("k", "v"))
    joined = {
        f"key_value{name}": jnp.concatenate([keys[name], values[name]], axis=-1) for name in keys
    }
    out = {
        **_norm("attention_norm", f"{at}input_layernorm", read, lm),
        **_norm("mlp_norm", f"{at}post_attention_layernorm", read, lm),
        **_dense("query", f"{at}self_attn.q_proj", read, qkv),
        **joined,
        **_dense("out", f"{at}self_attn.o_proj", read, own),
        **_dense("gate", f"{at}mlp.gate_proj", read, own),
        **_dense("up", f"{at}mlp.up_proj", read, own),
        **_down(f"{at}mlp.down_proj", read, own),
    }
    if lm.qk_norm:
        out |= _norm("query_norm", f"{at}self_attn.q_norm", read, lm)
        out |= _norm("key_norm", f"{at}self_attn.k_norm", read, lm)
    return out


def _neox_top(lm: LmConfig, read: Read) -> dict[str, Any]:
    out = {"embedding": read("gpt_neox.embed_in.weight")}
    out |= _norm("norm", "gpt_neox.final_layer_norm", read, lm)
    return out if lm.tie_embeddings else out | {"head/kernel": read("embed_out.weight").T}


def _neox_layer(lm: LmConfig, read: Read, i: int) -> dict[str, Any]:
    at = f"gpt_neox.layers.{i}."
    size = lm.model // lm.heads
    kernel = read(f"{at}attention.query_key_value.weight")
    if kernel.shape != (3 * lm.model, lm.model):
        raise ValueError(
            f"the tensor {at}attention.query_key_value.weight has the shape {kernel.shape}; by the "
            f"model's description it is {(3 * lm.model, lm.model)}"
        )
    kernel = kernel.reshape(lm.heads, 3, size, lm.model)
    bias = read(f"{at}attention.query_key_value.bias").reshape(lm.heads, 3, size)
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
        **_down(f"{at}mlp.dense_4h_to_h", read, True),
    }


def _norm(name: str, theirs: str, read: Read, lm: LmConfig) -> dict[str, Any]:
    out = {f"{name}/scale": read(f"{theirs}.weight")}
    return out | {f"{name}/bias": read(f"{theirs}.bias")} if lm.norm == "layer" else out


def _dense(name: str, theirs: str, read: Read, bias: bool) -> dict[str, Any]:
    out = {f"{name}/kernel": read(f"{theirs}.weight").T}
    return out | {f"{name}/bias": read(f"{theirs}.bias")} if bias else out


def _down(theirs: str, read: Read, bias: bool) -> dict[str, Any]:
    out = {"down/kernel": read(f"{theirs}.weight")}
    return out | {"down/bias": read(f"{theirs}.bias")} if bias else out
