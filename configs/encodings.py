"""All encodings and compositions of the literature, at the quickstart's size and four times its
steps: three seeds, trained at 64 bytes, evaluated at up to 1024.

    pe-jax sweep --config=configs/encodings.py --workdir=DIR --out=results/encodings

The learning rate is 9e-3, for some 27e-3 (HIGHER): of 54 of these specs an earlier run of this
study had 3e-3, 9e-3 and 27e-3 (its records are results/encodings/runs.jsonl of commit 2705e1bc),
and validation text of seed 0 at the training length was lowest at these. The others have 9e-3.

The text is `$PE_JAX_CORPORA/novels` where that variable is set, else the standard library. Members
that only change positions, hide keys or scale logits are combined with an encoding. Left out is
randomized+transformer_xl: at positions that are not consecutive it computes W_r R_n for every pair
and would take longer than all others together (`--also` adds it).
"""

import os

from pe_jax.configs import base

SWAPS = ("pi", "ntk", "dynamic_ntk", "yarn", "mrrope", "llama3", "longrope", "clipped_rope")
SWAPS += ("leaky_rerope", "self_extend", "rerope", "lm_infinite", "streaming", "string", "chunk")
SWAPS += ("drope",)  # swaps for a trained RoPE
BESIDE = {  # partners of encodings without a position of their own
    **dict.fromkeys(SWAPS, ()),  # none: in training they equal RoPE, nearly, or NoPE
    "randomized": ("randomized+sinusoidal", "randomized+rope", "randomized+t5"),
    "shape": ("shape+sinusoidal",),
    "pose": ("pose+rope",),
    "cape": ("cape+sinusoidal",),
    "bipe": ("bipe+rope", "bipe(stride=96)+alibi"),
    "abacus": (),  # none: it counts digits, for addition
    "position_coupling": (),
    "window": ("rope+window(window=32)",),
    "log_n": ("rope+log_n",),
    "ssmax": ("rope+ssmax",),
    "temperature_tuning": ("rope+temperature_tuning",),
    "learned_sinks": ("learned_sinks", "rope+learned_sinks"),
    "key_offset": ("key_offset", "rope(rotary_pct=0.5)+key_offset"),
}
COMPOSITIONS = (
    "learned+t5",
    "sinusoidal+shaw",
    "rope+alibi",
    "forget_gate+rope",
    "deberta+learned[-1:]",
    "randomized+shaw",
    "rope[::2]",  # NoPE in every second layer
    "rope[::2]+window(window=32)[::2]+log_n",  # RNoPE-SWA
)

HIGHER = ("cape+sinusoidal", "fope", "grape_a", "kerple_log", "nezha", "partial_rope", "resonance")
HIGHER += ("rope+alibi", "rope+window(window=32)", "rope[::2]", "shape+sinusoidal", "xpos")
HIGHER += ("sinusoidal+shaw",)  # by at most 0.03 bits


def specs():
    """Specs of the sweep: all encodings in the order of the table, then the compositions."""
    from pe_jax.encodings import ENCODINGS

    for name in ENCODINGS:
        yield from BESIDE.get(name, (name,))
    yield from COMPOSITIONS


def text():
    """data.source of the novels if they are available, else of the standard library."""
    return "files:$PE_JAX_CORPORA/novels" if "PE_JAX_CORPORA" in os.environ else "stdlib"


def get_config(arg="pe=rope"):
    c = base.get_config(arg)
    c.train.steps = 1400
    c.train.rate = 27e-3 if c.pe.spec in HIGHER else 9e-3
    c.data.source = text()
    return c


def get_sweep():
    for spec in specs():
        yield get_config(f"pe={spec}")
