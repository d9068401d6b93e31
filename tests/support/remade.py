"""Tiny models whose weights NumPy draws again from their config.json (make_folders.py)."""

import zlib

import numpy as np

TOKENS = np.arange(24) * 37 % 256
SHORT = 8
"""A text of 24 tokens, and how many its beginning has; all have a vocabulary of 256."""


def weights(config):
    """{tensor of a model's folder: its values}, each drawn by its name: matrices of the standard
    deviation 2 / sqrt(fan in), at which logits are far apart.
    """
    made = {}
    for name, shape in shapes(config).items():
        values = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape)
        if name.endswith("bias"):
            values *= 0.2
        elif len(shape) == 1:
            values = 0.2 * values + (config["model_type"] != "gemma3_text")
        elif "embed" not in name or "out" in name:
            values *= 2 / np.sqrt(shape[1])
        made[name] = values.astype(np.float32)
    return made


def shapes(config):
    """{tensor of a model's folder: its shape}."""
    family, d, f = (config[name] for name in ("model_type", "hidden_size", "intermediate_size"))
    heads, neox = config["num_attention_heads"], family == "gpt_neox"
    head = config.get("head_dim") or d // heads
    usual = {"mistral": 8, "smollm3": 4}.get(family, heads)
    shared = config.get("num_key_value_heads", usual) or heads
    q, k = heads * head, shared * head
    biased = config.get("attention_bias", False)
    biased = biased and family in ("llama", "qwen3", "olmo2", "olmo3", "smollm3")
    mlp = config.get("mlp_bias", False) and family in ("llama", "smollm3")
    rows = {  # of a matrix: the shape, and whether it has a bias
        "self_attn.q_proj": ((q, d), biased or family == "qwen2"),
        "self_attn.k_proj": ((k, d), biased or family == "qwen2"),
        "self_attn.v_proj": ((k, d), biased or family == "qwen2"),
        "self_attn.o_proj": ((d, q), biased),
        "mlp.gate_proj": ((f, d), mlp),
        "mlp.up_proj": ((f, d), mlp),
        "mlp.down_proj": ((d, f), mlp),
    }
    if family == "phi3":
        joined = {"self_attn.qkv_proj": ((q + 2 * k, d), False)}
        joined |= {"mlp.gate_up_proj": ((2 * f, d), False)}
        rows = joined | {n: rows[n] for n in ("self_attn.o_proj", "mlp.down_proj")}
    norms = dict.fromkeys(("input_layernorm", "post_attention_layernorm"), d)
    if family in ("olmo2", "olmo3"):
        norms = dict.fromkeys(("post_attention_layernorm", "post_feedforward_layernorm"), d)
        norms |= {"self_attn.q_norm": q, "self_attn.k_norm": k}
    if family == "gemma3_text":
        norms |= dict.fromkeys(("pre_feedforward_layernorm", "post_feedforward_layernorm"), d)
    if family in ("gemma3_text", "qwen3"):
        norms |= {"self_attn.q_norm": head, "self_attn.k_norm": head}
    layer, top, last = "model.layers", ("model.embed_tokens", "lm_head"), "model.norm"
    if family == "modernbert":
        return of_modernbert(config)
    if neox:
        layer, top, last = (
            "gpt_neox.layers",
            ("gpt_neox.embed_in", "embed_out"),
            "gpt_neox.final_layer_norm",
        )
        sizes = {"attention.query_key_value": (3 * d, d), "attention.dense": (d, d)}
        sizes |= {"mlp.dense_h_to_4h": (f, d), "mlp.dense_4h_to_h": (d, f)}
        rows = {name: (shape, True) for name, shape in sizes.items()}
    tied = config.get("tie_word_embeddings", family in ("gemma3_text", "smollm3"))
    out = {f"{name}.weight": (256, d) for name in top[: 1 if tied else 2]}
    every = {last: ((d,), neox)}
    for i in range(config["num_hidden_layers"]):
        every |= {f"{layer}.{i}.{name}": ((size,), neox) for name, size in norms.items()}
        every |= {f"{layer}.{i}.{name}": row for name, row in rows.items()}
    out |= {f"{name}.weight": shape for name, (shape, _) in every.items()}
    return out | {f"{name}.bias": shape[:1] for name, (shape, bias) in every.items() if bias}


def of_modernbert(config):
    """The same of a ModernBERT, whose first layer has no norm before attention."""
    d, f = config["hidden_size"], config["intermediate_size"]
    attention, mlp, norm, classifier = (
        config.get(f"{name}_bias", False) for name in ("attention", "mlp", "norm", "classifier")
    )
    every = {
        "model.embeddings.tok_embeddings": ((256, d), False),
        "model.embeddings.norm": ((d,), norm),
        "model.final_norm": ((d,), norm),
        "head.dense": ((d, d), classifier),
        "head.norm": ((d,), norm),
        "decoder": ((256, d), config.get("decoder_bias", True)),
    }
    for i in range(config["num_hidden_layers"]):
        rows = {
            "attn_norm": ((d,), norm),
            "attn.Wqkv": ((3 * d, d), attention),
            "attn.Wo": ((d, d), attention),
            "mlp_norm": ((d,), norm),
            "mlp.Wi": ((2 * f, d), mlp),
            "mlp.Wo": ((d, f), mlp),
        }
        every |= {f"model.layers.{i}.{name}": row for name, row in rows.items()}
    del every["model.layers.0.attn_norm"]
    out = {f"{name}.weight": shape for name, (shape, _) in every.items()}
    if config.get("tie_word_embeddings", True):
        del out["decoder.weight"]
    return out | {f"{name}.bias": shape[:1] for name, (shape, bias) in every.items() if bias}
