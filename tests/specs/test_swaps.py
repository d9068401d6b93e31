"""Encodings swapped into a trained model, and the training length that reaches every parameter."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pe_jax.encoding import Dims
from pe_jax.encodings.t5 import T5
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap

DIMS = Dims(model=32, heads=4, head=8, layers=4, train_len=64)


@pytest.mark.parametrize("buckets, most", [(32, 128), (32, 64), (16, 100), (32, 17), (8, 1000)])
def test_t5_is_trained_from_where_its_last_bucket_begins(buckets, most):
    e = T5(DIMS, buckets, most)
    table = {"table": jnp.arange(buckets, dtype=jnp.float32)[None]}
    met = np.array(jax.jit(e.relative_bias)(table, jnp.arange(2 * most)))[0]
    assert e.trained_from() == 1 + met.argmax()
    assert met.max() == buckets - 1


@pytest.mark.parametrize(
    "spec",
    ["shaw(clip=20)", "deberta(clip=20)", "deberta(clip=8,variant='v2')", "urpe(rows=20)", "t5"]
    + ["binary(bits=5)", "hierarchical(length=20)", "bipe(rows=20)"],
)
def test_what_is_trained_from_is_where_every_parameter_has_a_gradient(spec):
    """By gradients, with only the distances and positions of `length` tokens."""
    (e,) = make(spec, DIMS)
    params = e.init(jax.random.key(0))

    def untrained(length):
        n = jnp.arange(length)

        def loss(params):
            x = e.embed(params, jnp.zeros((length, DIMS.model)), 0 * n, n)
            hooks = (e.relative_bias, e.relative_keys, e.relative_queries, e.relative_values)
            terms = [jnp.sum(jnp.sin(hook(params, n))) for hook in hooks]
            return sum(terms) + jnp.sum(e.relative_gate(params, n)) + jnp.sum(jnp.sin(x))

        return sum(int(jnp.sum(g == 0)) for g in jax.tree.leaves(jax.jit(jax.grad(loss))(params)))

    needed = e.trained_from()
    assert untrained(needed) == 0 < untrained(needed - 1)


def test_a_scaling_swapped_for_itself_keeps_what_the_spec_does_not_set():
    dims = Dims(model=32, heads=2, head=16, layers=1, train_len=64)
    own = make("yarn(factor=4.0,length=16,attention_factor=1.5)", dims)
    assert swap(own, "yarn") == own
    (e,) = swap(own, "yarn(factor=8.0)")
    assert (e.factor, e.length, e.attention_factor) == (8.0, 16, 1.5)
    (e,) = swap(own, "yarn(mscale=0.0)")
    assert (e.factor, e.attention_factor, e._temperature()) == (4.0, None, 1.0)


def test_a_swap_beside_a_rotation_in_windows_is_refused():
    own = make("rope[:3]+window(window=8)[:3]", DIMS._replace(layers=4))
    with pytest.raises(ValueError, match="would do a second time"):
        swap(own, "yarn")


def test_a_rotation_of_ones_own_that_names_no_family_is_not_put_beside_rope(tmp_path):
    path = tmp_path / "mine.py"
    text = (
        "import dataclasses\nfrom pe_jax import Encoding\n\n\n@dataclasses.dataclass(frozen=True)\n"
    )
    text += "class Turn(Encoding):\n    def qk(self, params, q, k, q_pos, k_pos):\n"
    path.write_text(text + "        return q * 1.0, k\n")
    dims = Dims(model=32, heads=2, head=16, layers=1, train_len=64)
    for model, spec, words in (
        ("rope", f"{path}:Turn", "a class of yours takes its place with family = 'RoPE'"),
        (f"{path}:Turn", "pi", "this model's Turn; a class"),
    ):
        with pytest.raises(ValueError, match=words):
            swap(make(model, dims), spec)


def test_a_scaling_turns_the_part_of_a_head_that_the_model_turns():
    (yarn,) = swap(make("rope(rotary_pct=0.5)", DIMS), "yarn(factor=2.0)")
    assert yarn._frequencies().size == DIMS.head // 4
    (other,) = swap(make("rope", DIMS), "partial_rope")
    assert other._frequencies().size == DIMS.head // 8


def test_a_swap_that_would_rotate_twice_is_refused():
    for spec in ("xpos", "p_rope", "partial_rope", "pope"):
        with pytest.raises(ValueError, match="would do a second time what this model's"):
            swap(make(spec, DIMS), "pi")
    (pi,) = swap(make("rope", DIMS), "pi")
    assert type(pi).__name__ == "PI"


def test_the_specs_of_published_models_in_the_docs_can_be_made():
    page = (Path(__file__).parents[2] / "docs" / "encodings.md").read_text("utf-8")
    table = page.partition("## Models and their specs")[2].partition("## Results")[0]
    dims = DIMS._replace(layers=12, head=192)
    specs = re.findall(r"\| `([^`]+)`", table)
    assert len(specs) > 12
    for spec in specs:
        assert make(spec, dims), spec
    (mla,) = (make(spec, dims) for spec in specs if "mscale_all_dim" in spec)
    assert mla[0]._size == 64


def test_a_step_of_zero_names_the_layers():
    with pytest.raises(ValueError, match="layers must be slices .* got '::0'"):
        make("rope[::0]", DIMS)
