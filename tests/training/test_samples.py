"""The samples that training meets: their lengths, and that none comes twice."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pe_jax.model.config import LmConfig
from pe_jax.specs.parse import make
from pe_jax.task import Sample
from pe_jax.tasks.dyck import Dyck
from pe_jax.tasks.reverse_string import ReverseString
from pe_jax.tasks.text import Text
from pe_jax.training import samples
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, make_steps, structure

CONFIG = TrainConfig(length=10, batch=4, steps=400)


def lengths_of_steps(task, config, seed=0):
    """The length of the samples of each step, and their tokens."""
    parts = samples.parts(task, config)

    def step(step):
        number = samples.part_of(parts, step)
        key = jax.random.fold_in(jax.random.key(seed), step)
        draws = [samples.drawing(task, config, part) for part in parts]
        rows, S = jnp.arange(config.batch), task.size(config.length)

        def padded(draw):
            batch, size = draw(rows, key, task.vocab())
            return size, jnp.pad(batch.tokens, ((0, 0), (0, S - batch.tokens.shape[1])))

        return jax.lax.switch(number, [lambda draw=draw: padded(draw) for draw in draws])

    sizes, tokens = jax.jit(jax.vmap(step))(jnp.arange(config.steps))
    return np.asarray(sizes), np.asarray(tokens)


def test_every_length_up_to_the_training_length_is_drawn_equally_often():
    task = ReverseString(causal=False)
    sizes, _ = lengths_of_steps(task, dataclasses.replace(CONFIG, steps=4000))
    counts = collections.Counter(sizes.tolist())
    assert sorted(counts) == [2 * n for n in range(1, 11)]
    assert all(abs(count - 400) < 4 * 19 for count in counts.values())  # four standard deviations


def test_a_task_is_trained_at_the_lengths_it_has():
    assert samples.parts(Dyck(), CONFIG) == ((2,), (4,), (6,), (8, 10))
    with pytest.raises(ValueError, match="Dyck has no sample of length 1 or less: change train"):
        samples.parts(Dyck(), dataclasses.replace(CONFIG, length=1))


def test_curricula():
    task = ReverseString(causal=False)
    fixed, _ = lengths_of_steps(task, dataclasses.replace(CONFIG, curriculum="fixed"))
    assert set(fixed.tolist()) == {20}


def test_what_is_not_scored_has_no_part_in_the_loss():
    @dataclasses.dataclass(frozen=True)
    class Otherwise(ReverseString):
        def sample(self, key, n, longest):
            drawn = super().sample(key, n, longest)
            return drawn._replace(targets=jnp.where(drawn.scored, drawn.targets, 0))

    lm = LmConfig(vocab=3, layers=1, model=8, heads=1)
    members, config = make("rope", lm.dims(10)), dataclasses.replace(CONFIG, curriculum="fixed")
    losses = []
    for task in (ReverseString(), Otherwise()):
        steps = make_steps(structure(lm, members)[0], config, (0,), task=task)
        _, out = steps(init(lm, members, config, (0,)), samples.rows(4, 1, config.batch))
        losses.append(out["loss"])
    np.testing.assert_array_equal(*losses)


def test_with_a_loss_of_all_each_token_without_a_target_predicts_the_next():
    """`([])` in samples padded to 10: the closings keep their targets, padding has none."""
    task, whole = Dyck(types=2), dataclasses.replace(CONFIG, loss="all", curriculum="fixed")
    rows, drawn = jnp.arange(64), []
    for config in (dataclasses.replace(whole, loss="scored"), whole):
        draw = jax.jit(samples.drawing(task, config, (4, 10)))
        both = (draw(rows, jax.random.key(i), task.vocab()) for i in range(20))
        batch, size = next((batch, size) for batch, size in both if size == 4)
        drawn.append(jax.tree.map(np.asarray, batch))
    scored, every = drawn
    np.testing.assert_array_equal(every.tokens, scored.tokens)
    assert (every.scored == [[True] * 3 + [False] * 7]).all() and not (scored.scored[:, :3]).all()
    np.testing.assert_array_equal(every.targets[:, :3], scored.tokens[:, 1:4])
    given = Sample(*map(jnp.array, ([7, 8, 9, 0], [0, 5, 0, 0], [False, True, False, False])))
    kept = samples._of_every_token(given, jnp.int32(3))
    assert kept.targets[:2].tolist() == [8, 5]
    assert kept.scored.tolist() == [True, True, False, False]


def test_no_sample_of_many_bits_comes_twice():
    task = ReverseString(causal=False)
    config = TrainConfig(length=60, batch=4, steps=200, curriculum="fixed")
    drawn = [lengths_of_steps(task, config, seed)[1] for seed in (0, 1)]
    assert len({row.tobytes() for tokens in drawn for step in tokens for row in step}) == 1600


def test_windows_of_text_are_one_size():
    assert samples.parts(Text(), CONFIG) == ((10,),)
    assert samples.mean_size(Text(), CONFIG) == 10
    assert samples.mean_size(ReverseString(), CONFIG) == 11
