"""Makes folders.json: 20 random config.json of each family, and the logits that transformers gives
with the weights that tests/support/remade.py draws, for tests/pretrained/test_folders.py.

In an environment with the pinned packages below, which the project itself does not need:

    pip install torch==2.13.0 transformers==5.24.0
    python tests/golden/make_folders.py

Nothing of pe_jax is imported. A config that transformers cannot make a model of is drawn again.
Where pe_jax refuses one, `refused` is the field that it names, written there by hand.
"""

import importlib.metadata
import json
import logging
import random
import sys
import tempfile
from pathlib import Path

import torch
import transformers

sys.path.append(str(Path(__file__).parents[1] / "support"))
from remade import SHORT, TOKENS, shapes, weights

PINNED = {"torch": "2.13.0", "transformers": "5.24.0"}
FILE = Path(__file__).parent / "folders.json"
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text", "gpt_neox")
FAMILIES += ("phi3", "olmo2", "olmo3", "smollm3", "modernbert")
FULL, NEAR = "full_attention", "sliding_attention"
ABSENT = object()


def main():
    for package, version in PINNED.items():
        found = importlib.metadata.version(package)
        assert found.split("+")[0] == version, f"{package} is {found}, pinned is {version}"
    logging.disable()
    transformers.logging.set_verbosity_error()
    refused = {}
    if FILE.exists():
        refused = {json.dumps(e["config"]): e.get("refused") for e in json.loads(FILE.read_text())}
    entries = []
    for family in FAMILIES:
        draw, made = random.Random(family), 0
        while made < 20:
            config = drawn(family, draw)
            try:
                found = logits(config)
            except Exception as error:  # transformers has many
                print(f"{family}: {type(error).__name__}: {str(error)[:100]!r}")
                continue
            made += 1
            entry = {"config": config, "logits": found}
            named = refused.get(json.dumps(config))
            entries.append(entry | ({"refused": named} if named else {}))
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    FILE.write_text(f"[\n{lines}\n]\n")


def logits(config):
    """Every 16th of the last token, of the whole text and, where that differs, of its beginning."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        read = transformers.AutoConfig.from_pretrained(folder)
    encoder = config["model_type"] == "modernbert"
    kind = transformers.AutoModelForMaskedLM if encoder else transformers.AutoModelForCausalLM
    model = kind.from_config(read, dtype=torch.float32, attn_implementation="eager").eval()
    theirs = {name.replace("embed_out", "lm_head"): w for name, w in weights(config).items()}
    wanted = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert wanted == {name: w.shape for name, w in theirs.items()}, shapes(config)
    by_length = any(kind in json.dumps(config) for kind in ("dynamic", "longrope"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.tensor(theirs[name]))
        out = [
            model(torch.tensor(TOKENS[None, :n])).logits[0, -1]
            for n in (*([SHORT] if by_length else []), len(TOKENS))  # a dynamic base never shrinks
        ]
    assert all(torch.isfinite(row).all() for row in out), "not finite"
    return [[round(value, 5) for value in row[::16].tolist()] for row in out]


def drawn(family, draw):
    """A config.json, as somebody may have written it."""

    def one(*values):
        return draw.choice(values)

    def seldom(value, of=8):
        return value if draw.randrange(of) == 0 else ABSENT

    heads, head = one((4, 8), (2, 12), (4, 6), (2, 16), (16, 4))
    config = {
        "model_type": family,
        "vocab_size": 256,
        "hidden_size": heads * head,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "max_position_embeddings": one(8, 16, 16, 32),
        "tie_word_embeddings": one(True, False, ABSENT)
        if family != "gemma3_text"
        else one(True, ABSENT),
        "use_cache": one(True, ABSENT),
    }
    if family == "gpt_neox":
        config |= {
            "hidden_act": one("gelu", "gelu_new", "gelu_fast", "relu", ABSENT),
            "layer_norm_eps": one(1e-5, 1e-2, ABSENT),
            "use_parallel_residual": one(True, False, ABSENT),
            "attention_bias": one(True, ABSENT),
        }
    elif family == "modernbert":
        bias, act = one(True, False, ABSENT), one("gelu", ABSENT, "relu")
        config |= {
            "num_hidden_layers": one(3, 4, 5),
            "pad_token_id": 0,
            "hidden_activation": act,
            "classifier_activation": act if act == "relu" else one(act, ABSENT, seldom("relu")),
            "norm_eps": one(1e-5, 1e-2, ABSENT),
            "layer_norm_eps": seldom(1e-5, 12),
            "attention_bias": bias,
            "mlp_bias": bias if seldom(1) is ABSENT else False,
            "norm_bias": seldom(True, 12),
            "decoder_bias": seldom(one(False, True), 6),
            "classifier_bias": seldom(one(False, True), 6),
            "local_attention": one(8, 9, 20, ABSENT),
            "global_attn_every_n_layers": one(1, 2, 3, 3, ABSENT),
            "position_embedding_type": one("absolute", ABSENT),
        }
        kinds = [one(FULL, NEAR) for _ in range(config["num_hidden_layers"])]
        config |= {"layer_types": seldom(kinds, 4)}
    else:
        usual = "mistral" if heads == 16 else "llama"
        config |= {
            "num_key_value_heads": one(heads, 1, 2, ABSENT if family == usual else heads),
            "rms_norm_eps": one(1e-5, 1e-6, 1e-2),
            "head_dim": one(head, 8)
            if family in ("qwen3", "gemma3_text")
            else one(ABSENT, ABSENT, head, 8),
        }
    if family == "llama":
        bias = one(True, False, ABSENT)
        config |= {"attention_bias": bias, "mlp_bias": one(bias, bias, bias, False)}
        config |= {"layer_types": seldom([FULL, FULL]), "hidden_act": one("silu", ABSENT)}
    if family == "mistral":
        window = one(5, 9, 20, None, ABSENT)
        config |= {"sliding_window": window, "attention_bias": seldom(True)}
        config |= {"layer_types": seldom([FULL if window is None else NEAR] * 2, 4)}
    if family in ("qwen2", "qwen3"):
        config |= {
            "use_sliding_window": one(True, False, False, ABSENT),
            "sliding_window": one(5, 4096, None, ABSENT),
            "max_window_layers": one(0, 1, 2, 2, 28, ABSENT),
            "layer_types": one(ABSENT, ABSENT, ABSENT, [FULL, FULL], [FULL, NEAR]),
        }
    if family == "qwen3":
        config |= {"attention_bias": seldom(True)}
    if family in ("phi3", "olmo2", "olmo3", "smollm3"):
        config |= {"num_hidden_layers": one(3, 4), "pad_token_id": 0}
        config |= {"tie_word_embeddings": one(True, False), "hidden_act": one("silu", ABSENT)}
    if family == "phi3":
        config |= {"sliding_window": one(5, 9, None, ABSENT), "attention_bias": one(False, ABSENT)}
        config |= {"resid_pdrop": one(0.1, ABSENT), "head_dim": ABSENT}
    if family in ("olmo2", "olmo3"):
        config |= {"attention_bias": seldom(True), "head_dim": ABSENT}
    if family == "olmo3":
        kinds = [one(FULL, NEAR) for _ in range(config["num_hidden_layers"])]
        config |= {"sliding_window": one(5, 9, ABSENT), "layer_types": one(ABSENT, kinds, kinds)}
    if family == "smollm3":
        turned = [one(1, 1, 0) for _ in range(config["num_hidden_layers"])]
        bias = one(True, False, ABSENT)
        config |= {
            "attention_bias": bias,
            "mlp_bias": bias,
            "head_dim": ABSENT,
            "no_rope_layers": one(ABSENT, turned, turned),
            "no_rope_layer_interval": one(ABSENT, 2, 3),
            "use_sliding_window": one(True, False, ABSENT),
            "sliding_window": one(5, None, ABSENT),
        }
    if family == "gemma3_text":
        config |= {
            "query_pre_attn_scalar": 4 if seldom(1) == 1 else config["head_dim"],
            "sliding_window": one(5, 9, ABSENT),
            "layer_types": one(ABSENT, [FULL, NEAR], [NEAR, FULL], [NEAR, NEAR], [FULL, FULL]),
            "sliding_window_pattern": one(ABSENT, 2, 2, 6),
            "_sliding_window_pattern": seldom(2),
            "final_logit_softcapping": one(ABSENT, None, seldom(30.0)),
            "attention_bias": one(ABSENT, False),
        }
    config |= rotation(family, config, draw, one, seldom)
    return {name: value for name, value in config.items() if value is not ABSENT}


def rotation(family, config, draw, one, seldom):
    """The fields of the rotation: old and new names, one thing said twice, and said wrong."""
    head = config["hidden_size"] // config["num_attention_heads"]
    head = head if config.get("head_dim", ABSENT) is ABSENT else config["head_dim"]
    new, base = one(True, False), one(10000.0, 10000, 500.0, 100, 4.0, ABSENT)
    kind = one("default", "linear", "dynamic", "llama3", "yarn", "longrope")
    if family == "phi3":
        kind = one("default", "longrope", "longrope")
    top = {"rotary_emb_base": seldom(500, 20)} if family != "gpt_neox" else {}
    if family == "phi3":
        share = one(0.5, 0.75, 1.0, ABSENT)
        top |= {"partial_rotary_factor": share}
        head = head if share is ABSENT else int(head * share)
    elif family == "gpt_neox":
        share = one(0.25, 0.5, 1.0, ABSENT) if kind == "default" else one(1.0, 1.0, 1.0, 1, 1, 0.5)
        top |= {"rotary_pct": share, "partial_rotary_factor": one(ABSENT, share, seldom(0.5, 4))}
    else:
        top |= {"partial_rotary_factor": seldom(1.0 if kind != "default" else 0.5)}
    scaling = numbers(kind, head, one, seldom)
    if kind in ("llama3", "yarn", "longrope"):
        original = one(8, 8, 8.0, 16, 4000)
        place, again = one((scaling, top), (scaling, top), (top, scaling))
        place["original_max_position_embeddings"] = (
            original if kind == "llama3" else one(original, original, ABSENT)
        )
        again["original_max_position_embeddings"] = seldom(original)
        if family == "phi3":
            scaling.pop("original_max_position_embeddings", None)
            top["original_max_position_embeddings"] = one(original, original, ABSENT)
    scaling = {name: value for name, value in scaling.items() if value is not ABSENT}
    names = {"llama": ("rope_theta",), "gpt_neox": ("rotary_emb_base", "rope_theta")}
    own, *other = names.get(family, names["llama"])
    if family == "olmo3":
        if one(True, False):
            near = {"rope_type": "default", "rope_theta": base}
            parts = {FULL: {"rope_theta": base, **scaling}, NEAR: near}
            top["rope_parameters"] = {
                part: {n: v for n, v in said.items() if v is not ABSENT}
                for part, said in parts.items()
            }
            return top
        top |= {"rope_theta": one(500000.0, ABSENT, base)}
        return top | {"rope_scaling": scaling if kind != "default" else one(None, ABSENT)}
    if family == "gemma3_text":
        near = {"rope_type": "default", "rope_theta": 100.0}
        near = one(near, near, {"rope_type": "linear", "factor": 2.0})
        if new:
            within = {"rope_theta": base, **scaling}
            within = {name: value for name, value in within.items() if value is not ABSENT}
            top["rope_parameters"] = {FULL: within, NEAR: near}
            return top
        top |= {"rope_theta": base, "rope_local_base_freq": one(100.0, ABSENT)}
        return top | {"rope_scaling": scaling if kind != "default" else one(None, ABSENT)}
    if family == "modernbert":
        near = {"rope_type": "default", "rope_theta": one(100.0, ABSENT)}
        near = {name: value for name, value in near.items() if value is not ABSENT}
        within = {"rope_theta": base, **scaling}
        within = {name: value for name, value in within.items() if value is not ABSENT}
        if new:
            top["rope_parameters"] = {FULL: within, NEAR: one(near, {**scaling, "rope_theta": 50})}
            return top | {"local_rope_theta": seldom(100.0, 4)}
        top |= {"global_rope_theta": base, "local_rope_theta": one(100.0, ABSENT)}
        return top | {"rope_scaling": seldom(scaling, 4)}
    top |= {name: seldom(base) for name in other}
    if new:
        top["rope_parameters"] = {"rope_theta": base, **scaling} if base is not ABSENT else scaling
        return top | {own: seldom(base)}
    top |= {own: base, "rope_scaling": scaling if kind != "default" else one(None, ABSENT, {})}
    again = {"rope_type": "default", "rope_theta": 500.0}
    return (
        top
        | {"rope_parameters": seldom(again, 16)}
        | ({"rope_theta": seldom(500.0)} if other else {})
    )


def numbers(kind, head, one, seldom):
    """A scaling with its rope_type and what that needs, or may have."""
    said = one(
        {"rope_type": kind}, {"rope_type": kind}, {"type": kind}, {"rope_type": kind, "type": kind}
    )
    factor = {"factor": one(2.0, 4, 1.0, 3.5)}
    if kind == "linear":
        return said | factor
    if kind == "dynamic":
        return said | factor | {"original_max_position_embeddings": seldom(8)}
    if kind == "llama3":
        return (
            said | factor | {"low_freq_factor": one(1.0, 1, 0.5), "high_freq_factor": one(4.0, 2)}
        )
    if kind == "yarn":
        more = {
            "beta_fast": one(ABSENT, 32, 4.0, 2),
            "beta_slow": one(ABSENT, 1, 0.25),
            "attention_factor": one(ABSENT, ABSENT, 1.2),
            "truncate": one(ABSENT, ABSENT, True, seldom(one(False, None), 2)),
            "mscale": seldom(0.7),
        }
        return said | factor | more
    if kind == "longrope":
        more = {
            "short_factor": [1.0 + one(0, 0.1) * i for i in range(head // 2)],
            "long_factor": [1.0 + one(0.5, 1) * i for i in range(head // 2)],
            "attention_factor": one(ABSENT, 1.2, 1.2),
        }
        return said | more | one(factor, {}, {"factor": 1.0})
    return said if one(True, False) else {"rope_type": "default"}


if __name__ == "__main__":
    main()
