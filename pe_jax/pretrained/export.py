"""Writes a model as a folder that HuggingFace's transformers reads: config.json with its scaling of
RoPE, weights and tokenizer. It gives the same logits there, up to rounding.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from pe_jax.encoding import Encoding
from pe_jax.encodings.longrope import LongRoPE
from pe_jax.encodings.yarn import YaRN
from pe_jax.model.config import LmConfig
from pe_jax.pretrained.rope_scaling import max_position_embeddings, rope_parameters
from pe_jax.storage import atomic

KEPT = (
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.model",
    "vocab.json",
)
TOKENIZER = "tokenizer_config.json"


def with_scaling(
    config: Mapping[str, Any],
    encodings: Sequence[Encoding],
    length: int,
    before: Sequence[Encoding] = (),
) -> dict[str, Any]:
    """A config.json with these encodings, made for `length` tokens, in place of its own, which are
    those `before`. ValueError for encodings that it cannot say.
    """
    there = max_position_embeddings(encodings[0], length)
    stays = tuple(encodings) == tuple(e.at(length) for e in before)
    if stays and not isinstance(encodings[0], YaRN | LongRoPE):  # which may count from the length
        return {**config, "max_position_embeddings": there}
    own = rope_parameters(encodings, before)
    if config.get("model_type") == "gemma3_text" and len(before) == 2:
        raise ValueError(
            "config.json scales a Gemma 3 in layers without a window, and this has none"
        )
    base = "rotary_emb_base" if config.get("model_type") == "gpt_neox" else "rope_theta"
    usual = {"rotary_emb_base", "rope_theta", "rope_scaling", "rope_parameters"}
    usual |= {"max_position_embeddings", "original_max_position_embeddings"}
    out = {name: value for name, value in config.items() if name not in usual}
    out["max_position_embeddings"] = there
    if "rope_parameters" in config:
        by_layers = config["rope_parameters"] or {}
        if "full_attention" in by_layers:  # of Gemma 3
            own = by_layers | {"full_attention": own}
        if "partial_rotary_factor" in by_layers:  # of GPT-NeoX
            own |= {"partial_rotary_factor": by_layers["partial_rotary_factor"]}
        return out | {"rope_parameters": own}
    theta = own.pop("rope_theta")
    scaling = None if own["rope_type"] == "default" else own
    return out | {base: theta, "rope_scaling": scaling}


def copied(
    source: Path, weights: Sequence[Path], config: Mapping[str, Any], length: int, out: Path
) -> list[Path]:
    """A pretrained model's folder once more at `out`, with another config.json, and with texts of
    `length` tokens allowed by its tokenizer.
    """
    index = source / "model.safetensors.index.json"
    files = [*weights, source / "tokenizer.json", *([index] if index.is_file() else [])]
    files += [source / name for name in KEPT if (source / name).is_file()]
    with atomic.together(out) as draft:
        for path in files:
            shutil.copyfile(path, draft / path.name)
        made = {"config.json": config}
        if (source / TOKENIZER).is_file():
            about = json.loads((source / TOKENIZER).read_text("utf-8"))
            if (about.get("model_max_length") or length) < length:  # vLLM serves no more than that
                about["model_max_length"] = length
            made[TOKENIZER] = about
        for name, values in made.items():
            text = json.dumps(values, indent=2, ensure_ascii=False)
            atomic.write(draft / name, text + "\n")
    return [out / name for name in (*made, *(path.name for path in files))]


def written(
    lm: LmConfig,
    encodings: Sequence[Encoding],
    length: int,
    params: Mapping[str, Any],
    tokenizer: str | None,
    out: Path,
) -> list[Path]:
    """A model of this package as a Llama: `params` are one seed's by path, as in
    "blocks.0.query.kernel", `tokenizer` is the text of its tokenizer.json, None for no such
    file. ValueError, before anything is written, for a shape that no Llama has.
    """
    from safetensors.numpy import save_file

    config = with_scaling(llama(lm) | {"rope_parameters": {}}, encodings, length)
    tensors = {name: np.ascontiguousarray(a) for name, a in _tensors(lm, params).items()}
    with atomic.together(out) as draft:
        save_file(tensors, draft / "model.safetensors", {"format": "pt"})
        atomic.write(draft / "config.json", json.dumps(config, indent=2) + "\n")
        if tokenizer is not None:
            atomic.write(draft / "tokenizer.json", tokenizer)
        written = sorted(path.name for path in draft.iterdir())
    return [out / name for name in written]


def llama(lm: LmConfig) -> dict[str, Any]:
    """The config.json of a Llama of this shape, but for its rotation. ValueError where no Llama has
    it, with the fields that it would need.
    """
    wanted = {
        "activation": "silu",
        "gated": True,
        "parallel": False,
        "norm": "rms",
        "qk_norm": False,
        "causal": True,
        "memory": 0,
    }
    wrong = [f"lm.{k}={getattr(lm, k)!r}" for k, v in wanted.items() if getattr(lm, k) != v]
    wrong += ["lm.biases='qkv'"] if lm.biases == "qkv" else []
    if wrong:
        needed = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
        raise ValueError(
            f"no Llama has {', '.join(wrong)}: what is exported from a run or a GGUF file has "
            f"{needed} and biases '' or 'all'"
        )
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": lm.vocab,
        "hidden_size": lm.model,
        "intermediate_size": lm.mlp or 4 * lm.model,
        "num_hidden_layers": lm.layers,
        "num_attention_heads": lm.heads,
        "num_key_value_heads": lm.kv_heads or lm.heads,
        "head_dim": lm.head or lm.model // lm.heads,
        "hidden_act": "silu",
        "rms_norm_eps": lm.norm_eps or 1e-6,
        "attention_bias": lm.biases == "all",
        "mlp_bias": lm.biases == "all",
        "tie_word_embeddings": False,
        "bos_token_id": None,  # by default 1 and 2, which end texts
        "eos_token_id": None,
        "torch_dtype": "float32",
    }


def _tensors(lm: LmConfig, params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The parameters under the names of a Llama: the inverse of load.py. Tied embeddings become an
    output matrix of their own, since their scale is another.
    """

    def of(path: str) -> np.ndarray:
        return np.asarray(jnp.asarray(params[path], jnp.float32))

    def dense(name: str, ours: str, rows: slice = slice(None)) -> dict[str, np.ndarray]:
        out = {f"{name}.weight": of(f"{ours}.kernel")[:, rows].T}
        return out | ({f"{name}.bias": of(f"{ours}.bias")[rows]} if lm.biases else {})

    embedding = of("embedding")
    scale = lm.model**-0.5 / lm.embed_std
    head = embedding * scale if lm.tie_embeddings else of("head.kernel").T
    out = {"model.embed_tokens.weight": embedding, "lm_head.weight": head}
    out |= {"model.norm.weight": of("norm.scale")}
    half = (lm.kv_heads or lm.heads) * (lm.head or lm.model // lm.heads)
    for i in range(lm.layers):
        ours, theirs = f"blocks.{i}", f"model.layers.{i}"
        out |= {
            f"{theirs}.input_layernorm.weight": of(f"{ours}.attention_norm.scale"),
            f"{theirs}.post_attention_layernorm.weight": of(f"{ours}.mlp_norm.scale"),
            **dense(f"{theirs}.self_attn.q_proj", f"{ours}.query"),
            **dense(f"{theirs}.self_attn.k_proj", f"{ours}.key_value", slice(0, half)),
            **dense(f"{theirs}.self_attn.v_proj", f"{ours}.key_value", slice(half, None)),
            **dense(f"{theirs}.self_attn.o_proj", f"{ours}.out"),
            **dense(f"{theirs}.mlp.gate_proj", f"{ours}.gate"),
            **dense(f"{theirs}.mlp.up_proj", f"{ours}.up"),
            f"{theirs}.mlp.down_proj.weight": of(f"{ours}.down.kernel"),
        }
        if lm.biases:
            out[f"{theirs}.mlp.down_proj.bias"] = of(f"{ours}.down.bias")
    return out
