"""Models that see both sides: permuted texts, and equality with decoders."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from helpers import assert_near, perturbed

from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM
from pe_jax.specs.parse import make

LENGTH = 12
TINY = LmConfig(vocab=32, layers=1, model=16, heads=2, causal=False)
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 32, (1, LENGTH)), jnp.int32)


def built(spec, seed=2, **fields):
    config = dataclasses.replace(TINY, **fields)
    lm = LM(config, make(spec, config.dims(LENGTH)), rngs=nnx.Rngs(params=0, encodings=1))
    graphdef, params = nnx.split(lm, nnx.Param)
    return nnx.merge(graphdef, perturbed(params, seed=seed))


@pytest.mark.parametrize("form", ["dense", "blockwise"])
def test_without_positions_the_outputs_of_permuted_tokens_are_permuted(form):
    order = np.random.default_rng(1).permutation(LENGTH)
    lm = built("nope", layers=2, attention=form)
    logits = lm(TOKENS)[0]
    assert_near(lm(TOKENS[:, order])[0], logits[:, order], 1e-5)
    turned = built("rope", layers=2, attention=form)
    assert not np.allclose(turned(TOKENS[:, order])[0], turned(TOKENS)[0][:, order], atol=1e-2)


@pytest.mark.parametrize("form", ["dense", "blockwise", "fused"])
@pytest.mark.parametrize("spec", ["rope+alibi", "sinusoidal+window(window=4)", "kerple_log"])
def test_where_the_right_side_is_hidden_it_is_the_decoder(spec, form):
    """Token t of one layer, the tokens after it being padding."""
    two_sided = built(spec, attention=form)
    decoder = built(spec, attention=form, causal=True)
    padded = jax.jit(lambda size: two_sided(TOKENS, size=size)[0])
    want = decoder(TOKENS)[0]
    for t in range(LENGTH):
        assert_near(padded(jnp.int32(t + 1))[0, t], want[0, t], 1e-5)
    assert not np.allclose(padded(jnp.int32(LENGTH))[0, 0], want[0, 0], atol=1e-2)
