"""What a composition seldom means to: parameters out of training's reach, things done twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import Lab, tiny
from studies import table_of

from pe_jax.encoding import Dims
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.t5 import T5
from pe_jax.report import study
from pe_jax.specs.advice import advice
from pe_jax.specs.parse import make, parse
from pe_jax.specs.swap import swap

DIMS = Dims(model=32, heads=4, head=8, layers=4, train_len=64)


def told(spec, dims=DIMS):
    return list(advice(make(spec, dims), [member.id for member in parse(spec)]))


def test_defaults_need_no_advice_at_the_quickstarts_length():
    assert {name: told(name) for name in ENCODINGS if told(name)} == {}


def test_buckets_that_training_does_not_reach():
    (doubt,) = told("t5(max_distance=128)")
    assert "t5: training at 64 tokens never uses its parameters for 64 to 113 tokens" in doubt
    assert "train at 114 or more" in doubt
    assert told("t5(max_distance=128)", DIMS._replace(train_len=114)) == []


@pytest.mark.parametrize("buckets, most", [(32, 128), (32, 64), (16, 100), (32, 17), (8, 1000)])
def test_t5_is_trained_from_where_its_last_bucket_begins(buckets, most):
    e = T5(DIMS, buckets, most)
    table = {"table": jnp.arange(buckets, dtype=jnp.float32)[None]}
    met = np.array(jax.jit(e.relative_bias)(table, jnp.arange(2 * most)))[0]
    assert e.trained_from() == 1 + met.argmax()
    assert met.max() == buckets - 1


@pytest.mark.parametrize(
    "spec",
    ["shaw(clip=20)", "deberta(clip=20)", "deberta(clip=8,variant='v2')", "urpe(rows=20)", "t5"],
)
def test_what_is_trained_from_is_where_every_parameter_has_a_gradient(spec):
    """By gradients, with only the distances of `length` tokens."""
    (e,) = make(spec, DIMS)
    params = e.init(jax.random.key(0))

    def untrained(length):
        n = jnp.arange(length, dtype=jnp.float32)

        def loss(params):
            hooks = (e.relative_bias, e.relative_keys, e.relative_queries, e.relative_values)
            terms = [jnp.sum(jnp.sin(hook(params, n))) for hook in hooks]
            return sum(terms) + jnp.sum(e.relative_gate(params, n))

        grads = jax.jit(jax.grad(loss))(params)
        rows = [np.abs(g).reshape(-1) for g in jax.tree.leaves(grads)]
        return sum(int((row == 0).sum()) for row in rows)

    needed = e.trained_from()
    assert untrained(needed) == 0 < untrained(needed - 1)


def test_positions_that_another_member_moves_are_not_judged():
    assert told("randomized+t5(max_distance=128)") == []
    assert told("shape+learned(length=640)") == []
    assert len(told("learned(length=640)")) == 1


@pytest.mark.parametrize(
    "spec, what",
    [
        ("t5+tupe", "add a bias of the distance"),
        ("alibi+alibi", "do what ALiBi does"),
        ("rope+pi", "do what RoPE does"),
        ("rope+pope", "do what RoPE does"),
        ("xpos+p_rope", "do what RoPE does"),
        ("learned+hierarchical", "do what Learned does"),
    ],
)
def test_what_two_members_both_do(spec, what):
    (doubt,) = told(spec)
    assert what in doubt and "layer 0" in doubt
    a, b = spec.split("+")
    assert not any("both" in doubt for doubt in told(f"{a}[::2]+{b}[1::2]"))


def test_hybrids_of_the_literature_do_nothing_twice():
    for spec in ("learned+t5", "rope+alibi", "sinusoidal+shaw", "nope+nope", "forget_gate+rope"):
        assert told(spec) == []


def test_a_scaling_swapped_for_itself_gets_the_factor_of_each_length_where_its_own_is_known():
    """A model of YaRN from 16 to 64 tokens reads 128 at eight times its 16."""
    dims = Dims(model=32, heads=2, head=16, layers=1, train_len=64)
    own = make("yarn(factor=4.0,length=16,attention_factor=1.5)", dims)
    (e,) = (e.at(128) for e in swap(own, "yarn"))
    assert (e.factor, e.length, e.attention_factor) == (8.0, 16, 1.5)
    (e,) = swap(own, "yarn(factor=2.0)")
    assert e.factor == 2.0
    (e,) = swap(make("yarn(factor=4.0)", dims), "yarn")
    assert e.factor == 4.0


def test_a_rotation_of_ones_own_that_names_no_family_is_not_put_beside_rope(tmp_path):
    path = tmp_path / "mine.py"
    text = (
        "import dataclasses\nfrom pe_jax import Encoding\n\n\n@dataclasses.dataclass(frozen=True)\n"
    )
    text += "class Turn(Encoding):\n    def qk(self, params, q, k, q_pos, k_pos):\n"
    path.write_text(text + "        return q * 1.0, k\n")
    dims = Dims(model=32, heads=2, head=16, layers=1, train_len=64)
    for model, spec, words in (
        ("rope", f"{path}:Turn", "RoPE: no swap; it takes its place with family = 'RoPE'"),
        (f"{path}:Turn", "pi", "this model's Turn: no swap$"),
    ):
        with pytest.raises(ValueError, match=words):
            swap(make(model, dims), spec)


def test_a_swap_that_would_rotate_twice_is_refused():
    for spec in ("xpos", "p_rope", "partial_rope", "pope"):
        with pytest.raises(ValueError, match="would do a second time what this model's"):
            swap(make(spec, DIMS), "pi")
    (pi,) = swap(make("rope", DIMS), "pi")
    assert type(pi).__name__ == "PI"


def test_a_run_tells_it_and_keeps_it_for_the_table(tmp_path_factory, tmp_path):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    arguments = tiny(**{"data.source": lab.text, "train.steps": 2, "eval.lengths": (16,)})
    config = "--config=configs/base.py:pe=t5"  # 16 exact buckets, at a training length of 16
    done = lab.start("run", config, *arguments, f"--workdir={tmp_path}").wait()
    assert done.code == 0, done.err
    assert "note: t5: training at 16 tokens never uses" in done.err + done.out
    notes = table_of(study.load(tmp_path)).notes
    assert any("t5: training at 16 tokens" in note for note in notes)
