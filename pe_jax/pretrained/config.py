"""The description of a model in a HuggingFace config.json, of Llama, Mistral, Qwen2, Qwen3, Gemma 3
and GPT-NeoX (Pythia), as the model and the encodings of this package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pe_jax.errors import nearest
from pe_jax.fields import Count, Positive, check_value
from pe_jax.model.config import LmConfig

NO_MATTER = frozenset(
    "architectures _attn_implementation_autoset attention_dropout auto_map bos_token_id "
    "cache_implementation classifier_dropout dtype eos_token_id gradient_checkpointing "
    "hidden_dropout initializer_range is_decoder is_llama_config model_type _name_or_path "
    "name_or_path pad_token_id pretraining_tp tokenizer_class torch_dtype transformers.js_config "
    "transformers_version unk_token_id unsloth_fixed unsloth_version use_cache".split()
)
"""Fields that decide nothing of the logits of a given text."""


@dataclasses.dataclass(frozen=True)
class Described:
    """A model as this package builds it."""

    family: str
    """model_type: it decides the names of the tensors."""
    lm: LmConfig
    spec: str
    """Its encodings."""
    length: int
    """Tokens for which it was trained: its max_position_embeddings."""


def described(config: Any) -> Described:
    """What a config.json describes. ValueError for a family that is not known, a field that is
    missing or not understood, and a value that this package has no counterpart for.
    """
    fields = _Fields(config)
    family = str(config.get("model_type", ""))
    if family not in FAMILIES:
        raise ValueError(
            f"model_type {family!r} cannot be read{nearest(family, FAMILIES)} "
            f"Known: {', '.join(FAMILIES)}."
        )
    out = FAMILIES[family](family, fields)
    fields.finish()
    return out


class _Fields:
    """The fields of a config.json, of which none may be left over."""

    def __init__(self, config: Any, within: str = ""):
        if not isinstance(config, Mapping):
            name = f"config.json {within}".rstrip(" .")
            raise ValueError(f"{name} must be an object, {{...}}, got {config!r:.40}")
        self.left, self.within = dict(config), within

    def take(self, name: str, *default: Any) -> Any:
        """The value of a field; `default` where it is missing or null."""
        value = self.left.pop(name, None)
        if value is None and not default:
            raise ValueError(f"config.json lacks {self.within}{name}")
        return default[0] if value is None else value

    def number(self, name: str, *default: Any, hint: Any = Count) -> Any:
        """`take` of a number. ValueError unless it is as the annotation `hint` says."""
        value = self.take(name, *default)
        check_value(value, hint, f"config.json {self.within}{name}")
        return value

    def must(self, name: str, *allowed: Any) -> None:
        """ValueError unless a field is missing, null, or has one of the allowed values."""
        value = self.take(name, allowed[0])
        if value not in allowed:
            wanted = " or ".join(map(repr, allowed))
            raise ValueError(
                f"config.json has {self.within}{name}={value!r}; this package has {wanted} alone"
            )

    def finish(self) -> None:
        """ValueError if a field was not looked at, but for one that is null."""
        there = {name for name, value in self.left.items() if value is not None}
        if left := sorted(there - NO_MATTER):
            values = ", ".join(f"{self.within}{name}={self.left[name]!r}" for name in left)
            raise ValueError(f"config.json has fields that are not understood: {values}")


def _llama(family: str, fields: _Fields) -> Described:
    heads, model = fields.number("num_attention_heads"), fields.number("hidden_size")
    tied = fields.take("tie_word_embeddings", False)
    length = fields.number("max_position_embeddings")
    fields.must("hidden_act", "silu")
    fields.must("rope_interleaved", False)
    fields.must("use_mrope", False)
    lm = LmConfig(
        vocab=fields.number("vocab_size"),
        layers=fields.number("num_hidden_layers"),
        model=model,
        heads=heads,
        head=fields.number("head_dim", 128 if family == "qwen3" else model // heads),
        kv_heads=fields.number("num_key_value_heads", heads),
        mlp=fields.number("intermediate_size"),
        activation="silu",
        gated=True,
        biases=_biases(family, fields),
        norm_eps=fields.number("rms_norm_eps", hint=Positive),
        qk_norm=family == "qwen3",
        tie_embeddings=tied,
        embed_std=model**-0.5,  # at which tied embeddings are not scaled
    )
    spec = _rotary(family, fields, length)
    if family == "mistral":
        usual = 0 if "sliding_window" in fields.left else 4096  # null: no window
        if window := fields.take("sliding_window", usual):
            spec = f"{spec}+window(window={window})"
    _no_window(family, fields)
    return Described(family, lm, spec, length)


def _biases(family: str, fields: _Fields):
    """Which matrices add a bias: lm.biases."""
    if family == "qwen2":
        return "qkv"
    attention, mlp = fields.take("attention_bias", False), fields.take("mlp_bias", False)
    if attention != mlp:
        raise ValueError(
            f"config.json has attention_bias={attention} and mlp_bias={mlp}: this package has "
            "biases of all matrices of a layer, of queries, keys and values alone, or none"
        )
    return "all" if attention else ""


def _no_window(family: str, fields: _Fields) -> None:
    """Refuses layers of which some have a window and some have none."""
    if family.startswith("qwen"):
        fields.must("use_sliding_window", False)
        fields.take("sliding_window", None)  # which it then does not use
        fields.take("max_window_layers", None)
    kinds = fields.take("layer_types", [])
    usual = "sliding_attention" if family == "mistral" else "full_attention"
    if not isinstance(kinds, list) or any(kind != usual for kind in kinds):
        raise ValueError(
            f"config.json has layer_types={kinds!r}: of this family only layers of {usual} can be "
            "read"
        )


def _gemma3(family: str, fields: _Fields) -> Described:
    """Gemma 3: most layers have a window and a base of their own, every sixth has neither."""
    layers, head = fields.number("num_hidden_layers"), fields.number("head_dim", 256)
    length = fields.number("max_position_embeddings", 131072)
    lm = LmConfig(
        vocab=fields.number("vocab_size", 262208),
        layers=layers,
        model=fields.number("hidden_size"),
        heads=fields.number("num_attention_heads"),
        head=head,
        kv_heads=fields.number("num_key_value_heads"),
        mlp=fields.number("intermediate_size"),
        activation="gelu",
        gated=True,
        norm="sandwich",
        norm_eps=fields.number("rms_norm_eps", 1e-6, hint=Positive),
        qk_norm=True,
        tie_embeddings=True,
    )
    fields.must("hidden_activation", "gelu_pytorch_tanh")
    fields.must("tie_word_embeddings", True)
    if (scale := fields.take("query_pre_attn_scalar", 256)) != head:
        raise ValueError(
            f"config.json has query_pre_attn_scalar={scale} and heads of {head}: this package "
            "divides the logits of attention by the root of the size of a head"
        )
    fields.must("attention_bias", False)
    fields.must("use_bidirectional_attention", False, None)
    for name in ("final_logit_softcapping", "attn_logit_softcapping"):
        fields.must(name, None)
    window = fields.number("sliding_window", 4096)
    period = fields.number("sliding_window_pattern", 6)
    period = fields.number("_sliding_window_pattern", period)
    usual = [f"{'full' if (i + 1) % period == 0 else 'sliding'}_attention" for i in range(layers)]
    kinds = fields.take("layer_types", usual)
    listed = kinds if isinstance(kinds, list) else []
    near = [i for i, kind in enumerate(listed) if kind == "sliding_attention"]
    far = [i for i, kind in enumerate(listed) if kind == "full_attention"]
    if not near or not far or len(near) + len(far) != layers or len(listed) != layers:
        raise ValueError(
            f"config.json has layer_types={kinds!r}: of the {layers} layers of a Gemma 3 each is "
            "sliding_attention or full_attention, and there are both"
        )
    far_base = fields.number("rope_theta", 1e6, hint=Positive)
    near_base = fields.number("rope_local_base_freq", 1e4, hint=Positive)
    scaling = _Fields(fields.take("rope_scaling", {}), "rope_scaling.").left
    parts = _Fields(fields.take("rope_parameters", {}), "rope_parameters.")
    of_far, of_near = (parts.take(f"{kind}_attention", {}) for kind in ("full", "sliding"))
    parts.finish()
    far_rope, near_rope = (
        _rotary(family, _Fields({"rope_theta": base, "rope_parameters": own}), length)
        for base, own in ((far_base, _Fields(of_far).left | scaling), (near_base, of_near))
    )
    local = f"[{_ranges(near)}]"
    spec = f"{far_rope}[{_ranges(far)}]+{near_rope}{local}+window(window={window}){local}"
    return Described(family, lm, spec, length)


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers as slices and single ones: "0:5,6:11" or "5,11"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{r[0]}:{r[-1] + 1}" if len(r) > 1 else str(r[0]) for r in runs)


def _gpt_neox(family: str, fields: _Fields) -> Described:
    model, length = fields.number("hidden_size"), fields.number("max_position_embeddings")
    activation = fields.take("hidden_act", "gelu")
    known: dict[str, Any] = {
        "gelu": "gelu_erf",
        "gelu_new": "gelu",
        "gelu_fast": "gelu",
        "relu": "relu",
    }
    if activation not in known:
        raise ValueError(f"config.json has hidden_act={activation!r}, known are {', '.join(known)}")
    fields.must("attention_bias", True)
    lm = LmConfig(
        vocab=fields.number("vocab_size"),
        layers=fields.number("num_hidden_layers"),
        model=model,
        heads=fields.number("num_attention_heads"),
        mlp=fields.number("intermediate_size"),
        activation=known[activation],
        parallel=fields.take("use_parallel_residual", True),
        biases="all",
        norm="layer",
        norm_eps=fields.number("layer_norm_eps", 1e-5, hint=Positive),
        tie_embeddings=fields.take("tie_word_embeddings", False),
        embed_std=model**-0.5,
    )
    return Described(family, lm, _rotary(family, fields, length), length)


def _rotary(family: str, fields: _Fields, length: int) -> str:
    """The spec of the rotation: in transformers 5 rope_parameters, before it rope_theta (of
    GPT-NeoX rotary_emb_base, whatever rope_theta says, and rotary_pct) and rope_scaling.
    """
    usual, neox = fields.take("rope_theta", 10000.0), fields.take("rotary_emb_base", None)
    base = usual if neox is None else neox
    part = fields.take("rotary_pct", 0.25 if family == "gpt_neox" else 1.0)
    part = fields.take("partial_rotary_factor", part)
    older, newer = fields.take("rope_scaling", {}), fields.take("rope_parameters", {})
    scaling = _Fields(older or newer, "rope_scaling." if older else "rope_parameters.")
    kind = str(scaling.take("rope_type", scaling.take("type", "default")))
    base = float(scaling.number("rope_theta", base, hint=Positive))
    part = scaling.take("partial_rotary_factor", part)
    if kind == "default" and family != "gpt_neox":
        part = 1.0  # HuggingFace turns whole heads there, whatever the field says
    if kind not in SCALINGS or (kind != "default" and part != 1.0):
        raise ValueError(
            f"config.json scales RoPE by {kind!r} with partial_rotary_factor {part}; known are "
            f"{', '.join(SCALINGS)}, and all but default turn whole heads"
        )
    name, needed, more = SCALINGS[kind]
    options = {"base": base}
    if part != 1.0:
        name, options = "partial_rope", options | {"rotary_pct": part}
    options |= {ours: scaling.take(theirs) for theirs, ours in needed.items()}
    for theirs, ours in more.items():
        value = scaling.take(theirs, length if ours == "length" else None)
        options |= {} if value is None else {ours: value}
    options = {n: tuple(v) if isinstance(v, list) else v for n, v in options.items()}
    if kind == "longrope":
        trained: Any = options["length"]
        field = f"config.json {scaling.within}original_max_position_embeddings"
        check_value(trained, Count, field)
        options.setdefault("factor", max(1.0, length / trained))
    scaling.must("truncate", True)
    if kind == "dynamic":  # counts from max_position_embeddings
        options["length"] = length
        scaling.take("original_max_position_embeddings", None)
    scaling.finish()
    written = ",".join(f"{key}={value!r}" for key, value in options.items())
    return f"{name}({written.replace(' ', '')})"  # in a spec nothing has a space


SCALINGS = {
    "default": ("rope", {}, {}),
    "linear": ("pi", {"factor": "factor"}, {}),
    "dynamic": ("dynamic_ntk", {"factor": "factor"}, {}),
    "longrope": (
        "longrope",
        {"short_factor": "short", "long_factor": "long"},
        {
            "factor": "factor",
            "attention_factor": "attention_factor",
            "original_max_position_embeddings": "length",
        },
    ),
    "llama3": (
        "llama3",
        {
            "factor": "factor",
            "low_freq_factor": "low",
            "high_freq_factor": "high",
            "original_max_position_embeddings": "length",
        },
        {},
    ),
    "yarn": (
        "yarn",
        {"factor": "factor"},
        {
            "beta_slow": "alpha",
            "beta_fast": "beta",
            "attention_factor": "attention_factor",
            "original_max_position_embeddings": "length",
        },
    ),
}
"""For each rope_type that can be read its encoding, and {their field: its name there} of the fields
that must be set and of the others.
"""

FAMILIES = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "gemma3_text": _gemma3,
    "gpt_neox": _gpt_neox,
}
