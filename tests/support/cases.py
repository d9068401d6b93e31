"""Encodings that attention, caches and memories are tested with, and one sequence."""

import pytest
from exotic import EXOTIC, Capped, MixKeys, PairGate
from helpers import DIMS, example, scattered

from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.shaw import Shaw
from pe_jax.specs.parse import make

COMPOSED = """
learned+t5 rope+alibi randomized+sinusoidal randomized+rope randomized+t5
randomized+transformer_xl rope+window(window=5,sinks=2) t5+window(window=5) randomized+shaw
forget_gate+rope ssmax+shaw+rope cape+alibi cape+shaw rerope(window=4)+forget_gate
randomized(max=100)+leaky_rerope(window=4,factor=2.0) self_extend(window=4,group=3)
lm_infinite(window=5,sinks=2) chunk(chunk=4,local=3)+ssmax bipe(ends=(3,),rows=4)+rope
forget_gate+path path(rank=2)+window(window=5,sinks=2)
rope(rotary_pct=0.5)+key_offset+window(window=5)
""".split()
MIXED = {"shaw+pair_gate": (Shaw, PairGate), "capped+mix_keys": (Capped, MixKeys)}
CASES = [*ENCODINGS, *COMPOSED, *EXOTIC, *MIXED]
WIDE = DIMS._replace(train_len=64)  # so that every table serves the tests' lengths


def encodings(name, dims=WIDE):
    if name in EXOTIC:
        return (EXOTIC[name][0](dims),)
    if name in MIXED:
        return tuple(cls(dims) for cls in MIXED[name])
    return make(name, dims)


def both_ways(names):
    """Each name in one direction, the other slow."""
    return [
        pytest.param(name, causal, marks=pytest.mark.slow if causal == n % 2 else ())
        for n, name in enumerate(names)
        for causal in (True, False)
    ]


def serves_both_directions(name):
    try:
        return bool(encodings(name, WIDE._replace(causal=False)))
    except ValueError as refusal:
        assert "needs a causal model" in str(refusal)
        return False


LENGTH = 20
CASE = example(LENGTH)
APART = CASE._replace(pos=scattered(LENGTH, 60))


def one(spec, dims=DIMS):
    """The encoding of a spec with one member."""
    (encoding,) = make(spec, dims)
    return encoding
