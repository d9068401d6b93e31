"""The forms of a layer: shared keys, gated MLPs, biases, norms, attention and MLP at once."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from helpers import assert_near, perturbed

from pe_jax.model.cache import Cache, LayerPast, Seen
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM
from pe_jax.specs.parse import make
from pe_jax.training.step import structure

TINY = LmConfig(vocab=32, layers=1, model=16, heads=4, attention="dense")
LENGTH = 9
FORMS = {
    "shared keys": {"kv_heads": 2},
    "one key head": {"kv_heads": 1},
    "wide heads": {"head": 6, "kv_heads": 2},
    "gated": {"gated": True, "activation": "silu", "mlp": 20},
    "biases of qkv": {"biases": "qkv"},
    "all biases": {"biases": "all", "gated": True, "norm": "layer"},
    "normalised queries and keys": {"qk_norm": True, "kv_heads": 2},
    "normalised again": {"norm": "sandwich", "gated": True},
    "both branches at once": {"parallel": True, "norm": "layer", "activation": "gelu_erf"},
    "another epsilon": {"norm_eps": 0.1},
    "normalised embeddings": {"norm": "embedded", "masked_head": True},
}


def built(spec="rope", **form):
    config = dataclasses.replace(TINY, **form)
    members = make(spec, config.dims(LENGTH))
    graphdef, params = nnx.split(LM(config, members, rngs=nnx.Rngs(params=0, encodings=1)))
    return nnx.merge(graphdef, perturbed(params))


def blockwise(lm):
    """The model with the other form of attention."""
    config = dataclasses.replace(lm.config, attention="blockwise")
    return nnx.merge(structure(config, lm.encodings)[0], nnx.state(lm, nnx.Param))


def tokens():
    return jnp.asarray(np.random.default_rng(0).integers(0, TINY.vocab, (2, LENGTH)), jnp.int32)


@nnx.jit
def logits(lm):
    return lm(tokens())[0]


@nnx.jit
def in_every_way(lm, lm_of_blocks):
    """The logits at once, by blocks, and of five tokens before the rest."""
    first, cache = lm(tokens()[:, :5], Cache.empty(TINY.layers))
    rest, _ = lm(tokens()[:, 5:], cache.grown(LENGTH))
    return lm(tokens())[0], lm_of_blocks(tokens())[0], jnp.concatenate([first, rest], axis=1)


@pytest.fixture(scope="module")
def plain():
    return logits(built())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_decoding_and_blocks_give_what_the_full_pass_gives(plain, form):
    lm = built(**form)
    whole, by_blocks, decoded = in_every_way(lm, blockwise(lm))
    assert not np.allclose(whole, plain), "the form changes nothing"
    assert_near(by_blocks, whole, 1e-5)
    assert_near(decoded, whole, 1e-5)


@pytest.mark.parametrize(
    "spec", ["rope", "t5", "transformer_xl", "cope", "alibi+shaw", "forget_gate"]
)
def test_shared_keys_are_those_of_a_model_whose_heads_have_equal_ones(spec):
    shared, plain = built(spec, kv_heads=2), built(spec)
    params = nnx.state(shared, nnx.Param)
    for block in params["blocks"].values():
        kernel = block["key_value"]["kernel"][...].reshape(16, 2, 2, 4)
        block["key_value"]["kernel"] = nnx.Param(jnp.repeat(kernel, 2, axis=2).reshape(16, -1))
    nnx.update(plain, params)
    assert_near(logits(plain), logits(shared), 1e-5)


def test_the_cache_holds_the_shared_keys_alone():
    call = nnx.jit(lambda lm: lm(tokens(), Cache.empty(TINY.layers))[1])
    cache = call(built(kv_heads=1))
    assert cache.layers[0].k.shape == (2 * 1, 4, LENGTH)


def test_a_loop_over_layers_leaves_out_the_one_without_a_norm():
    lm = built(norm="embedded", layers=9)
    of_loop = nnx.jit(lambda lm: lm(tokens(), scan=True)[0])
    assert_near(of_loop(lm), logits(lm), 1e-5)
    assert len(lm._groups([lm._bound(i, lm.encodings) for i in range(9)], [LENGTH] * 10, True)) == 2


def test_both_branches_read_what_enters_the_layer():
    lm = built(parallel=True)
    block = lm.blocks[0]
    x = jax.random.normal(jax.random.key(0), (2, LENGTH, 16))
    both = layer_output(lm, x)
    mlp = block._mlp(block.mlp_norm(x.reshape(-1, 16))).reshape(x.shape)
    block.down.kernel[...] = 0 * block.down.kernel[...]
    assert_near(both - layer_output(lm, x), mlp, 1e-5)


def layer_output(lm, x):
    place = jnp.arange(LENGTH)
    seen = Seen(tokens(), place, place, 0)
    return lm.blocks[0](x, lm._bound(0, lm.encodings), seen, LENGTH, LayerPast())[0]
