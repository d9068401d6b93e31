"""A swap that changes nothing is told before anything is trained or scored."""

import dataclasses

import jax
import pytest
from helpers import DIMS

from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.rope import RoPE
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.effect import check
from pe_jax.runs.run import Run
from pe_jax.spec.parse import make
from pe_jax.spec.swap import replaces
from pe_jax.tasks.copy import Copy

L = 8


def checked(trained, *swaps, lengths=(L, 4 * L), dims=DIMS):
    config = EvalConfig(lengths=lengths, swaps=swaps).resolved(L)
    check(make(trained, dims._replace(train_len=L)), config)


@pytest.mark.parametrize(
    ("trained", "spec"),
    [
        ("rope", "rope"),
        ("rope", "nope"),
        ("t5+rope", "pi(factor=1.0)"),
        ("rope", "ntk(factor=1.0)"),
        ("rope", "yarn(factor=1.0)"),
        ("rope", "dynamic_ntk(length=32)"),
        ("rope", "longrope(length=32)"),
        ("rope", "rerope(window=32)"),
        ("rope", "leaky_rerope(factor=1.0)"),
        ("rope", "self_extend(group=1)"),
        ("rope", "lm_infinite(window=32)"),
        ("rope", "chunk(chunk=32)"),
        ("rope[::2]", "pi(factor=1.0)"),
        ("randomized+rope", "pi(factor=1.0)"),
        ("rope", "window(window=32)"),
        ("rope", "window(window=1,sinks=32)"),
        ("alibi", "log_n(length=32)"),
        ("learned(length=64)", "hierarchical"),
        ("fire", "fire"),
    ],
)
def test_a_swap_that_has_no_effect_is_refused(trained, spec):
    with pytest.raises(ValueError) as error:
        checked(trained, "window", spec)
    said = str(error.value)
    assert f"the swap {spec!r} had no effect" in said and "(8, 32)" in said and "\n" not in said


FOR_ROPE = [
    name
    for name, cls in ENCODINGS.items()
    if replaces(cls, RoPE) and cls is not RoPE and not cls(DIMS).init(jax.random.key(0))
]


@pytest.mark.parametrize("name", FOR_ROPE)
def test_what_changes_something_beyond_the_training_length_is_not(name):
    checked("rope", name)
    checked("t5+rope", f"{name}+log_n", f"{name}(base=50.0)" if name != "drope" else "drope(c=9.0)")


def test_a_change_at_one_length_or_of_one_layer_or_of_the_limit_is_enough():
    checked("rope", "window(window=31)", "rerope(window=30)", "pi", lengths=(L, 2 * L, 4 * L))
    checked("rope[1:]", "pi")
    checked("learned", "learned(clip=True)")
    checked("learned(length=16)", "hierarchical")
    checked("randomized+rope", "rerope(window=40)")  # its positions are further apart


def test_within_the_training_length_scalings_have_none_and_the_default_window_may():
    checked("rope", "window", lengths=(L,))
    for spec in ("pi", "yarn", "lm_infinite"):
        with pytest.raises(ValueError, match=r"had no effect: at every evaluated length \(8\)"):
            checked("rope", spec, lengths=(L,))


def test_samples_of_tasks_are_as_long_as_they_are_in_tokens():
    task = Copy()
    n = next(n for n in range(4, 40) if task.has(n))
    size = task.size(n)
    dims = DIMS._replace(train_len=size, vocab=task.vocab())
    config = EvalConfig(lengths=(n,), metrics=task.metrics, swaps=(f"window(window={size - 1})",))
    check(make("rope", dims), config, task=task)
    config = dataclasses.replace(config, swaps=(f"window(window={size})",))
    with pytest.raises(ValueError, match="had no effect"):
        check(make("rope", dims), config, task=task)


def test_a_config_with_such_a_swap_is_refused_whole():
    config = {"pe": "rope", "eval": {"swaps": ("pi(factor=1.0)",)}}
    with pytest.raises(ValueError, match="had no effect"):
        Run.of(config)
    assert Run.of(config | {"eval": {"swaps": ("pi(factor=2.0)",)}}).eval.swaps
