"""Writes a folder for HuggingFace's transformers: config.json with a scaling of RoPE, weights and
tokenizer. Logits there are the same up to rounding.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from pe_jax.encoding import Encoding
from pe_jax.encodings.dynamic_ntk import DynamicNTK
from pe_jax.encodings.longrope import LongRoPE
from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.yarn import YaRN
from pe_jax.model.config import LmConfig
from pe_jax.pretrained.config import KINDS, LAYERED, ORIGINAL, PARTLY, rope_parameters
from pe_jax.pretrained.load import LLAMA
from pe_jax.pretrained.source import read_json
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
    """A config.json with these encodings, made for `length` tokens, instead of `before`. ValueError
    for encodings that config.json cannot express.
    """
    first, there = encodings[0], length
    if isinstance(first, DynamicNTK):  # this is where it begins to grow
        there = first.length or first.dims.train_len
    stays = tuple(encodings) == tuple(e.at(length) for e in before)
    if stays and not isinstance(first, YaRN | LongRoPE):  # these may count from the length
        return {**config, "max_position_embeddings": there}
    own, family = rope_parameters(encodings, before), config.get("model_type", "")
    if family in LAYERED and (len(before) == 2 or "truncate" in own):
        raise ValueError(
            "config.json scales a Gemma 3, OLMo 3 or ModernBERT only in layers without a window, "
            "by YaRN only with rounded ends: this needs own code"
        )
    if family == "phi3" and own["rope_type"] not in ("default", "longrope"):
        raise ValueError(
            f"config.json of a Phi-3 has no rope_type {own['rope_type']}: it needs own code"
        )
    names = {"gpt_neox": "rotary_emb_base", "modernbert": "global_rope_theta"}
    base = names.get(family, "rope_theta")
    usual = {*names.values(), "rope_theta", "rope_scaling", "rope_parameters", ORIGINAL}
    usual |= set() if family in PARTLY else {"partial_rotary_factor"}  # which says nothing so far
    out = {name: value for name, value in config.items() if name not in usual}
    out |= {k: own[k] for k in own if (family, k) == ("phi3", ORIGINAL)}  # else it has 4096
    out["max_position_embeddings"] = there
    unscaled = own["rope_type"] == "default"  # a base at most, which OLMo 3 has for all layers
    if "rope_parameters" in config or {"olmo3": unscaled, "modernbert": not unscaled}.get(family):
        by_layers = config.get("rope_parameters") or {}
        if family in ("olmo3", "modernbert"):  # programs differ in the layers of a base outside
            bases = {e.layers: e.base for e in before if isinstance(e, Rotary)}
            near = {"rope_type": "default", "rope_theta": [*bases.values()][-1]}
            by_layers = dict.fromkeys(KINDS[: len(bases)], near) | by_layers
        if "full_attention" in by_layers:  # of Gemma 3, too
            own = by_layers | {"full_attention": own}
        if "partial_rotary_factor" in by_layers and family in PARTLY:
            own |= {"partial_rotary_factor": by_layers["partial_rotary_factor"]}
        return out | {"rope_parameters": own}
    theta = own.pop("rope_theta")
    scaling = None if unscaled else own
    return out | {base: theta, "rope_scaling": scaling}


def copied(
    source: Path, weights: Sequence[Path], config: Mapping[str, Any], length: int, out: Path
) -> list[Path]:
    """Copies a pretrained model's folder to `out`, with another config.json and a tokenizer for
    `length` tokens; returns the paths.
    """
    index = source / "model.safetensors.index.json"
    files = [*weights, source / "tokenizer.json", *([index] if index.is_file() else [])]
    files += [source / name for name in KEPT if (source / name).is_file()]
    with atomic.together(out) as draft:
        for path in files:
            shutil.copyfile(path, draft / path.name)
        made = {"config.json": config}
        if (source / TOKENIZER).is_file():
            about = read_json(source / TOKENIZER)
            if (about.get("model_max_length") or length) < length:  # vLLM serves no more than that
                about["model_max_length"] = length
            made[TOKENIZER] = about
        for name, values in made.items():
            atomic.write(draft / name, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return [out / name for name in (*made, *(path.name for path in files))]


def written(
    lm: LmConfig,
    encodings: Sequence[Encoding],
    length: int,
    params: Mapping[str, Any],
    tokenizer: str | None,
    out: Path,
) -> list[Path]:
    """Writes a model of this package as a Llama; returns the paths.

    Args:
        params: of one seed by path, as in "blocks.0.query.kernel".
        tokenizer: the text of tokenizer.json; None: no such file.

    ValueError, before anything is written, for a shape that no Llama has.
    """
    from safetensors.numpy import save_file

    config = with_scaling(llama(lm) | {"rope_parameters": {}}, encodings, length)
    with atomic.together(out) as draft:
        save_file(_tensors(lm, params), draft / "model.safetensors", {"format": "pt"})
        atomic.write(draft / "config.json", json.dumps(config, indent=2) + "\n")
        if tokenizer is not None:
            atomic.write(draft / "tokenizer.json", tokenizer)
        written = sorted(path.name for path in draft.iterdir())
    return [out / name for name in written]


def llama(lm: LmConfig) -> dict[str, Any]:
    """The config.json of a Llama of this shape, without a rotation. ValueError if none has it."""
    wanted = {
        "activation": "silu",
        "gated": True,
        "parallel": False,
        "norm": "rms",
        "masked_head": False,
        "qk_norm": False,
        "causal": True,
        "memory": 0,
    }
    wrong = [f"lm.{k}={getattr(lm, k)!r}" for k, v in wanted.items() if getattr(lm, k) != v]
    wrong += ["lm.biases='qkv'"] if lm.biases == "qkv" else []
    if wrong:
        needed = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
        raise ValueError(
            f"no Llama has {', '.join(wrong)}: an export of a run or a GGUF file needs "
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


# The parameters by the names of a Llama: the inverse of load.py. Tied embeddings become an output
# matrix, since its scale differs.
def _tensors(lm: LmConfig, params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    own = {path: np.asarray(jnp.asarray(array, jnp.float32)) for path, array in params.items()}
    tied = own["embedding"] * (lm.model**-0.5 / lm.embed_std)
    out = {
        "model.embed_tokens.weight": own["embedding"],
        "lm_head.weight": tied if lm.tie_embeddings else own["head.kernel"].T,
        "model.norm.weight": own["norm.scale"],
    }
    for i, (name, theirs) in itertools.product(range(lm.layers), LLAMA.items()):
        modules = [f"model.layers.{i}.{part}" for part in theirs.split()]
        for ours, kind in {"scale": "weight", "kernel": "weight", "bias": "bias"}.items():
            if (array := own.get(f"blocks.{i}.{name}.{ours}")) is not None:
                array = array if name == "down" else array.T
                parts = zip(modules, np.split(array, len(modules)), strict=True)
                out |= {f"{module}.{kind}": part for module, part in parts}
    return {name: np.ascontiguousarray(array) for name, array in out.items()}
