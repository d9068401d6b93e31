"""Values and sizes that encodings refuse, and the message of each."""

import re

import pytest
from helpers import DIMS, bind

from pe_jax.specs.parse import make

REFUSED = [
    ("binary(bits=32)", {}, "bits must be 1 .. 31"),
    ("complex[::2]", {}, "leave out its layers, got '::2'"),
    ("partial_rope(rotary_pct=0.1)", {}, "rotary_pct=0.1; take one from 0.25 to 1"),
    ("deberta(clip=9,variant='v2')", {}, "even and at least 4 in v2.* got 9"),
    ("tupe(buckets=7)", {}, "even number of buckets"),
    ("fope", {"train_len": 6}, "training length of at least 7, .* got 6"),
    ("stick_breaking+stick_breaking", {}, "only one encoding may replace the softmax"),
    ("stick_breaking+learned_sinks", {}, "replace the softmax, got StickBreaking and LearnedSinks"),
    ("randomized+key_offset", {}, "key_offset takes positions for places in the text"),
    ("key_offset+randomized", {}, "and randomized moves them: drop one"),
    ("learned+randomized", {}, "learned serves the positions 0 .. 7, and randomized hands on"),
    ("learned+pose", {}, "learned serves the positions 0 .. 7, and pose hands on positions to 31"),
    ("shape+randomized", {}, "only one encoding may move positions, got SHAPE and Randomized"),
    ("randomized+rnn", {}, "rnn serves the positions 0 .. 7, and randomized hands on"),
    ("randomized+rope+log_n", {}, "log_n takes positions for places in the text"),
    ("shape+rope+temperature_tuning", {}, "temperature_tuning takes positions for places"),
    ("bipe+rope+ssmax", {}, "ssmax takes positions for places in the text"),
    ("randomized[:1]+rope", {}, "Randomized moves positions in all layers: leave out ':1'"),
    ("bipe[::2]+rope", {}, "BiPE moves positions in all layers: leave out '::2'"),
    ("rope[0,9]", {}, "each part of RoPE's layers must name some of 0 .. "),
    ("rerope+chunk", {}, "only one encoding may move far pairs, got ReRoPE and Chunk"),
    ("dape_v2(kernel=4)", {}, "kernel must be odd, such as 3 or 5, got 4"),
    ("abacus", {"causal": False}, "needs a causal model: it reads the digits"),
    ("jordan_rope", {"head": 6}, "fours, got 6"),
    ("pj_bias(jets=False,line=False,lightcone=False)", {}, "one of jets"),
    ("yarn(alpha=32.0)", {}, "alpha below beta .* got alpha=32.0, beta=32.0"),
    ("yarn(base=1.0)", {}, "a base above 1"),
    ("llama3(low=4.0)", {}, "llama3's low must be below its high, 4.0, got 4.0"),
    ("longrope(long=(2.0,))", {}, "must have 4 factors, one for each pair"),
    ("longrope(short=(1.0,1.0))", {}, "must have 4 factors, one for each pair"),
    ("leaky_rerope(window=7)", {}, "must be below 7, the largest distance in training"),
    ("self_extend(window=6)", {}, "below two thirds of the training length, 8, unless its group"),
    ("xpos", {"causal": False}, "needs a causal model: later keys would grow"),
]
OUT_OF_RANGE = """
normalized(length=0) floater(steps=0) conv(kernel=1) sinusoidal(merge='sum') p_rope(p=1.5)
sandwich(size=7) cpb(depth=0) fire(threshold=0) xpos(gamma=0.0) xpos(middle=-1.0) grape_ap(size=3)
shape(max_shift=-1) cape(max_scale=0.5) shaw(clip=0) nezha(clip=-1) nezha(variant='v2') urpe(rows=0)
deberta(clip=1) deberta(variant='v3') cope(rows=1) dape(hidden=0) dape(prior='rope') fope(std=-1.0)
evq_cosh(tau=800.0) dape_v2(hidden=0) path(rank=0) path(variant='fla') carope(base=1.0)
mapformer(rank=0) mobius(part=2.0) leaky_rerope(factor=0.5) pj_bias(order=21) longrope(length=1)
bipe(ends=()) bipe(ends=(-1,)) log_n(length=1)
""".split()
for spec in OUT_OF_RANGE:
    field, value = spec[:-1].partition("(")[2].split("=")
    REFUSED.append((spec, {}, f"{field} must be .*, got {re.escape(value)}"))
EVEN = "size must be even for .*, got [0-9]+; change lm.model"
for names, dims, message in (
    ("nezha resonance yarn mrrope carope", {"head": 7}, f"head {EVEN}"),
    ("sinusoidal complex", {"model": 25}, f"model {EVEN}"),
    ("cope forget_gate stick_breaking path", {"causal": False}, "needs a causal .* lm.causal=True"),
    ("leaky_rerope self_extend position_coupling", {"causal": False}, "needs a causal model: "),
):
    REFUSED += [(name, dims, message) for name in names.split()]


@pytest.mark.parametrize(("spec", "dims", "message"), REFUSED)
def test_invalid_values_raise(spec, dims, message):
    with pytest.raises(ValueError, match=message):
        bind(make(spec, DIMS._replace(**dims)))
