"""Encodings against what other implementations compute (tests/golden/make.py has the versions)."""

import dataclasses
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_near, rows

from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend
from pe_jax.encoding import HIDDEN, Dims
from pe_jax.specs.parse import make

VECTORS = np.load(Path(__file__).parents[1] / "golden" / "vectors.npz")
DIMS = Dims(model=24, heads=3, head=8, layers=1, train_len=20)


def golden(name):
    """The arrays of an entry."""
    found = {key: VECTORS[key] for key in VECTORS.files if key.startswith(f"{name}/")}
    return {key.partition("/")[2]: jnp.asarray(array) for key, array in found.items()}


def only(spec, dims=DIMS):
    (encoding,) = make(spec, dims)
    return encoding


@functools.partial(jax.jit, static_argnames=("encoding", "causal"))
def output(encoding, params, q, k, v, causal):
    """Attention over 20 tokens by one encoding."""
    pe = Bound((params,), (encoding,), causal=causal)
    here = rows(pe, jnp.zeros((20, 24)), jnp.arange(20))
    return attend(pe, q, k, v, here, here)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_t5_is_that_of_transformers(causal):
    g = golden("t5_causal" if causal else "t5_bidirectional")
    e = only("t5(max_distance=128)", DIMS._replace(causal=causal))
    n = jnp.arange(150)[:, None] - jnp.arange(150)[None]
    got = e.relative_bias({"table": g["table"]}, n.ravel()).reshape(3, 150, 150)
    seen = np.tril(np.ones((150, 150), bool)) if causal else np.ones((150, 150), bool)
    np.testing.assert_array_equal(np.where(seen, got, 0), np.where(seen, g["bias"], 0))


@pytest.mark.parametrize(
    ("name", "spec", "causal", "names"),
    [
        ("t5_attention", "t5(max_distance=128)", False, {"table": "table"}),
        ("xlnet", "transformer_xl", True, {"r": "r", "u": "u", "v": "v_bias"}),
        ("shaw", "shaw(clip=4,values=False)", False, {"keys": "table"}),
        ("pope", "pope", True, {"delta": "delta"}),
    ],
)
def test_attention_is_that_of_other_libraries(name, spec, causal, names):
    """T5 (which does not divide its logits), XLNet and Wav2Vec2-BERT; PoPE of x-transformers."""
    g = golden(name)
    q = g["q"] * g["q"].shape[-1] ** 0.5 if name == "t5_attention" else g["q"]
    params = {own: g[theirs] for own, theirs in names.items()}
    got = output(only(spec, DIMS._replace(causal=causal)), params, q, g["k"], g["v"], causal=causal)
    assert_near(got, g["out"], 1e-5)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("forget_gate", "forget_gate"),
        ("relative_projection", "relative_projection(curves=4,distances=12)"),
    ],
)
def test_biases_of_located_tokens_are_those_of_x_transformers(name, spec):
    g, e = golden(name), only(spec)
    params = {n: g[n] for n in jax.eval_shape(e.init, jax.random.key(0))}
    located = e.locate(params, g["x"], jnp.arange(20), None)
    assert_near(e.bias(params, located, located), g["bias"], 1e-5)


@pytest.mark.parametrize("heads", [3, 4, 12])
def test_alibi_is_that_of_bloom(heads):
    """Theirs is slope * j, which differs from -slope * (i - j) by a constant a row."""
    theirs = golden(f"alibi_{heads}")["by_key"]
    e = only("alibi", DIMS._replace(heads=heads))
    assert_near(e.relative_bias({}, 19 - jnp.arange(20)), theirs - theirs[:, -1:], 1e-6)


@pytest.mark.parametrize(
    ("name", "spec"), [("llama", "rope"), ("gpt_neox_half", "partial_rope(rotary_pct=0.5)")]
)
def test_rotations_are_those_of_llama_and_gpt_neox(name, spec):
    g = golden(name)
    pos = g["pos"].astype(jnp.int32)
    q, k = only(spec).qk({}, g["q"], g["k"], pos, pos)
    assert_near(q, g["turned_q"], 1e-5)
    assert_near(k, g["turned_k"], 1e-5)


@pytest.mark.parametrize("name", ["deberta_linear", "deberta_log"])
def test_deberta_is_its_authors_but_for_the_order_of_i_and_j(name):
    """Their p2c index is i - j; the paper's equation 4 has delta(j, i), as is ours."""
    g = golden(name)
    spec = "deberta(clip=8)" if name == "deberta_linear" else "deberta(clip=6,variant='v2')"
    e = only(spec, DIMS._replace(causal=False))
    params = {key: g[key] for key in ("table", "query", "key")}
    n = jnp.arange(20)[:, None] - jnp.arange(20)[None]
    q = g["q"] * e.scale(params, jnp.arange(20))[..., None] * 8**-0.5

    def vectors(hook, n):
        return hook(params, n.ravel()).reshape(3, 20, 20, 8)

    scores = (
        jnp.einsum("ihk,jhk->hij", q, g["k"])
        + jnp.einsum("ihk,hijk->hij", q, vectors(e.relative_keys, n))
        + jnp.einsum("jhk,hijk->hij", g["k"], vectors(e.relative_queries, -n))
    )
    assert_near(scores, g["scores"], 1e-5)


def test_cope_is_that_of_x_transformers():
    g = golden("cope")
    hidden = jnp.triu(jnp.ones((3, 20, 20), bool), 1)
    logits = jnp.where(hidden, HIDDEN, 0.0)
    pos = jnp.arange(20)
    e = only("cope(rows=7)")
    added = e.logits({"table": g["table"]}, logits, g["q"], g["k"], pos, pos) - logits
    assert_near(jnp.where(hidden, 0.0, added), g["added"], 1e-5)


def test_xpos_is_that_of_x_transformers():
    g = golden("xpos")
    pos = jnp.arange(20)
    q, k = only("xpos(scale_base=16.0,middle=10.0)").qk({}, g["q"], g["k"], pos, pos)
    assert_near(jnp.einsum("ihk,jhk->hij", q, k), g["products"], 1e-5)


def test_the_continuous_position_bias_is_that_of_swin_v2():
    g = golden("swin_v2")
    e = only("cpb(variant='code',width=16)", DIMS._replace(train_len=5, causal=False))
    n = jnp.arange(5)[:, None] - jnp.arange(5)[None]
    bias = e.relative_bias({name: g[name] for name in ("w1", "b1", "w2")}, n.ravel())
    assert_near(jax.nn.softmax(bias.reshape(3, 5, 5), axis=-1), g["weights"], 1e-5)


PER_PAIR = {"long": 60, "short": 0.5}  # lambda of LongRoPE's last pair, less 1
SCALINGS = {  # name in vectors.npz: length of RoPE's training, spec
    "pi_16384": (4096, "pi"),
    "dynamic_4096": (4096, "dynamic_ntk"),
    "dynamic_5000": (4096, "dynamic_ntk(factor=2.0)"),
    "dynamic_65536": (4096, "dynamic_ntk(factor=2.0)"),
    "yarn_65536": (4096, "yarn"),
    "yarn_512": (64, "yarn(beta=4.0,alpha=0.5)"),
    "llama3_65536": (8192, "llama3(base=500000.0)"),
    "longrope_4096": (4096, "longrope(factor=32.0)"),
    "longrope_131072": (4096, "longrope"),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_scalings_of_rope_are_those_of_transformers(name):
    g, (trained, spec) = golden(f"scaling_{name}"), SCALINGS[name]
    e = only(spec, DIMS._replace(model=256, heads=2, head=128, train_len=trained))
    if "longrope" in name:
        factors = {key: tuple(1 + most * np.linspace(0, 1, 64)) for key, most in PER_PAIR.items()}
        e = dataclasses.replace(e, **factors)
    e = e.at(int(name.rpartition("_")[2]))
    np.testing.assert_allclose(e._frequencies(), g["frequencies"], rtol=1e-6)
    np.testing.assert_allclose(e.scale({}, jnp.arange(1)), g["factor"] ** 2, rtol=1e-6)
