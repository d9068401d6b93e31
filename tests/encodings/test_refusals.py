"""Values and sizes that encodings refuse, and the message of each."""

import pytest
from helpers import DIMS, bind

from pe_jax.specs.parse import make

REFUSED = [
    ("binary(bits=32)", {}, "bits must be 1 .. 31"),
    ("normalized(length=0)", {}, "length must be an integer of at least 1 or None, got 0"),
    ("floater(steps=0)", {}, "steps must be an integer of at least 1, got 0"),
    ("complex[::2]", {}, "leave out its layers, got '::2'"),
    ("partial_rope(rotary_pct=0.1)", {}, "rotary_pct=0.1; take one from 0.25 to 1"),
    ("log_n(length=1)", {}, "length must be at least 2"),
    ("nezha", {"head": 7}, "head size must be even for Nezha, .* got 7"),
    ("deberta(clip=9,variant='v2')", {}, "even and at least 4 in v2.* got 9"),
    ("tupe(buckets=7)", {}, "even number of buckets"),
    ("pj_bias(order=21)", {}, "order must be at most 20, got 21"),
    ("fope", {"train_len": 6}, "training length of at least 7, .* got 6"),
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
    ("bipe[::2]+rope", {}, "BiPE moves positions in all layers: leave out '::2'"),
    ("rope[0,9]", {}, "RoPE's layers must each name some of 0 .. "),
    ("rerope+chunk", {}, "only one encoding may move far pairs, got ReRoPE and Chunk"),
    ("dape_v2(kernel=4)", {}, "kernel must be odd, such as 3 or 5, got 4"),
    ("bipe(ends=())", {}, r"bipe's ends must be numbers of tokens, 0 or above, got \(\)"),
    ("sinusoidal", {"model": 25}, "model size must be even.*got 25; change lm.model"),
    ("abacus", {"causal": False}, "needs a causal model: it reads the digits"),
    ("jordan_rope", {"head": 6}, "fours, got 6"),
    ("pj_bias(jets=False,line=False,lightcone=False)", {}, "one of jets"),
    ("yarn(alpha=32.0)", {}, "alpha below beta .* got alpha=32.0, beta=32.0"),
    ("yarn(base=1.0)", {}, "a base above 1"),
    ("llama3(low=4.0)", {}, "llama3's low must be below its high, 4.0, got 4.0"),
    ("longrope(length=1)", {}, "longrope's length must be at least 2, got 1"),
    ("longrope(long=(2.0,))", {}, "must have 4 factors, one for each pair"),
    ("leaky_rerope(window=7)", {}, "must be below 7, the largest distance in training"),
    ("self_extend(window=6)", {}, "below two thirds of the training length, 8, unless its group"),
    ("xpos", {"causal": False}, "needs a causal model: later keys would grow"),
]


@pytest.mark.parametrize(("spec", "dims", "message"), REFUSED)
def test_invalid_values_raise(spec, dims, message):
    with pytest.raises(ValueError, match=message):
        bind(make(spec, DIMS._replace(**dims)))
