"""Depths and baselines of the samples that models are scored on, and variants of a task."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pe_jax.evaluation.baselines import baselines, most_frequent, per_token
from pe_jax.evaluation.config import EvalConfig, variant
from pe_jax.evaluation.passes import Key
from pe_jax.evaluation.scorers import _by_depth
from pe_jax.evaluation.scoring import held_out
from pe_jax.metric import Predictions
from pe_jax.metrics import METRICS
from pe_jax.record import AS_TRAINED, Replica
from pe_jax.tasks import TASKS
from pe_jax.tasks.flip_flop import FlipFlop

draw = jax.jit(held_out, static_argnames=("task", "longest", "split"))


def scores(task, n, samples=2000, metric="accuracy"):
    config = EvalConfig(metrics=(metric,), samples=samples, last=1)
    return {one.name: one.value for one in baselines(task, n, config)}


def test_the_most_frequent_target_is_that_of_each_scored_place_by_its_order():
    targets = np.array([[9, 1, 2, 9], [1, 9, 3, 9], [9, 0, 3, 2]])
    scored = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 1, 1]], bool)
    places = np.array([[1, 0, 1, 0, 1], [0, 1, 0, 0, 0], [1, 1, 1, 1, 0]], bool)
    found = most_frequent(targets, scored, places)
    assert found[places].tolist() == [1, 3, 2, 1, 1, 3, 2, 1]  # of all targets, 1 comes first


@pytest.mark.parametrize(
    ("name", "n", "share"),
    [
        ("bucket_sort", 10, 59.8),
        ("bucket_sort", 40, 77.8),
        ("compute_sqrt", 10, 60),
        ("stack_manipulation", 40, 49),
        ("modular_arithmetic_brackets", 20, 27.9),
    ],
)
def test_the_most_frequent_target_scores_what_is_known(name, n, share):
    found = scores(TASKS[name](), n)
    assert found.keys() - {"most frequent symbol"} == {"most frequent"}
    assert found["most frequent"] == pytest.approx(share, abs=2.5)


def test_random_positions_are_drawn_by_other_keys_than_the_samples():
    task = TASKS["induction"]()
    drawn, keys = draw(task, jnp.int32(20), jnp.arange(8), 20, "test")
    again = jax.jit(jax.vmap(lambda key: task.sample(key, 20, 20)))(keys)
    assert (drawn.tokens != again.tokens).any(axis=1).all()


def test_samples_of_validation_are_others_than_those_of_the_test():
    task = TASKS["induction"]()
    of_test, of_validation = (
        draw(task, jnp.int32(20), jnp.arange(8), 20, split)[0].tokens for split in ("test", "valid")
    )
    assert (of_test != of_validation).any(axis=1).all()


def test_the_most_frequent_target_is_counted_in_other_samples_than_those_it_is_scored_on():
    task, n, samples = TASKS["induction"](), 9, 3
    answers = draw(task, jnp.int32(n), jnp.arange(6), n, "test")[0].targets[:, -1].tolist()
    ours, others = answers[:samples], answers[samples:]
    right, own = (ours.count(max(range(18), key=known.count)) for known in (others, ours))
    assert scores(task, n, samples)["most frequent"] == pytest.approx(100 * right / samples)
    assert right < own


def test_the_most_frequent_symbol_is_that_of_all_places_of_other_samples():
    """Of stack manipulation, whose samples have several scored tokens, counted one by one."""
    task, n, samples = TASKS["stack_manipulation"](), 20, 30
    drawn, _ = draw(task, jnp.int32(n), jnp.arange(2 * samples), n, "test")
    targets, scored = np.asarray(drawn.targets), np.asarray(drawn.scored)
    pairs = [
        (row, int(target))
        for row in range(2 * samples)
        for target, counts in zip(targets[row], scored[row], strict=True)
        if counts
    ]
    others = [target for row, target in pairs if row >= samples]
    symbol = max(sorted(set(others)), key=others.count)
    ours = [target for row, target in pairs if row < samples]
    found = scores(task, n, samples)["most frequent symbol"]
    assert found == pytest.approx(100 * ours.count(symbol) / len(ours))
    assert "most frequent symbol" not in scores(TASKS["parity_check"](), n, samples)


@pytest.mark.parametrize(("ignore", "share"), [(0.1, 95), (0.8, 60), (0.98, 50)])
def test_the_bit_of_the_pair_before_scores_what_is_known(ignore, share):
    assert scores(FlipFlop(ignore=ignore), 512)["guess"] == pytest.approx(share, abs=2.5)


def test_a_guess_that_is_the_oracle_has_no_error():
    @dataclasses.dataclass(frozen=True)
    class Known(FlipFlop):
        def guess(self, tokens):
            return [0 if want is None else want for want in self.oracle(tokens)]

    assert scores(Known(), 40, 50, "exact_match")["guess"] == 100


def test_depths_are_those_of_each_sample_and_of_padding_there_is_none():
    task = TASKS["induction"]()
    (tokens, _, _), _ = draw(task, jnp.int32(20), jnp.arange(50), 32, "test")
    found = per_token(task.depths, np.asarray(tokens), task.size(20))
    assert found is not None and found.shape == (50, 32)
    assert np.isfinite(found[:, 19]).all() and np.isnan(np.delete(found, 19, axis=1)).all()
    assert found[:, 19].min() < 0.2 and found[:, 19].max() > 0.7
    other = TASKS["reverse_string"]()
    assert per_token(other.depths, np.zeros((2, 16), np.int32), 8) is None


def test_a_curve_by_depth_has_the_values_of_its_metric():
    depth = np.array([[0.05, np.nan, 0.95], [0.05, 0.95, np.nan]])
    p = np.array([[0.5, 0.1, 0.25], [1.0, 0.75, 0.1]])
    made = Predictions(~np.isnan(depth), p > 0.6, -np.log(p), *[np.full(p.shape, np.nan)] * 3)
    metrics = {"right": METRICS["accuracy"]}
    metrics["p"] = dataclasses.replace(
        METRICS["accuracy"], value=lambda made: float(np.exp(-made.nats[made.scored]).mean())
    )
    for name, value in {"right": (50.0, 50.0), "p": (0.75, 0.5)}.items():
        key = Key(Replica("seed", 0), AS_TRAINED, name, 3)
        found = _by_depth(key, metrics[name], made, 1, depth).value
        assert found == pytest.approx((value[0], *[None] * 8, value[1]))


def test_a_variant_has_other_values_of_the_fields_it_names():
    assert variant(FlipFlop(), "ignore=0.98") == FlipFlop(ignore=0.98)
    assert variant(TASKS["dyck"](), "types=8, deepest=3") == TASKS["dyck"](deepest=3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ingore=0.5", "no field 'ingore'; did you mean 'ignore'?"),
        ("ignore=2.0", "FlipFlop's ignore"),
        ("0.5", "cannot read '0.5'"),
        ("ignore=0.5)", "a variant is"),
        ("causal=False", "no field 'causal'"),
        ("ignore=0.8", "changes no sample"),
    ],
)
def test_a_variant_that_is_not_possible_is_refused(text, said):
    config = EvalConfig(lengths=(8,), variants=(text,), swaps=())
    with pytest.raises(ValueError, match=re.escape(said)):
        config.resolved(8, task=FlipFlop())


def test_a_variant_has_the_tokens_and_the_lengths_of_the_evaluation():
    with pytest.raises(ValueError, match="has 4 tokens with 'types=2' and 16 in training"):
        variant(TASKS["dyck"](), "types=2")
    config = EvalConfig(lengths=(10,), variants=("data=8",), swaps=())
    with pytest.raises(ValueError, match="SelectiveCopy with data=8 has no samples of length 10"):
        config.resolved(10, task=TASKS["selective_copy"]())
    with pytest.raises(ValueError, match=r"eval\.variants are of tasks that draw their samples"):
        EvalConfig(variants=("ignore=0.5",)).resolved(64)
