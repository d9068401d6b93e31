"""Training: its numbers, the pairing of seeds and encodings, and a seed that diverges."""

import dataclasses
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from commands import messages

from pe_jax.data import batches as data
from pe_jax.encoding import Encoding
from pe_jax.encodings import ENCODINGS
from pe_jax.model import lm as language_model
from pe_jax.model.config import LmConfig
from pe_jax.specs.parse import make
from pe_jax.storage.checkpoints import digests
from pe_jax.storage.jsonl import History, read_lines
from pe_jax.training.config import TrainConfig
from pe_jax.training.loop import train
from pe_jax.training.session import Session
from pe_jax.training.step import init, make_steps, structure

LM = LmConfig(vocab=16, layers=1, model=16, heads=2, attention="dense")
CONFIG = TrainConfig(steps=8, length=8, batch=4, rate=3e-3, warmup=2)
DIMS = LM.dims(CONFIG.length)


@dataclasses.dataclass(frozen=True)
class Poison(Encoding):
    """NaN wherever a sequence holds the token 15."""

    def embed(self, params, x, tokens, pos):
        return jnp.where((tokens == 15).any(), jnp.nan, x)


@dataclasses.dataclass(frozen=True)
class Idle(Encoding):
    """Parameters that change nothing: NoPE with another tree."""

    def init(self, key):
        return {"w": jax.random.normal(key, (self.dims.heads,))}

    def relative_bias(self, params, n):
        return 0.0 * params["w"][:, None] * n[None]


@dataclasses.dataclass(frozen=True)
class Spy(Encoding):
    """Says which positions every sequence has."""

    def embed(self, params, x, tokens, pos):
        jax.debug.callback(lambda pos: SEEN.append(tuple(pos.tolist())), pos)
        return x


SEEN = []


def batches(count=4, replicas=1, seed=0, config=CONFIG, vocab=15):
    shape = (count, replicas, config.batch, config.length + 1)
    return np.random.default_rng(seed).integers(0, vocab, shape).astype(np.int32)


@functools.cache
def compiled(encodings, seeds, config, lm):
    steps = make_steps(structure(lm, encodings)[0], config, seeds)
    return jax.device_get(init(lm, encodings, config, seeds)), steps


def start(encodings=None, seeds=(0,), config=CONFIG, lm=LM):
    """(state, steps) of an untrained model; the state is given away by a call."""
    encodings = make("rope", DIMS) if encodings is None else encodings
    state, steps = compiled(encodings, seeds, config, lm)
    return jax.tree.map(jnp.array, state), steps


def assert_trees_equal(a, b):
    assert digests(a) == digests(b)


def test_two_steps_give_the_recorded_values():
    lm = dataclasses.replace(LM, layers=2, dropout=0.1)
    spec = make("randomized+learned(length=256)+t5", lm.dims(CONFIG.length))
    state, steps = start(spec, (0, 7), lm=lm)
    state, out = steps(state, batches(2, 2))
    size = sum(float(jnp.abs(a).sum()) for a in jax.tree.leaves(state["params"]))
    got = np.concatenate([np.ravel(out["loss"]), np.ravel(out["grad_norm"]), [size]])
    losses = [3.2937524, 2.9629529, 3.3348436, 3.0582185]
    norms = [1.9220059, 1.5485063, 1.7758538, 1.7144284]
    recorded = [*losses, *norms, 2530.9986]
    np.testing.assert_allclose(
        got,
        recorded,
        rtol=2e-5,
        err_msg="Two training steps no longer give the recorded numbers. If the model, optimizer "
        "or order of random keys was meant to change, results from before cannot be compared "
        "with those from now on: say so in the commit and record the new values here. Else find "
        "what changed.",
    )


def test_steps_in_one_scan_are_steps_one_by_one():
    many, steps = start(seeds=(0, 1))
    one, _ = start(seeds=(0, 1))
    text = batches(4, 2)
    many, out = steps(many, text)
    losses = []
    for i in range(4):
        one, alone = steps(one, text[i : i + 1])
        losses.append(alone["loss"][0])
    np.testing.assert_allclose(out["loss"], losses, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), many, one)
    assert many["step"] == one["step"] == 4


def test_the_rate_warms_up_and_decays():
    config = TrainConfig(steps=1000, rate=0.01, warmup=40, final=0.1)
    rate = config.rates_by_step()
    np.testing.assert_allclose(
        [rate(0), rate(20), rate(40)], [0.01 / 40, 0.01 * 0.5125, 0.01], rtol=1e-5
    )
    np.testing.assert_allclose([rate(520), rate(1000)], [0.0055, 0.001], rtol=1e-5)
    rates = [float(rate(step)) for step in range(40, 1001)]
    assert rates == sorted(rates, reverse=True)
    short = TrainConfig(steps=50, rate=0.01, warmup=40).rates_by_step()
    np.testing.assert_allclose(short(5), 0.01, rtol=1e-5)  # a tenth of all steps
    one = TrainConfig(steps=1, rate=0.01).rates_by_step()
    np.testing.assert_allclose(one(0), 0.01, rtol=1e-5)


def test_the_optimizer_is_clipped_adamw_by_hand():
    config = TrainConfig(steps=100, rate=0.1, warmup=4, decay=0.5, clip=1.0, beta1=0.8, beta2=0.9)
    params = {"dense": {"kernel": jnp.array([1.0, -2.0])}, "shared": {"0": {"w": jnp.array([3.0])}}}
    optimizer = config.optimizer()
    state, update = optimizer.init(params), jax.jit(optimizer.update)
    p, m, v = np.array([1.0, -2.0, 3.0]), np.zeros(3), np.zeros(3)
    grads = [[30.0, 0.0, 40.0], [0.1, 0.2, -0.2], [-3.0, 4.0, 0.0]]
    rates = [0.1 / 4, 0.1 / 4 + 0.075 / 4, 0.1 / 4 + 2 * 0.075 / 4]
    for t, (g, rate) in enumerate(zip(np.array(grads), rates, strict=True), start=1):
        tree = {"dense": {"kernel": jnp.array(g[:2])}, "shared": {"0": {"w": jnp.array(g[2:])}}}
        tree = jax.tree.map(lambda a: a.astype(jnp.float32), tree)
        updates, state = update(tree, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        g = g / max(1.0, np.linalg.norm(g))
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g**2
        step = m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.9**t)) + 1e-8)
        p = p - rate * (step + 0.5 * p * np.array([1, 1, 0]))
        got = np.concatenate([params["dense"]["kernel"], params["shared"]["0"]["w"]])
        np.testing.assert_allclose(got, p, rtol=1e-5)


def test_the_gradient_is_clipped_by_the_norm_of_one_replica():
    """Weights of another scale in one replica do not change how far the other one moves."""
    both, steps = start(seeds=(0, 1))
    both["params"]["head"]["kernel"] = both["params"]["head"]["kernel"].at[1].multiply(1e3)
    text = batches(1, 2)
    both, out = steps(both, text)
    alone, one = start(seeds=(0,))
    alone, norm = one(alone, text[:, :1])
    assert (
        out["grad_norm"][0, 1] > 10 * CONFIG.clip
        and out["grad_norm"][0, 1] > 5 * norm["grad_norm"][0, 0]
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a[0], b[0], rtol=1e-4, atol=1e-6),
        both["params"],
        alone["params"],
    )


def test_the_loss_is_the_mean_nats_of_the_next_tokens():
    state, steps = start()
    state["params"]["head"]["kernel"] *= 0
    _, out = steps(state, batches(1))
    np.testing.assert_allclose(out["loss"], math.log(LM.vocab), rtol=1e-6)


def test_the_loss_falls_on_a_text_that_can_be_learned():
    config = dataclasses.replace(CONFIG, steps=60, rate=0.01)
    state, steps = start(config=config, seeds=(0, 1))
    pattern = np.tile(np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32), 8)
    text = np.stack([pattern[i : i + 9] for i in range(4)])
    state, out = steps(state, np.broadcast_to(text, (60, 2, 4, 9)))
    assert (out["loss"][0] > 2).all() and (out["loss"][-1] < 0.3).all()
    assert (state["diverged"] == -1).all()


DROPPING = dataclasses.replace(LM, dropout=0.2)


def test_encodings_are_paired():
    """One seed gives every encoding the same weights, batches and dropout."""
    text = batches(3, 2)
    nope, steps = start(make("nope", DIMS), (3, 4), lm=DROPPING)
    idle, idle_steps = start((Idle(DIMS),), (3, 4), lm=DROPPING)
    assert_trees_equal(nope["params"]["blocks"], idle["params"]["blocks"])
    _, a = steps(nope, text)
    _, b = idle_steps(idle, text)
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-5)
    assert np.abs(a["loss"][:, 0] - a["loss"][:, 1]).min() > 1e-3  # seeds differ


def test_a_seed_does_not_see_its_neighbours():
    """A replica among others is the replica alone, from the first weights to the last."""
    spec, text = make("nope", DIMS), batches(3, 2)
    pair, steps = start(spec, (3, 4), lm=DROPPING)
    alone, one = start(spec, (4,), lm=DROPPING)
    for a, b in zip(jax.tree.leaves(pair["params"]), jax.tree.leaves(alone["params"]), strict=True):
        np.testing.assert_allclose(a[1], b[0], rtol=1e-6)
    pair, a = steps(pair, text)
    alone, b = one(alone, text[:, 1:])
    np.testing.assert_allclose(a["loss"][:, 1], b["loss"][:, 0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODINGS)
def test_the_first_steps_of_a_seed_are_those_of_its_solo_run(name):
    """The losses, and the means of the encoding's gradients that Adam keeps. Not its parameters:
    Adam takes whole steps by gradients that rounding alone tells from 0.
    """
    spec, text = make(name, DIMS), batches(3, 2)
    pair, steps = start(spec, (3, 4))
    alone, one = start(spec, (4,))
    pair, a = steps(pair, text)
    alone, b = one(alone, text[:, 1:])
    np.testing.assert_allclose(a["loss"][:, 1], b["loss"][:, 0], rtol=1e-5)
    two, solo = (optax.tree.get(state["optimizer"], "mu") for state in (pair, alone))
    for part in {"shared", "owned"} & set(solo):
        means = [np.asarray(mean[0]) for mean in jax.tree.leaves(solo[part])]
        most = max((np.abs(mean).max() for mean in means), default=0)
        for got, mean in zip(jax.tree.leaves(two[part]), means, strict=True):
            np.testing.assert_allclose(got[1], mean, atol=1e-4 * most)


def test_a_diverged_seed_is_marked_and_harms_no_other():
    spec = (*make("rope", DIMS), Poison(DIMS))
    text = batches(8, 3)
    poisoned = text.copy()
    poisoned[3, 1, 2, 4] = 15
    poisoned[5, 2, 0, 0] = 15
    state, steps = start(spec, (0, 1, 2))
    state, out = steps(state, poisoned[:4])
    state, more = steps(state, poisoned[4:])
    np.testing.assert_array_equal(state["diverged"], [-1, 3, 5])
    losses = np.concatenate([out["loss"], more["loss"]])
    np.testing.assert_array_equal(np.isfinite(losses).sum(0), [8, 3, 5])

    clean, _ = start(spec, (0, 1, 2))
    clean, kept = steps(clean, text[:4])
    np.testing.assert_array_equal(kept["loss"][:, 0], out["loss"][:, 0])
    clean, _ = steps(clean, text[4:])
    assert_trees_equal(
        jax.tree.map(lambda a: a[0], clean["params"]), jax.tree.map(lambda a: a[0], state["params"])
    )
    assert (clean["diverged"] == -1).all()


def test_one_program_serves_every_call():
    state, steps = start(seeds=(0, 1))
    steps = make_steps(structure(LM, make("rope", DIMS))[0], CONFIG, (0, 1))
    for seed in range(3):
        state, _ = steps(state, batches(1, 2, seed))
    assert steps._cache_size() == 1
    assert state["step"] == 3


@pytest.mark.parametrize("each", (False, pytest.param(True, marks=pytest.mark.slow)))
def test_random_positions_are_drawn_anew_at_each_step(each):
    spec = (*make(f"randomized(per_sequence={each})", DIMS), Spy(DIMS))

    def draws():
        state, steps = start(spec, (0, 1))
        out = []
        for _ in range(3):
            SEEN.clear()
            state, _ = steps(state, batches(1, 2))
            jax.effects_barrier()
            out.append(set(SEEN))
        return out

    first = draws()
    assert [len(step) for step in first] == [2 * CONFIG.batch if each else 2] * 3
    assert len(set.union(*first)) == sum(map(len, first))  # none twice
    assert draws() == first


def test_rematerialised_layers_train_the_same():
    """With a memory, and with dropout, whose draws come back in the backward pass."""
    lm = dataclasses.replace(LM, dropout=0.1, memory=4)
    text, found = batches(2), []
    text = text, np.zeros(text.shape[:-1], bool)
    made = make("t5", lm.dims(12))
    state = init(lm, made, CONFIG, (0,))
    for remat in (False, True):
        config = dataclasses.replace(CONFIG, remat=remat)
        steps = make_steps(structure(lm, made)[0], config, (0,))
        lowered = steps.lower(state, text)
        assert lowered.as_text().count("optimization_barrier") == remat * lm.layers
        found.append(lowered.compile()(jax.tree.map(jnp.copy, state), text))
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-6), *found)


@pytest.mark.parametrize("run", (False, pytest.param(True, marks=pytest.mark.slow)))
def test_layers_that_are_alike_train_as_one_loop(run, monkeypatch):
    monkeypatch.setattr(language_model, "ALIKE", 2)
    model, found = dataclasses.replace(LM, layers=4, dropout=0.1), []
    made = make("t5(per_layer=('table',))", model.dims(12))
    begun = functools.partial(init, model, made, CONFIG, (0,))
    state = begun() if run else jax.eval_shape(begun)
    for scan in (False, True):
        config = dataclasses.replace(CONFIG, scan=scan)
        steps = make_steps(structure(model, made)[0], config, (0,))
        lowered = steps.lower(state, batches(2))
        after = run and lowered.compile()(jax.tree.map(jnp.copy, state), batches(2))
        found.append((lowered.as_text().count("dot_general"), after))
    (unrolled, before), (looped, after) = found
    assert 3 * looped < unrolled
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-6), before, after)


def run_train(folder, seeds, encodings=None, text=None, stop=lambda save: None):
    """(final state, seconds, lines of metrics.jsonl, what was said)."""
    config = dataclasses.replace(CONFIG, steps=9, steps_per_call=3)
    encodings = make("randomized+rope", DIMS) if encodings is None else encodings
    text = np.random.default_rng(0).integers(0, 15, 400) if text is None else text
    folder.mkdir(exist_ok=True)
    history, checkpoints = History(folder / "metrics.jsonl"), folder / "-".join(map(str, seeds))
    session = Session(history, stop)
    with messages() as said:
        state, seconds = train(LM, encodings, config, seeds, [text], checkpoints, session)
    return state, seconds, read_lines(history.path), said


@pytest.fixture(scope="module")
def solo(tmp_path_factory):
    return run_train(tmp_path_factory.mktemp("solo"), (1,))


def test_a_seed_after_another_and_cut_off_twice_is_bit_equal_to_its_solo_run(tmp_path, solo):
    """Killed with no checkpoint, stopped with one, finished, and asked once more."""

    def kill(save):
        raise KeyboardInterrupt

    def interrupt(save):
        save()
        raise KeyboardInterrupt

    _, _, first, said = run_train(tmp_path, (0,))
    assert [line["step"] for line in first] == [3, 6, 9] and said == []
    for stop in (kill, interrupt):
        with pytest.raises(KeyboardInterrupt):
            run_train(tmp_path, (1,), stop=stop)
        lines = read_lines(tmp_path / "metrics.jsonl")
        assert lines[:3] == first and [line["step"] for line in lines[3:]] == [3]
    state, seconds, lines, said = run_train(tmp_path, (1,))
    assert said == ["seeds (1,): going on from step 3 of 9"]
    assert_trees_equal(state, solo[0])
    assert lines[:3] == first and first[0]["loss"] != lines[3]["loss"]
    assert [(a["step"], a["loss"]) for a in lines[3:]] == [(b["step"], b["loss"]) for b in solo[2]]

    again, same, unchanged, said = run_train(tmp_path, (1,))
    assert said == ["seeds (1,): going on from step 9 of 9"]
    assert_trees_equal(again, state)
    assert unchanged == lines and same == pytest.approx(seconds, abs=1)


def test_the_metrics_of_a_diverged_seed_are_null(tmp_path):
    text = np.random.default_rng(0).integers(0, 15, 400)
    text[200] = 15  # one window in 49, of 36 that nine steps see
    state, _, lines, _ = run_train(tmp_path, (0, 1, 2), (Poison(DIMS),), text)
    assert set(state["diverged"] >= 0) == {True, False}
    for line in lines:
        for r, first in enumerate(state["diverged"]):
            assert (line["loss"][r] is None) == (0 <= first < line["step"])
    assert "NaN" not in json.dumps(lines)


def test_training_is_on_the_batches_of_each_seed_in_turn(solo):
    text = np.random.default_rng(0).integers(0, 15, 400)
    order = data.Batches([text], CONFIG.length, CONFIG.batch, 1)
    config = dataclasses.replace(CONFIG, steps=9, steps_per_call=3)
    state, steps = start(make("randomized+rope", DIMS), (1,), config)
    for call, line in enumerate(solo[2]):
        state, out = steps(state, np.stack([order[3 * call + i][None] for i in range(3)]))
        np.testing.assert_allclose(line["loss"], out["loss"].mean(0), rtol=1e-6)
        np.testing.assert_allclose(line["grad_norm"], out["grad_norm"].mean(0), rtol=1e-6)
        assert line["rate"] == pytest.approx(float(config.rates_by_step()(3 * call + 2)))
    assert_trees_equal(state, solo[0])
