"""What is made of logits in parts equals what is made of all of them, gradients included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from optax import softmax_cross_entropy_with_integer_labels as cross_entropy

from pe_jax.model import lm
from pe_jax.model.config import LmConfig
from pe_jax.training.step import build

B, T, V = 3, 50, 2048


@pytest.mark.parametrize("tied", (False, True))
def test_logits_of_a_bfloat16_model_are_summed_in_float32(tied):
    model = build(LmConfig(V, 1, 64, 2, tie_embeddings=tied, dtype="bfloat16"), (), 0)
    rows = jax.random.normal(jax.random.key(1), (B, T, 64), jnp.bfloat16)
    table = model.embedding[...].T / 8 if tied else model.head.kernel[...]
    exact = np.asarray(model.norm(rows), float) @ np.asarray(table.astype(jnp.bfloat16), float)
    assert np.abs(model.logits_of(rows) - exact).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("tied", (False, True))
def test_parts_equal_the_whole_without_its_memory(tied, monkeypatch):
    config = LmConfig(vocab=V, layers=1, model=16, heads=2, tie_embeddings=tied)
    graphdef, params = nnx.split(build(config, (), 0), nnx.Param)
    rows = jax.random.normal(jax.random.key(1), (B, T, 16))
    targets = jax.random.randint(jax.random.key(2), (B, T), 0, V)
    weights = jax.random.normal(jax.random.key(3), (B, T))

    def loss(params, rows):
        model = nnx.merge(graphdef, params, copy=True)
        return (lm.of_logits(cross_entropy, model, rows, targets) * weights).mean()

    def compiled():
        gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
        return gradient.lower(params, rows).compile()

    whole = compiled()
    monkeypatch.setattr(lm, "MOST", B * V * 7)  # 8 parts, the last of 1 token
    parts = compiled()
    for one, other in zip(
        *(jax.tree.leaves(program(params, rows)) for program in (whole, parts)), strict=True
    ):
        assert jnp.abs(one - other).max() <= 1e-6
    size = 4 * B * T * V
    assert whole.memory_analysis().temp_size_in_bytes >= size
    assert parts.memory_analysis().temp_size_in_bytes < size
