"""Segment memory: what it equals, what it is refused for, and that training with it goes on."""

import dataclasses
import functools
import json
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from commands import lines, result, run_of, the_run
from flax import nnx
from helpers import assert_near, covering
from test_decode import ONE, TWO, encodings
from test_lm import model, text

from pe_jax.attention.bound import fold_positions
from pe_jax.data import batches as data
from pe_jax.encoding import Encoding, acts_once, overrides
from pe_jax.evaluation.scoring import target_nats
from pe_jax.model.cache import Past
from pe_jax.model.config import LmConfig
from pe_jax.model.memory import Memory
from pe_jax.specs.parse import make
from pe_jax.storage.checkpoints import flat
from pe_jax.training import mesh
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, make_steps, structure

SEGMENT, COUNT = 5, 4
TOTAL = SEGMENT * COUNT
KEY = jax.random.key(5)


MORE = ("learned[0:]", "sinusoidal[1:]+alibi", "window(window=3,sinks=2)+rope")
MORE += ("kimi_delta[:1]+rope[1:]", "recurrent[0:1]+retention[1:]")
# what is kept in empty places, and which position a row begins with, would show
READ_ROWS = """
conv[0:] bipe(ends=(1,3))[0:]+rope abacus(digits=3)+learned(length=300)[0:]
position_coupling(digits=1,equals=3,backwards=False)+rope floater[0:]
recurrent[0:1]+gated_delta[1:] rope+ssmax fire(threshold=2) path
rope(rotary_pct=0.5)+key_offset
""".split()


def members(name):
    return make(name, TWO.dims(64)) if name in (*MORE, *READ_ROWS) else encodings(name, ONE)


def served():
    """The encodings and compositions that a memory serves."""
    for name in dict.fromkeys((*CASES, *MORE, *READ_ROWS)):
        if not any(overrides(e, "embed") and acts_once(e) for e in members(name)):
            yield name


@functools.partial(jax.jit, static_argnames=("graphdef", "members"))
def both(params, tokens, pos, *, graphdef, members):
    """Logits at once, and of all segments, one after another, with a memory that holds all."""
    lm = nnx.merge(graphdef, params, copy=True)

    def one(kept, piece):
        here = jnp.maximum(kept.see(piece)[0].pos, 0)
        given = dataclasses.replace(kept, pos=None if pos is None else pos[..., here])
        logits, kept = lm(piece, given, encodings=members, key=KEY)
        return dataclasses.replace(kept, pos=None), logits

    pieces = jnp.moveaxis(tokens.reshape(len(tokens), COUNT, SEGMENT), 1, 0)
    _, out = jax.lax.scan(one, Memory.empty(lm.config, len(tokens), TOTAL), pieces)
    by_segments = jnp.moveaxis(out, 0, 1).reshape(*tokens.shape, -1)
    whole, _ = lm(tokens, Past.none(lm.config.layers, pos), encodings=members)
    return whole, by_segments


KEPT = (*MORE, *READ_ROWS, "cope", "randomized")
OTHERS = covering(dict.fromkeys((*KEPT, *served())), members)[len(KEPT) :]


@pytest.mark.parametrize("name", (*KEPT, *OTHERS))
def test_a_memory_that_holds_all_is_the_full_forward_pass(name):
    here = tuple(e.at(TOTAL) for e in members(name))
    graphdef, params = model(here, TWO if name in (*MORE, *READ_ROWS) else ONE)
    tokens, pos = text(TOTAL, vocab=4), None
    if any(overrides(e, "positions") for e in here):
        pos = fold_positions(here, tokens, jnp.arange(TOTAL), KEY, False)
    want, got = both(params, tokens, pos, graphdef=graphdef, members=here)
    assert np.isfinite(want).all()
    assert_near(got, want, 1e-5, name)


@functools.partial(jax.jit, static_argnames="graphdef")
def segment(params, tokens, kept, *, graphdef):
    """(logits, the memory afterwards) of one segment."""
    return nnx.merge(graphdef, params, copy=True)(tokens, kept)


def two_segments(spec="transformer_xl"):
    """(a program for one segment, its text and that of the next)."""
    graphdef, params = model(make(spec, TWO.dims(SEGMENT)), TWO)
    tokens = text(2 * SEGMENT)
    program = functools.partial(segment, params, graphdef=graphdef)
    return program, tokens[:, :SEGMENT], tokens[:, SEGMENT:]


def nothing(size):
    return Memory.empty(TWO, 2, size)


def test_the_keys_of_the_memory_are_seen_and_a_short_one_forgets():
    program, first, second = two_segments()
    _, kept = program(first, nothing(SEGMENT))
    short = jax.tree.map(lambda a: a[:, -2:] if a.ndim > 1 else 0 * a + 2, kept)
    after = [program(second, memory)[0] for memory in (kept, short, nothing(SEGMENT))]
    assert np.abs(after[0] - after[1]).max() > 1e-3
    assert np.abs(after[1] - after[2]).max() > 1e-3
    _, once = program(first, nothing(2))
    for got, want in zip(jax.tree.leaves(once), jax.tree.leaves(short), strict=True):
        assert_near(got, want, 1e-5)


def test_checkpoints_name_the_arrays_of_a_memory_as_they_always_did():
    program, first, _ = two_segments()
    _, kept = program(first, nothing(3))
    arrays = flat({"memory": kept.state()})
    layers = [f"memory.layer {layer}.hidden" for layer in range(TWO.layers)]
    assert sorted(arrays) == ["memory.filled", *layers, "memory.tokens"]
    again = Memory.of_state(kept.state())
    assert jax.tree.structure(again) == jax.tree.structure(kept)
    for got, want in zip(jax.tree.leaves(again), jax.tree.leaves(kept), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_row_whose_text_begins_forgets_and_the_others_do_not():
    program, first, second = two_segments()
    _, kept = program(first, nothing(8))
    after, _ = program(second, kept.forgotten(jnp.array([True, False])))
    assert_near(after[0], program(second, nothing(8))[0][0], 1e-5)
    assert_near(after[1], program(second, kept)[0][1], 1e-5)
    assert np.abs(after[0] - program(second, kept)[0][0]).max() > 1e-3


@pytest.mark.parametrize("spec", READ_ROWS)
def test_a_forgotten_text_and_another_row_change_nothing(spec):
    graphdef, params = model(make(spec, TWO.dims(64)), TWO)
    program = functools.partial(segment, params, graphdef=graphdef)
    tokens = text(2 * SEGMENT, vocab=4)
    first, second = tokens[:, :SEGMENT], tokens[:, SEGMENT:]
    begun = nothing(8).forgotten(jnp.array([True, True]))
    _, kept = program(first, begun)
    after, _ = program(second, kept.forgotten(jnp.array([True, False])))
    assert_near(after[0], program(second, begun)[0][0], 1e-5)
    assert_near(after[1], program(second, kept)[0][1], 1e-5)


def test_random_positions_rise_from_the_first_token_of_a_memory_on():
    (randomized,) = make("randomized(max=30)", TWO.dims(SEGMENT))
    filled = jnp.array([0, 3, 8])
    kept = dataclasses.replace(Memory.empty(TWO, 3, 8), filled=filled)
    seen, _ = kept.see(text(SEGMENT, batch=3))
    pos = np.asarray(fold_positions((randomized,), seen.tokens, seen.pos, KEY, True))
    for row, count in zip(pos, filled, strict=True):
        here = row[8 - count :]
        assert (np.diff(here) > 0).all() and here.max() < 30


def test_no_gradient_goes_back_into_the_memory_and_the_weights_get_one_through_it():
    graphdef, params = model(make("transformer_xl", TWO.dims(SEGMENT)), TWO)
    tokens = text(2 * SEGMENT)
    program = functools.partial(segment, graphdef=graphdef)

    def loss(params, before):
        _, kept = program(before, tokens[:, :SEGMENT], nothing(SEGMENT))
        return (program(params, tokens[:, SEGMENT:], kept)[0] ** 2).sum()

    def alone(params):
        return (program(params, tokens[:, SEGMENT:], nothing(SEGMENT))[0] ** 2).sum()

    here, back = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, params)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(back))
    of_keys, without = (
        tree["blocks"][0]["key_value"]["kernel"][...] for tree in (here, jax.grad(alone)(params))
    )
    assert np.abs(of_keys - without).max() > 1e-3


@pytest.mark.parametrize(
    ("spec", "memory", "said"),
    [
        ("learned", 8, r"Learned acts on the model's input.*\[0:\]"),
        ("rope+sinusoidal", 8, "Sinusoidal acts on the model's input"),
        ("learned[0:]", 8, "Learned serves 16 positions, .* a memory of 8 and 16 tokens need 24"),
        ("randomized(max=20)+rope", 8, "Randomized serves 20 positions"),
    ],
)
def test_what_a_memory_cannot_serve_is_refused(spec, memory, said):
    for part in ("lm.memory", "eval.memory"):
        value = memory if part == "lm.memory" else (memory,)
        with pytest.raises(ValueError, match=said):
            run_of(spec, **{part: value})


def test_memories_of_training_and_of_evaluation():
    run = run_of("rope", **{"lm.memory": 16, "eval.memory": (32,)})
    assert run.eval.memory == (16, 32) and run.label == "rope trained with memory 16"
    run = run_of("learned(length=24)[0:]", **{"lm.memory": 8})
    assert run.encodings[0].limit() == 24


# Evaluation


@pytest.mark.parametrize(
    "length", (5, 13, *(pytest.param(slow, marks=pytest.mark.slow) for slow in (3, 10)))
)
def test_windows_by_segments_with_a_long_memory_score_as_whole_ones(length):
    members = make("transformer_xl", TWO.dims(SEGMENT))
    graphdef, params = model(members, TWO)
    tokens = text(length + 1)
    score = functools.partial(target_nats, params, tokens, 0, graphdef=graphdef, encodings=members)
    whole = score(last=length)
    assert_near(score(last=length, segment=SEGMENT, memory=16), whole, 1e-5)
    np.testing.assert_array_equal(
        score(last=2, segment=SEGMENT, memory=16),
        score(last=length, segment=SEGMENT, memory=16)[:, -2:],
    )
    short = np.abs(score(last=length, segment=SEGMENT, memory=1) - whole).max()
    assert short > 1e-3 if length > SEGMENT + 1 else short < 1e-5


# Training


def documents(sizes=(81, 23, 9, 200)):
    """Tokens that say where they come from: 1000 * document + place."""
    return [1000 * i + np.arange(n, dtype=np.int32) for i, n in enumerate(sizes)]


def test_each_row_follows_a_document_segment_by_segment_and_then_another():
    texts, batch, length, memory = documents(), 3, 4, 5
    piece = data.FOLLOWED * 8  # two windows hold the memory
    ds = data.Segments(texts, length, batch, 1, memory)
    windows = sum((text.size - 1) // length for text in texts)
    steps = [ds[step] for step in range(2 * windows)]
    tokens, fresh = (np.stack(part) for part in zip(*steps, strict=True))
    assert tokens.shape == (2 * windows, batch, length + 1) and fresh.shape == (2 * windows, batch)
    for row in range(batch):
        begins = tokens[:, row, 0]
        np.testing.assert_array_equal(tokens[:, row], begins[:, None] + np.arange(length + 1))
        np.testing.assert_array_equal(fresh[:, row], begins % 1000 % piece == 0)
        follows = begins[1:] == begins[:-1] + length
        assert follows[~fresh[1:, row]].all() and follows.any() and fresh[1:, row].any()
        assert len(set(begins[:windows])) == windows  # an epoch has every window once
        np.testing.assert_array_equal(begins[windows:], begins[:windows])
    assert len(set(tokens[0, :, 0])) == batch
    again, other = (data.Segments(texts, length, batch, seed, memory) for seed in (1, 2))
    np.testing.assert_array_equal(again[17][0], tokens[17])
    assert any((other[step][0] != tokens[step]).any() for step in range(windows))


@dataclasses.dataclass(frozen=True)
class Told(Encoding):
    """NaN unless `at` was told of the memory, so that the loss shows it."""

    total: int = 0

    def at(self, length):
        return dataclasses.replace(self, total=length)

    def relative_bias(self, params, n):
        bias = 0.0 * n if self.total == 24 else jnp.nan * n
        return jnp.broadcast_to(bias, (self.dims.heads, n.size))


CONFIG = TrainConfig(steps=8, length=16, batch=8)
TINY = LmConfig(vocab=32, layers=1, model=16, heads=2, memory=8)


def train(spec="", members=None, lm=TINY, seeds=(0, 1), steps=3):
    """(state, metrics) after a few steps of random text, in which some rows begin anew."""
    members = members or make("transformer_xl", lm.dims(CONFIG.length))
    devices = mesh.make(spec)
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 32, (steps, len(seeds), CONFIG.batch, CONFIG.length + 1))
    fresh = rng.random((steps, len(seeds), CONFIG.batch)) < 0.3
    batches = (tokens.astype(np.int32), fresh) if lm.memory else tokens.astype(np.int32)
    step = make_steps(structure(lm, members)[0], CONFIG, seeds, devices)
    state = mesh.place_state(devices, init(lm, members, CONFIG, seeds))
    return step(state, mesh.place_batches(devices, batches))


@pytest.mark.slow
def test_a_mesh_gives_the_losses_of_one_device():
    _, alone = train()
    spread, many = train("seed:2,data:4")
    np.testing.assert_allclose(many["loss"], alone["loss"], atol=1e-5)
    assert len(spread["memory"]["layer 0"]["hidden"].sharding.device_set) == 8


def test_an_encoding_is_told_of_the_memory_too():
    state, out = train(members=(Told(TINY.dims(16)),), steps=1)
    assert np.isfinite(out["loss"]).all()
    assert state["memory"]["layer 0"]["hidden"].shape == (2, 8, 8, 16)
    assert state["memory"]["filled"].tolist() == [[8] * 8] * 2


@pytest.mark.slow
def test_a_run_with_a_memory_that_is_killed_ends_the_same(lab, tmp_path):
    values = {"lm.memory": 8, "eval.memory": (32,), "eval.swaps": (), "run.seeds": (0,)}
    assert lab.run(tmp_path / "whole", **values).wait().code == 0
    whole = the_run(tmp_path / "whole")
    folder = tmp_path / "cut" / whole.name
    running = lab.run(tmp_path / "cut", **values)
    running.until(lambda: len(lines(folder)) >= 3).stop(signal.SIGKILL)
    assert not (folder / "result.json").exists()
    resumed = lab.run(tmp_path / "cut", **values).wait()
    assert resumed.code == 0 and "going on from step" in resumed.err
    got, want = result(folder), result(whole)
    assert got["digests"] == want["digests"] and got["rows"] == want["rows"]
    at = {(r["way"]["memory"], r["length"], r["metric"]): r["value"] for r in want["rows"]}
    assert {memory for memory, *_ in at} == {0, 8, 32}
    for metric in ("same_targets", "nonoverlapping"):
        assert at[32, 32, metric] == pytest.approx(at[0, 32, metric], abs=1e-5)
        assert at[8, 32, metric] != at[0, 32, metric]
    assert json.loads((whole / "config.json").read_text())["config"]["lm"]["memory"] == 8
