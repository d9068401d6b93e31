"""Encodings against what other implementations compute (tests/golden/make.py has the versions)."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_near

from pe_jax.attention import attend, rows
from pe_jax.bound import Bound
from pe_jax.encoding import Dims
from pe_jax.encodings import make

VECTORS = np.load(Path(__file__).with_name("golden") / "vectors.npz")
DIMS = Dims(model=24, heads=3, head=8, layers=1, train_len=20)


def golden(name):
    """The arrays of an entry."""
    found = {key: VECTORS[key] for key in VECTORS.files if key.startswith(f"{name}/")}
    return {key.partition("/")[2]: jnp.asarray(array) for key, array in found.items()}


def only(spec, dims=DIMS):
    (encoding,) = make(spec, dims)
    return encoding


def output(encoding, params, q, k, v, causal):
    """Attention over 20 tokens by one encoding."""
    pe = Bound((params,), (encoding,), causal=causal)
    here = rows(pe, jnp.zeros((20, 24)), jnp.arange(20), jnp.arange(20))
    return attend(pe, q, k, v, here, here)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_t5_is_that_of_transformers(causal):
    g = golden("t5_causal" if causal else "t5_bidirectional")
    e = only("t5(max_distance=128)", DIMS._replace(causal=causal))
    n = jnp.arange(150)[:, None] - jnp.arange(150)[None]
    got = e.relative_bias({"table": g["table"]}, n.ravel()).reshape(3, 150, 150)
    seen = np.tril(np.ones((150, 150), bool)) if causal else np.ones((150, 150), bool)
    np.testing.assert_array_equal(np.where(seen, got, 0), np.where(seen, g["bias"], 0))


@pytest.mark.parametrize("heads", [3, 4, 12])
def test_alibi_is_that_of_bloom(heads):
    """Theirs is slope * j, which differs from -slope * (i - j) by a constant a row."""
    theirs = golden(f"alibi_{heads}")["by_key"]
    e = only("alibi", DIMS._replace(heads=heads))
    assert_near(e.relative_bias({}, 19 - jnp.arange(20)), theirs - theirs[:, -1:], 1e-6)


def test_rope_is_that_of_llama():
    g = golden("llama")
    pos = g["pos"].astype(jnp.int32)
    q, k = only("rope").qk({}, g["q"], g["k"], pos, pos)
    assert_near(q, g["turned_q"], 1e-5)
    assert_near(k, g["turned_k"], 1e-5)


def test_transformer_xl_is_that_of_xlnet():
    g = golden("xlnet")
    params = {"r": g["r"], "u": g["u"], "v": g["v_bias"]}
    got = output(only("transformer_xl"), params, g["q"], g["k"], g["v"], causal=True)
    assert_near(got, g["out"], 1e-5)
