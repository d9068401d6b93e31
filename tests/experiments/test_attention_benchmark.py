"""scripts/benchmark attention: its forms compute the same, and its table says what was refused."""

import functools

import pytest

from experiments.benchmark import attention
from experiments.benchmark.attention import (
    Sizes,
    compiled,
    cudnn,
    error,
    inputs,
    measure,
    sides,
)
from pe_jax.attention.dense import attend

TINY = Sizes(batch=2, length=40, heads=2, head=16)


@pytest.mark.parametrize(
    "spec",
    [
        *(pytest.param(spec, marks=pytest.mark.slow) for spec in ("rope", "alibi", "t5")),
        "rope+window(window=16)",
    ],
)
def test_every_form_is_near_dense_attention_in_float32(spec, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 16)
    found = sides(spec, TINY)
    assert list(found) == ["dense", "blockwise", "fused"]
    xla = functools.partial(cudnn, spec, TINY, implementation="xla")
    found["cuDNN"] = functools.partial(compiled, xla, inputs(spec, TINY))
    for row in measure(spec, TINY, found, 1):
        assert "refused" not in row, row
        assert 1e-4 < row["output"] < 0.01 and 1e-4 < row["gradients"] < 0.02, row


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["rope", "alibi", "t5", "rope+window(window=16)"])
def test_flex_attention_computes_the_same(spec):
    """Forward alone: PyTorch has no gradient of it on a CPU."""
    pytest.importorskip("torch")
    given = inputs(spec, TINY)
    form, _, _ = attention.flex_form(spec, TINY, given, "cpu")
    dense = attention.ours_of(spec, TINY, attend, *given[:4])
    assert error(form().float().numpy(), dense) < 0.01
