"""What programs serve of a scaling: the same numbers at every length, or numbers that follow the
length of the text.

The sources, read in November 2026: modeling_rope_utils.py of transformers 5.24 (dynamic_rope_update
computes `dynamic` and `longrope` anew for each text, all else once); rotary_embedding/ of vLLM
(each rope_type makes one table of cosines; `dynamic` has the base of the longest text at every
length, and `longrope` the long factors wherever --max-model-len is beyond the original length, vLLM
PR 53964 and issue 8793); SGLang's layers/rotary_embedding.py, of the same code but for `longrope`,
which goes by the positions of a batch (sglang issue 6030); llama.cpp's convert_hf_to_gguf.py and
src/llama-context.cpp (`linear`, `yarn` with YaRN's own temperature alone, a base: all three held
against its logits; `llama3` of models trained at 8,192 tokens alone; `longrope` by the context).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax.encoding import Encoding
from pe_jax.encodings.scaled import Scaled
from pe_jax.pretrained.config import rope_parameters
from pe_jax.specs.parse import Spec, parse
from pe_jax.specs.swap import swap

ALL = "default", "linear", "llama3", "yarn"
PROGRAMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "transformers": (ALL, ("dynamic", "longrope")),
    "vllm": (ALL, ()),
    "sglang": (ALL, ()),
    "llama.cpp": (("default", "linear", "yarn"), ()),
}
"""For each program the values of rope_type that it serves in one form at every length, and those by
the length of the text."""
UNREAD = {
    "attention_factor": ("sglang", "llama.cpp"),
    "truncate": ("llama.cpp",),
    "rotary_emb_base": ("llama.cpp",),  # whose converter writes no base of a GPT-NeoX
}
"""Fields of config.json, each with the programs that pass over it."""


def programs(encodings: Sequence[Encoding], scaling: Mapping[str, Any], length: int) -> list[str]:
    """The programs that serve these encodings at every length up to `length` as they are scored, by
    the fields `scaling` of config.json, inside rope_parameters (of layers without a window) or
    rope_scaling, or next to them.
    """
    fields = dict(scaling.get("rope_scaling") or scaling.get("rope_parameters") or {})
    fields = fields.get("full_attention", fields)
    kind = fields.get("rope_type", "default")
    by_length = any(e.at(1) != e.at(length) for e in encodings)
    served = [name for name, kinds in PROGRAMS.items() if kind in kinds[by_length]]
    unread = {name for field in (*scaling, *fields) for name in UNREAD.get(field, ())}
    return [name for name in served if name not in unread]


def fixed(own: tuple[Encoding, ...], spec: str, length: int) -> str | None:
    """A swap with the factor that `length` needs at every length, as config.json has it; None where
    the swap has its factor, needs none at that length, or config.json cannot say it. A scaling that
    the model has already gets its factor times `length` over the tokens that it reaches so far.
    """
    made, members = swap(own, spec), parse(spec).members
    try:
        rope_parameters([e.at(length) for e in made], own)
    except ValueError:
        return None
    new = next((e for e in made if isinstance(e, members[0].cls)), None)
    if not isinstance(new, Scaled) or (new.factor is not None and new not in own):
        return None
    factor = new.at(length).factor or 1.0
    if new.factor is not None:
        factor *= length / max(new.dims.train_len, factor * (new.length or 0))
    grows = factor > (new.factor or 1)
    return str(Spec((members[0].with_fields({"factor": factor}),))) if grows else None
