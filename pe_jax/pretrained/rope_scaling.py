"""Scalings of RoPE as HuggingFace's config.json writes them (`rope_scaling`, in transformers 5
`rope_parameters`), and which programs read each as it is. config.py reads what is written here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax.encoding import Encoding
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.dynamic_ntk import DynamicNTK
from pe_jax.encodings.longrope import LongRoPE
from pe_jax.encodings.ntk import NTK
from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.scaled import Scaled
from pe_jax.encodings.yarn import YaRN
from pe_jax.pretrained.config import NUMBERS, SCALINGS
from pe_jax.specs.parse import layers_of

ALL = ("transformers", "vLLM", "llama.cpp")
READ_BY: dict[str, tuple[str, ...]] = {
    **{kind: ALL for kind in ("default", "linear", "llama3", "yarn")},
    **{kind: ("transformers",) for kind in ("dynamic", "longrope")},
}
"""By rope_type the programs that compute it from config.json, llama.cpp after its conversion. vLLM
reads dynamic and longrope, too, but takes one base, or the factors of long texts, for all lengths;
of longrope llama.cpp's conversion of these families writes no factors."""


def read_by(scaling: Mapping[str, Any], own: Sequence[Encoding]) -> tuple[str, ...]:
    """READ_BY of a scaling of a model with these encodings. Of one with two bases, as Gemma 3,
    llama.cpp's conversion refuses every scaling but linear; llama3 it counts from 8,192 tokens,
    whatever config.json says. YaRN's attention_factor is not read by vLLM, and not known to be by
    llama.cpp's conversion.
    """
    kind, programs = scaling["rope_type"], [*READ_BY[scaling["rope_type"]]]
    refused = sum(isinstance(e, Rotary) for e in own) > 1 and kind not in ("default", "linear")
    if refused or (kind == "llama3" and scaling["original_max_position_embeddings"] != 8192):
        programs = [program for program in programs if program != "llama.cpp"]
    if kind == "yarn" and "attention_factor" in scaling:
        programs = ["transformers"]
    return tuple(programs)


def rope_parameters(encodings: Sequence[Encoding], own: Sequence[Encoding] = ()) -> dict[str, Any]:
    """What a config.json says of the first of these encodings, made for the length that is to be
    served: its rope_type, rope_theta and the numbers of the scaling. `own` are those of the model
    whose config.json it is, which says the others already, as the windows of Mistral and Gemma.
    ValueError for encodings that no rope_type stands for.
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
    return {"rope_theta": float(e.base), **_scaling(e)}


def _scaling(e: Rotary) -> dict[str, Any]:
    """The rope_type and its numbers; a rope_theta where it is not the base."""
    if isinstance(e, NTK):
        head = e.dims.head
        return {"rope_type": "default", "rope_theta": e.base * e._factor ** (head / (head - 2))}
    kinds = {ENCODINGS[name]: kind for kind, (name, *_) in SCALINGS.items()}
    if type(e) not in kinds or getattr(e, "variant", "code") == "paper" or getattr(e, "first", 0):
        raise ValueError(f"no rope_type of config.json is {type(e).__name__}: it needs own code")
    own: dict[str, Any] = {**vars(e)}
    if isinstance(e, Scaled):
        own |= {"factor": float(e._factor), "length": e._length}
    if isinstance(e, YaRN) and e.mscale != 0.1:
        own["attention_factor"] = e.attention_factor or e.mscale * math.log(e._factor) + 1
    if isinstance(e, LongRoPE):
        pairs = e.dims.head // 2
        own |= {"short": [*(e.short or pairs * [1.0])], "long": [*(e.long or pairs * [e._factor])]}
    _, needed, more = SCALINGS[kinds[type(e)]]
    said = {theirs: own[NUMBERS[theirs]] for theirs in needed + more}
    return {"rope_type": kinds[type(e)]} | {n: v for n, v in said.items() if v is not None}


def max_position_embeddings(e: Encoding, length: int) -> int:
    """What a config.json with this rotation, made for `length` tokens, says of its length. That is
    the length; dynamic NTK counts from it and grows beyond, so it is the length where that begins.
    """
    return e.length or e.dims.train_len if isinstance(e, DynamicNTK) else length
