"""The table of encodings, by the names that specs (specs/parse.py) give them: one class a file.

The docstring of a file gives the formula with its paper, what is learned, what happens beyond the
training length L, and where it differs from the paper or the authors' code. A new one needs its
file, its name in FAMILIES and, in tests/reference/, its formula in NumPy; the tests then cover it.
Where nothing is learned, it gets a file in pe_jax/conformance, too.
"""

from __future__ import annotations

from pe_jax import contract
from pe_jax.encoding import Encoding

FAMILIES = {
    "The input": """nope integer normalized binary learned hierarchical multiplicative sinusoidal
        rnn floater conv complex""",
    "Queries and keys": """rope partial_rope rope_pp key_offset p_rope xpos resonance fope pope
        carope mapformer selective_rope repo mobius jordan_rope evq_cosh lerope""",
    "Scalings of RoPE": """pi ntk dynamic_ntk yarn mrrope llama3 longrope clipped_rope rerope
        leaky_rerope self_extend lm_infinite streaming string chunk drope""",
    "Logits and weights": """t5 shaw nezha transformer_xl tupe deberta urpe cope dape dape_v2
        forget_gate path stick_breaking alibi grape_a grape_ap kerple_log kerple_power sandwich cpb
        fire pj_bias bam tisa relative_projection""",
    "Positions": "randomized shape pose cape bipe abacus position_coupling",
    "Windows, sinks, temperatures": "window learned_sinks log_n ssmax temperature_tuning",
    "In place of attention": "recurrent gated_delta kimi_delta retention short_conv",
}
"""By what they change, in the order of tables; each is a file of this folder."""

ENCODINGS: dict[str, type[Encoding]] = contract.table(__name__, " ".join(FAMILIES.values()))
