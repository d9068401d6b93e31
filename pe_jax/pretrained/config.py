"""The config.json of HuggingFace's libraries: `described` reads a Llama, Mistral, Qwen2, Qwen3,
Phi-3, OLMo 2 or 3, SmolLM3, Gemma 3, GPT-NeoX (Pythia) or ModernBERT, `rope_parameters` writes a
scaling of RoPE.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pe_jax.encoding import Encoding
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.longrope import LongRoPE
from pe_jax.encodings.ntk import NTK
from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.scaled import Scaled
from pe_jax.encodings.yarn import YaRN
from pe_jax.fields import Count, Fraction, Natural, NotNegative, Positive, check_value, fits, hints
from pe_jax.model.config import LmConfig
from pe_jax.specs.parse import Spec, layers_of

NO_MATTER = frozenset(
    "architectures attention_dropout _attn_implementation_autoset auto_map bos_token_id "
    "cache_implementation classifier_dropout classifier_pooling cls_token_id "
    "deterministic_flash_attn dtype embd_pdrop embedding_dropout eos_token_id "
    "gradient_checkpointing hidden_dropout initializer_cutoff_factor initializer_range is_decoder "
    "is_llama_config mlp_dropout model_type _name_or_path name_or_path pad_token_id "
    "pretraining_tp reference_compile repad_logits_with_grad resid_pdrop sep_token_id "
    "sparse_pred_ignore_index sparse_prediction tokenizer_class torch_dtype "
    "transformers.js_config transformers_version unk_token_id unsloth_fixed unsloth_version "
    "use_cache".split()
)
"""Fields without effect on the logits of a text."""


@dataclasses.dataclass(frozen=True)
class Described:
    """A model in the terms of this package."""

    family: str
    """model_type, which decides the names of tensors."""
    lm: LmConfig
    spec: Spec
    length: int
    """Training length in tokens: max_position_embeddings."""

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """For its shape and length."""
        return self.spec.encodings(self.lm.dims(self.length))


def described(config: Any) -> Described:
    """The model of a config.json. ValueError for an unknown family, a missing or unknown field, and
    a value without a counterpart in this package.
    """
    fields = _Fields(config)
    family = fields.read("model_type", hint=Literal[*FAMILIES])
    shape = {ours: fields.read(theirs) for ours, theirs in SHAPE.items()}
    length = fields.read("max_position_embeddings")
    more, members = FAMILIES[family](family, fields, shape, length)  # fields of LmConfig, encodings
    fields.finish()
    try:
        spec = Spec.of((name, ENCODINGS[name], values) for name, values in members)
        out = Described(family, LmConfig(**shape, **more), spec, length)
        _ = out.encodings  # which check numbers against each other
    except ValueError as error:
        names = {f"lm.{ours}": theirs for ours, theirs in SHAPE.items()}
        names |= {"lm.kv_heads": "num_key_value_heads"} | {v: k for k, v in NUMBERS.items()}
        words = dict.fromkeys(re.findall(r"\w+(?:\.\w+)*", str(error)))
        legend = ", ".join(f"{word} is {names[word]}" for word in words if word in names)
        raise ValueError(f"config.json: {error} ({legend})") from None
    return out


class _Fields:
    """The fields of a config.json; each must be read."""

    def __init__(self, config: Any, within: str = ""):
        if not isinstance(config, Mapping):
            name = f"config.json {within}".rstrip(" .")
            raise ValueError(f"{name} must be an object, {{...}}, got {config!r:.40}")
        self.left, self.within = dict(config), within

    def read(self, name: str, *default: Any, hint: Any = Count) -> Any:
        """The value of a field, checked by the annotation `hint`; the first default if it is
        missing, the last if it is null. An integer may be written as 16.0.
        """
        value = self.left.pop(name, default[0] if default else None)
        if value is None and not default:
            raise ValueError(f"config.json lacks {self.within}{name}")
        value = default[-1] if value is None else value
        value = tuple(value) if isinstance(value, list) else value
        if isinstance(value, float) and value.is_integer() and not fits(value, hint):
            value = int(value)
        if value is not None:
            check_value(value, hint, f"config.json {self.within}{name}")
        return value

    def inside(self, name: str) -> _Fields:
        """The fields of an object; none if it is missing or null."""
        return _Fields(self.read(name, {}, hint=Any), f"{self.within}{name}.")

    def must(self, name: str, *allowed: Any) -> None:
        """ValueError unless a field is missing or has an allowed value."""
        value = self.left.pop(name, allowed[0])
        if value not in allowed:
            wanted = " or ".join(map(repr, allowed))
            raise ValueError(
                f"config.json has {self.within}{name}={value!r}; only {wanted} can be read here"
            )

    def finish(self) -> None:
        """ValueError for a field that was not read and is not null."""
        there = {name for name, value in self.left.items() if value is not None}
        if left := sorted(there - NO_MATTER):
            values = ", ".join(f"{self.within}{name}={self.left[name]!r}" for name in left)
            raise ValueError(f"config.json has fields that are not understood: {values}")


def _llama(family: str, fields: _Fields, shape: dict, length: int) -> tuple[dict, list]:
    model, heads, layers = (shape[name] for name in ("model", "heads", "layers"))
    fields.must("hidden_act", "silu")
    fields.must("rope_interleaved", False, None)
    fields.must("use_mrope", False, None)
    head = fields.read("head_dim", 128 if family == "qwen3" else model // heads)
    more = {
        "head": head,
        "kv_heads": fields.read("num_key_value_heads", KV_HEADS.get(family, heads), heads),
        "activation": "silu",
        "gated": True,
        "biases": _biases(family, fields),
        "norm": "after" if family.startswith("olmo") else "rms",
        "norm_eps": fields.read("rms_norm_eps", hint=Positive),
        "qk_norm": {"qwen3": True, "olmo2": "heads", "olmo3": "heads"}.get(family, False),
        "tie_embeddings": fields.read("tie_word_embeddings", family == "smollm3", hint=bool),
        "embed_std": model**-0.5,  # at which tied embeddings are not scaled
    }
    default = {"phi3": None, "smollm3": None}.get(family, 4096)
    window = fields.read("sliding_window", default, None) if family in WINDOWED else None
    if family == "olmo3":
        usual = _every(4, layers, 3)
        return more, _by_layers(family, fields, usual, head, length, window, OLMO3, OLMO3)
    first, turned = 0, [*range(layers)]
    if family.startswith("qwen") or family == "smollm3":
        first = fields.read("max_window_layers", 28, hint=Natural)
        window = window if fields.read("use_sliding_window", False, hint=bool) else None
    if family == "smollm3":  # which passes over max_window_layers
        first, turned = 0, _turned(fields, layers)
    windowed = [i for i in range(layers) if i >= first and (family != "smollm3" or i not in turned)]
    kinds = [KINDS[window is not None and i in windowed] for i in range(layers)]
    if family in ("mistral", "phi3"):  # HuggingFace's library goes by sliding_window
        fields.must("layer_types", kinds, None)
    if family == "phi3":
        for name, value in (("full_attn_mod", 1), ("interpolate_factor", 1), ("lm_head_bias", 0)):
            fields.must(name, value, None)
    near = _near(family, fields, kinds, window)
    base = {"smollm3": 2e6}.get(family, 1e4)
    rotary = _rotary(family, fields, _scaling(fields), head, length, ("rope_theta", base))
    members = [(turned, rotary), (near, ("window", {"window": window}))]
    return more, _in_layers(members, layers)


# The layers of a SmolLM3 that turn queries and keys: by default three of four.
def _turned(fields: _Fields, layers: int) -> list[int]:
    period = fields.read("no_rope_layer_interval", 4)
    usual = [int((i + 1) % period > 0) for i in range(layers)]
    marks = fields.read("no_rope_layers", usual, hint=tuple[Literal[0, 1], ...])
    if len(marks) != layers or not any(marks):
        raise ValueError(
            f"config.json has no_rope_layers={[*marks]} for {layers} layers: it needs a 1 (turned) "
            "or 0 for each, and a 1"
        )
    return [i for i, mark in enumerate(marks) if mark]


# The members that act in some layers, with these as a field where they are not all.
def _in_layers(members: Sequence[tuple[Sequence[int], tuple[str, dict]]], layers: int) -> list:
    return [
        (name, values | ({"layers": _ranges(here)} if len(here) < layers else {}))
        for here, (name, values) in members
        if here
    ]


def _biases(family: str, fields: _Fields) -> str:
    if family == "qwen2":
        return "qkv"
    attention, mlp = (fields.read(f"{n}_bias", False, hint=bool) for n in ("attention", "mlp"))
    if attention != mlp or (attention and family not in ("llama", "smollm3", "modernbert")):
        raise ValueError(
            f"config.json has attention_bias={attention} and mlp_bias={mlp}: this package has "
            "biases of all matrices of a Llama's layer, of queries, keys and values alone, or none"
        )
    return "all" if attention else ""


# The layers with a window, by layer_types or the usual ones.
def _near(family: str, fields: _Fields, usual: list[str], window: int | None) -> list[int]:
    kinds = fields.read("layer_types", usual, hint=tuple[Literal[*KINDS], ...])
    near = [i for i, kind in enumerate(kinds) if kind == KINDS[1]]
    mixed = 0 < len(near) < len(kinds) and family not in MIXED
    if mixed or len(kinds) != len(usual) or (near and window is None):
        raise ValueError(
            f"config.json has layer_types={kinds} (by default of max_window_layers), "
            f"sliding_window={window} and {len(usual)} layers: all of them have a window or none, "
            "but of a Gemma 3, OLMo 3, SmolLM3 or ModernBERT"
        )
    return near


# Most layers have a window and another base, every sixth has neither.
def _gemma3(family: str, fields: _Fields, shape: dict, length: int) -> tuple[dict, list]:
    layers, head = shape["layers"], fields.read("head_dim", 256)
    more = {
        "head": head,
        "kv_heads": fields.read("num_key_value_heads"),
        "activation": "gelu",
        "gated": True,
        "norm": "sandwich",
        "norm_eps": fields.read("rms_norm_eps", 1e-6, hint=Positive),
        "qk_norm": True,
        "tie_embeddings": True,
    }
    fields.must("hidden_activation", "gelu_pytorch_tanh")
    fields.must("tie_word_embeddings", True)
    if (scale := fields.read("query_pre_attn_scalar", 256)) != head:
        raise ValueError(
            f"config.json has query_pre_attn_scalar={scale} and heads of {head}: this package "
            "divides the logits of attention by the root of the size of a head"
        )
    fields.must("attention_bias", False)
    fields.must("use_bidirectional_attention", False, None)
    for name in ("final_logit_softcapping", "attn_logit_softcapping", ORIGINAL):
        fields.must(name, None)
    window = fields.read("sliding_window", 4096, None)
    period = fields.read("sliding_window_pattern", 6)
    if fields.left.get("layer_types") is None:  # else it says nothing
        fields.must("_sliding_window_pattern", period, None)
    fields.read("_sliding_window_pattern", None)
    bases = ("rope_theta", 1e6), ("rope_local_base_freq", 1e4)
    usual = _every(period, layers, period - 1)
    return more, _by_layers(family, fields, usual, head, length, window, *bases)


# The kinds of layers: number `first` and every `period`-th from there have no window.
def _every(period: int, layers: int, first: int) -> list[str]:
    return [KINDS[(i - first) % period > 0] for i in range(layers)]


# The members of a model in which most layers have a window, by default as in `usual`. A scaling is
# of the layers without a window.
def _by_layers(
    family: str,
    fields: _Fields,
    usual: list[str],
    head: int,
    length: int,
    window: int | None,
    far_base: tuple[str, float],
    near_base: tuple[str, float],
) -> list:
    layers, near = len(usual), _near(family, fields, usual, window)
    far = [i for i in range(layers) if i not in near]
    scaling, parts = fields.inside("rope_scaling").left, fields.inside("rope_parameters")
    of_far, of_near = parts.inside("full_attention"), parts.inside("sliding_attention")
    parts.finish()
    if scaling:
        own = {**of_far.left} or {"rope_type": "default"}
        for name, value in scaling.items():
            of_far.must(name, value, "default")
        of_far = _Fields(own | scaling, "rope_scaling.")
    if far_base == near_base and near:  # programs differ in the layers that it is of
        fields.must(far_base[0], of_near.left.get(far_base[0], far_base[1]), None)
    members = [
        (far, _rotary(family, fields, of_far, head, length, far_base)),
        (near, _rotary(family, fields, of_near, head, length, near_base)),
        (near, ("window", {"window": window})),
    ]
    return _in_layers(members, layers)


# Ascending numbers as slices and single ones: "0:5,6:11" or "5,11".
def _ranges(numbers: Sequence[int]) -> str:
    by_offset = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in run] for _, run in by_offset]
    return ",".join(f"{r[0]}:{r[-1] + 1}" if len(r) > 1 else str(r[0]) for r in runs)


def _gpt_neox(family: str, fields: _Fields, shape: dict, length: int) -> tuple[dict, list]:
    fields.must("attention_bias", True)
    more = {
        "activation": ACTS[fields.read("hidden_act", "gelu", hint=Literal[*ACTS])],
        "parallel": fields.read("use_parallel_residual", True, hint=bool),
        "biases": "all",
        "norm": "layer",
        "norm_eps": fields.read("layer_norm_eps", 1e-5, hint=Positive),
        "tie_embeddings": fields.read("tie_word_embeddings", False, hint=bool),
        "embed_std": shape["model"] ** -0.5,
    }
    head = shape["model"] // shape["heads"]
    base = "rotary_emb_base", 1e4
    return more, [_rotary(family, fields, _scaling(fields), head, length, base)]


# An encoder: the first of three layers has no window and a base of its own. A window of an even
# number of tokens has half of them on each side of a query.
def _modernbert(family: str, fields: _Fields, shape: dict, length: int) -> tuple[dict, list]:
    model, layers = shape["model"], shape["layers"]
    activation = fields.read("hidden_activation", "gelu", hint=Literal[*ACTS])
    more = {
        "activation": ACTS[activation],
        "gated": True,
        "biases": _biases(family, fields),
        "norm": "embedded",
        "norm_eps": fields.read("norm_eps", 1e-5, hint=Positive),
        "masked_head": True,
        "causal": False,
        "tie_embeddings": fields.read("tie_word_embeddings", True, hint=bool),
        "embed_std": model**-0.5,
    }
    fields.left.setdefault("classifier_activation", "gelu")
    for name, value in (
        ("classifier_activation", activation),
        ("classifier_bias", False),
        ("decoder_bias", True),
        ("norm_bias", False),
    ):
        fields.must(name, value)
    for name, value in (
        ("layer_norm_eps", more["norm_eps"]),  # of early ones, which nothing reads, as the next
        ("position_embedding_type", "absolute"),
        ("rope_scaling", {}),  # which would be of all layers, as the next
        ("partial_rotary_factor", 1.0),
    ):
        fields.must(name, value, None)
    fields.must(ORIGINAL, None)
    window = fields.read("local_attention", 128) // 2 + 1
    usual = _every(fields.read("global_attn_every_n_layers", 3), layers, 0)
    bases = ("global_rope_theta", 1.6e5), ("local_rope_theta", 1e4)
    head = model // shape["heads"]
    return more, _by_layers(family, fields, usual, head, length, window, *bases)


# The numbers of a rotation: rope_parameters, or before transformers 5 rope_scaling.
def _scaling(fields: _Fields) -> _Fields:
    older, newer = fields.inside("rope_scaling"), fields.inside("rope_parameters")
    if older.left and newer.left and older.left != newer.left:
        raise ValueError(
            f"config.json has rope_scaling={older.left!r} and rope_parameters={newer.left!r}, and "
            "programs differ in which they read: leave one"
        )
    return older if older.left else newer


# The value of a field with several names. ValueError if two differ, since programs read one or the
# other.
def _agreed(usual: Any, hint: Any, *places: tuple[_Fields, str]) -> Any:
    said = {f"{own.within}{name}": own.read(name, None, hint=hint) for own, name in places}
    given = {name: value for name, value in said.items() if value is not None}
    value = next(iter(given.values()), usual)
    if any(other != value for other in given.values()):
        both = " and ".join(f"{name}={other!r}" for name, other in given.items())
        raise ValueError(f"config.json has {both}: leave one, or make them equal")
    return value


# (the rotation, its fields). `base`: the name of the base outside of the scaling, and its default.
def _rotary(
    family: str, fields: _Fields, scaling: _Fields, head: int, length: int, base=("rope_theta", 1e4)
) -> tuple[str, dict[str, Any]]:
    neox, in_part = family == "gpt_neox", family in PARTLY
    theta = _agreed(base[1], Positive, (scaling, "rope_theta"), (fields, base[0]))
    fields.must("rope_theta" if neox else "rotary_emb_base", theta, None)  # read by others
    share, usual = ("rotary_pct", 0.25) if neox else ("partial_rotary_factor", 1.0)
    part = _agreed(usual, Fraction, (scaling, "partial_rotary_factor"), (fields, share))
    fields.must("partial_rotary_factor", part, None)
    kinds = ("default", "longrope", "su") if family == "phi3" else tuple(SCALINGS)
    kind = _agreed("default", Literal[*kinds], (scaling, "rope_type"), (scaling, "type"))
    kind = "longrope" if kind == "su" else kind  # of early Phi-3
    # without a scaling other families turn all of a head, whatever the field says
    turned = int(head * part) if in_part or kind != "default" else head
    if turned % 2 or not turned or (turned < head and not in_part):
        raise ValueError(
            f"config.json turns {turned} of the {head} components of a head by {share} {part} and "
            f"the rope_type {kind}: an even number turns, and all but in {' and '.join(PARTLY)}"
        )
    name, needed, more = SCALINGS[kind]
    values: dict[str, Any] = {"base": float(theta)}
    if turned < head:
        values["rotary_pct"] = part
    if family == "phi3" and kind == "longrope":  # which HuggingFace's library takes first
        fields.left.setdefault(ORIGINAL, 4096)
    original = _agreed(None, Count, (fields, ORIGINAL), (scaling, ORIGINAL))
    scaling.left |= {ORIGINAL: original} if ORIGINAL in needed + more else {}  # others pass over it
    values |= {"length": length} if kind == "dynamic" else {}  # max_position_embeddings
    if kind != "yarn" or family in LAYERED:  # HuggingFace's library looks elsewhere
        scaling.must("truncate", True)
    elif scaling.left.get("truncate", True) is None:  # which it takes for false
        scaling.must("truncate", True, False)
    for theirs in needed + more:
        ours = NUMBERS[theirs]
        default = () if theirs in needed else (length if theirs == ORIGINAL else None,)
        value = scaling.read(theirs, *default, hint=hints(ENCODINGS[name])[ours])
        values |= {} if value is None else {ours: value}
    if kind == "longrope":
        values.setdefault("factor", max(1.0, length / values["length"]))
    if kind == "yarn" and "attention_factor" not in values:
        slopes = [scaling.read(name, 0.0, hint=NotNegative) for name in MSCALES]
        if all(slopes):
            turns, every = (
                0.1 * slope * math.log(max(1, values["factor"])) + 1 for slope in slopes
            )
            values["attention_factor"] = turns / every
        elif any(slopes):
            raise ValueError(
                f"config.json has {MSCALES[0]}={slopes[0]} and {MSCALES[1]}={slopes[1]}, of which "
                "programs read one alone in different ways: leave both, or neither"
            )
    usual = 0.1 * math.log(values.get("factor", 1.0)) + 1
    if kind == "yarn" and math.isclose(values.get("attention_factor", 0.0), usual):
        del values["attention_factor"]  # which YaRN has at any factor
    scaling.finish()
    return name, values


SHAPE = {
    "vocab": "vocab_size",
    "layers": "num_hidden_layers",
    "model": "hidden_size",
    "heads": "num_attention_heads",
    "mlp": "intermediate_size",
}
"""{field of LmConfig: its name in a config.json} of all families."""

KV_HEADS = {"mistral": 8, "qwen2": 32, "qwen3": 32, "smollm3": 4}
"""Defaults of num_key_value_heads; of others num_attention_heads."""

WINDOWED = "mistral", "qwen2", "qwen3", "phi3", "olmo3", "smollm3"
"""Families of `_llama` that may have a window."""
MIXED = "gemma3_text", "olmo3", "smollm3", "modernbert"
"""Families that may have a window in a part of the layers."""
PARTLY = "gpt_neox", "phi3"
"""Families that may turn a part of each head."""
OLMO3 = "rope_theta", 5e5
"""The name and default of the base of an OLMo 3."""
MSCALES = "mscale", "mscale_all_dim"

ACTS = {"gelu": "gelu_erf", "gelu_new": "gelu", "gelu_fast": "gelu", "relu": "relu"}
"""{name of an activation: ours}."""
KINDS = "full_attention", "sliding_attention"
ORIGINAL = "original_max_position_embeddings"
LAYERED = "gemma3_text", "olmo3", "modernbert"  # layers with a window have a rotation of their own

NUMBERS = {
    "rope_theta": "base",
    "factor": "factor",
    ORIGINAL: "length",
    "beta_fast": "beta",
    "beta_slow": "alpha",
    "low_freq_factor": "low",
    "high_freq_factor": "high",
    "short_factor": "short",
    "long_factor": "long",
    "attention_factor": "attention_factor",
    "truncate": "truncate",
}
"""{number of a scaling: the field of its encoding}."""

SCALINGS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "default": ("rope", (), ()),
    "linear": ("pi", ("factor",), ()),
    "dynamic": ("dynamic_ntk", ("factor",), ()),
    "longrope": (
        "longrope",
        ("short_factor", "long_factor"),
        ("factor", ORIGINAL, "attention_factor"),
    ),
    "llama3": ("llama3", ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor"), ()),
    "yarn": (
        "yarn",
        ("factor",),
        (ORIGINAL, "beta_fast", "beta_slow", "attention_factor", "truncate"),
    ),
}
"""For each rope_type its encoding, and the numbers that must and may be set."""

FAMILIES = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "phi3": _llama,
    "olmo2": _llama,
    "olmo3": _llama,
    "smollm3": _llama,
    "gemma3_text": _gemma3,
    "gpt_neox": _gpt_neox,
    "modernbert": _modernbert,
}

# Writing


def rope_parameters(encodings: Sequence[Encoding], own: Sequence[Encoding] = ()) -> dict[str, Any]:
    """rope_type, rope_theta and the numbers of the first of these encodings, made for a length.
    `own` are the model's encodings; its config.json has the others already, as the windows of
    Mistral and Gemma. ValueError for encodings without a rope_type.
    """
    e, *others = encodings
    if not isinstance(e, Rotary) or others != [*own[1:]]:
        names = " and ".join(type(e).__name__ for e in encodings)
        raise ValueError(
            f"config.json can say another rotation alone, not {names}: it needs own code"
        )
    if layers_of(e) != (layers_of(own[0]) if own else [*range(e.dims.layers)]):
        raise ValueError(
            "config.json scales RoPE in all layers, or in all without a window: other layers need "
            "own code"
        )
    if e.rotary_pct != (getattr(own[0], "rotary_pct", 1.0) if own else 1.0):
        raise ValueError(
            f"config.json scales the part of a head that turns, and rotary_pct={e.rotary_pct} is "
            "another: it needs own code"
        )
    if isinstance(e, NTK):
        size = e._size
        return {"rope_type": "default", "rope_theta": e.base * e._factor ** (size / (size - 2))}
    kinds = {ENCODINGS[name]: kind for kind, (name, *_) in SCALINGS.items()}
    alone = getattr(e, "attention_factor", None) or e._size < e.dims.head  # else the two cancel
    of_all = alone and getattr(e, "mscale_all_dim", 0)
    paper = getattr(e, "variant", "code") == "paper"
    if type(e) not in kinds or paper or of_all or getattr(e, "first", 0):
        raise ValueError(f"no rope_type of config.json is {type(e).__name__}: it needs own code")
    numbers: dict[str, Any] = {**vars(e)}
    if isinstance(e, Scaled):
        numbers |= {"factor": float(e._factor), "length": e._length}
    if isinstance(e, YaRN) and e.mscale != 0.1:
        numbers["attention_factor"] = e.attention_factor or e.mscale * math.log(e._factor) + 1
    if isinstance(e, YaRN) and e.truncate:
        numbers["truncate"] = None
    if isinstance(e, LongRoPE):
        pairs = e._size // 2
        numbers["short"] = [*(e.short or pairs * [1.0])]
        numbers["long"] = [*(e.long or pairs * [e._factor])]
    _, needed, more = SCALINGS[kinds[type(e)]]
    written = {theirs: numbers[NUMBERS[theirs]] for theirs in needed + more}
    written |= {"rope_theta": float(e.base), "rope_type": kinds[type(e)]}
    return {name: value for name, value in written.items() if value is not None}
