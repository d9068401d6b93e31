"""Decoding from a cache is the full forward pass; how tokens are drawn; text from a run."""

import dataclasses
import functools
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from cases import encodings as encodings_of
from commands import the_run
from flax import nnx
from helpers import assert_near, covering, sampled
from test_lm import Blend, model, text

import pe_jax.model.generate
from pe_jax.encoding import Encoding, overrides
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.alibi import ALiBi
from pe_jax.encodings.forget_gate import ForgetGate
from pe_jax.encodings.rope import RoPE
from pe_jax.encodings.shaw import Shaw
from pe_jax.model.cache import Cache
from pe_jax.model.config import LmConfig
from pe_jax.model.generate import CHUNK, Sampling, generate, positions, prefill
from pe_jax.runs.trained import Trained
from pe_jax.specs.parse import make
from pe_jax.specs.swap import replaces, swap

ONE = LmConfig(vocab=32, layers=1, model=24, heads=3, attention="dense")
TWO = dataclasses.replace(ONE, layers=2)
TOTAL, PROMPT, ROOM = 20, 7, 32
KEY = jax.random.key(5)


@dataclasses.dataclass(frozen=True)
class SinceZero(Encoding):
    """Positions begin anew at each token 0: `positions` reads the tokens."""

    per_sequence: ClassVar[bool] = True

    def positions(self, tokens, pos, key, train):
        begun = jax.lax.cummax(jnp.where(tokens == 0, pos, 0))
        return pos - begun


@dataclasses.dataclass(frozen=True)
class Stretched(Encoding):
    """Position interpolation to the training length: `at` matters, positions are floats."""

    length: int = 1

    def at(self, length):
        return dataclasses.replace(self, length=length)

    def positions(self, tokens, pos, key, train):
        return pos * (self.dims.train_len / self.length)


MADE_HERE = {
    "blend": (Blend,),
    "forget_gate+blend+shaw": (ForgetGate, Blend, Shaw),
    "since_zero+rope": (SinceZero, RoPE),
    "stretched+alibi": (Stretched, ALiBi),
}
SPECS = """
learned[-1:]+transformer_xl deberta+learned[-1:] rope[::2]+window(window=3,sinks=1)[1::2]
recurrent+gated_delta[:1]+rope[1:] randomized(per_sequence=True)+t5
""".split()


def encodings(name, config):
    dims = config.dims(64)
    if name in MADE_HERE:
        return tuple(cls(dims) for cls in MADE_HERE[name])
    return make(name, dims) if name in SPECS else encodings_of(name, dims)


@functools.partial(jax.jit, static_argnames=("graphdef", "members"))
def full(params, tokens, graphdef, members):
    return nnx.merge(graphdef, params, copy=True)(tokens, encodings=members, key=KEY)[0]


@functools.partial(jax.jit, static_argnames=("graphdef", "members"))
def both(params, tokens, graphdef, members):
    """Logits from the prompt's last token on: of a full pass, of a prefill and single tokens."""
    lm = nnx.merge(graphdef, params, copy=True)
    pos = positions(members, len(tokens), TOTAL, ROOM, KEY)
    static = {"graphdef": graphdef, "encodings": members}
    first, cache = prefill(params, tokens[:, :PROMPT], pos, room=ROOM, **static)

    def one(cache, token):
        logits, cache = lm(token[:, None], cache, encodings=members)
        return cache, logits[:, 0]

    _, more = jax.lax.scan(one, cache, tokens[:, PROMPT:].T)
    cached = jnp.concatenate([first[None], more]).swapaxes(0, 1)
    return full(params, tokens, graphdef, members)[:, PROMPT - 1 :], cached


KEPT = "nope conv carope path randomized+transformer_xl rope+window(window=5,sinks=2)".split()
KEPT += ["forget_gate+blend+shaw", "since_zero+rope", *SPECS]
FOR_ROPE = tuple(  # what can be swapped in on a model trained with RoPE
    name
    for name, cls in ENCODINGS.items()
    if name != "rope" and replaces(cls, RoPE) and not overrides(cls(ONE.dims(8)), "init")
)
NAMES = dict.fromkeys((*KEPT, *CASES, *MADE_HERE))
OTHERS = covering(NAMES, functools.partial(encodings, config=TWO))[len(KEPT) :]


@pytest.mark.parametrize("name", (*KEPT, *OTHERS))
def test_cached_logits_are_those_of_the_full_forward_pass(name):
    config = TWO if name in MADE_HERE or name in SPECS else ONE
    members = tuple(e.at(TOTAL) for e in encodings(name, config))
    graphdef, params = model(members, config)
    want, cached = both(params, text(TOTAL, vocab=4), graphdef, members)
    assert np.isfinite(want).all()
    assert_near(cached, want, 1e-4, name)


def swapped_in(spec):
    """On a model trained with RoPE at 8 tokens, for the whole text."""
    return tuple(e.at(TOTAL) for e in swap(make("rope", ONE.dims(8)), spec))


@pytest.mark.parametrize("spec", sampled(FOR_ROPE, swapped_in))
def test_cached_logits_are_those_of_the_full_forward_pass_with_a_swap(spec):
    graphdef, params = model(make("rope", ONE.dims(8)), ONE)
    tokens = text(TOTAL, vocab=4)
    want, cached = both(params, tokens, graphdef, swapped_in(spec))
    plain = full(params, tokens, graphdef, make("rope", ONE.dims(8)))
    assert np.abs(want - plain[:, PROMPT - 1 :]).max() > 1e-3
    assert_near(cached, want, 1e-4, spec)


@pytest.mark.parametrize("name", ("shaw", "rope+window(window=5,sinks=2)", "cope"))
def test_several_tokens_at_once_by_blocks_and_in_a_cache_that_grows(name):
    members = encodings(name, ONE)
    graphdef, params = model(members, ONE)
    blocks, _ = model(members, dataclasses.replace(ONE, attention="blockwise"))
    tokens, static = text(TOTAL), {"graphdef": blocks, "encodings": members}

    @jax.jit
    def step(params, tokens, cache):
        return nnx.merge(blocks, params, copy=True)(tokens, cache, encodings=members)

    first, cache = prefill(params, tokens[:, :PROMPT], jnp.arange(32), room=16, **static)
    out = [first[:, None]]
    for begin, end in ((7, 12), (12, 13), (13, 18)):
        cache = cache.grown(32) if end > cache.room else cache
        logits, cache = step(params, tokens[:, begin:end], cache)
        out.append(logits)
    want = full(params, tokens, graphdef, members)[:, PROMPT - 1 : 18]
    assert int(cache.length) == 18 and cache.room == 32
    assert_near(jnp.concatenate(out, axis=1), want, 1e-4, name)


def test_a_cache_is_a_value_from_which_several_texts_may_go_on():
    members = encodings("forget_gate+blend+shaw", TWO)
    graphdef, params = model(members, TWO)
    step = jax.jit(lambda *given: nnx.merge(graphdef, params, copy=True)(*given))
    tokens = text(PROMPT + 2)
    _, cache = step(tokens[:, :PROMPT], Cache.empty(TWO.layers))
    assert (cache.room, int(cache.length)) == (PROMPT, PROMPT)
    grown = cache.grown(PROMPT + 2)
    before = jax.tree.map(np.asarray, grown)
    for shift in (0, 1):
        new = (tokens[:, PROMPT:] + shift) % TWO.vocab
        logits, after = step(new, grown)
        whole = full(params, jnp.concatenate([tokens[:, :PROMPT], new], axis=1), graphdef, members)
        assert_near(logits, whole[:, -2:], 1e-4, f"shift {shift}")
        assert int(after.length) == PROMPT + 2
    for got, want in zip(jax.tree.leaves(grown), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(got, want)


def test_greedy_text_is_what_the_full_forward_pass_finds_likeliest():
    """With a swap, and with encodings for the whole length, the prompt and what follows."""
    members = swap(encodings("stretched+alibi", TWO), "window(window=9)")
    graphdef, params = model(members, TWO)
    prompt, new = np.asarray(text(5)), 2 * CHUNK + 3

    def run(sampling, seed=0):
        return list(generate(graphdef, params, members, prompt, new, sampling, seed))

    pieces = run(Sampling(temperature=0.0))
    assert [piece.shape[1] for piece in pieces] == [CHUNK, CHUNK, 3]
    tokens = np.concatenate([prompt, *pieces], axis=1)
    logits = full(
        params, jnp.asarray(tokens), graphdef, tuple(e.at(len(tokens[0])) for e in members)
    )
    np.testing.assert_array_equal(tokens[:, 5:], np.argmax(logits, -1)[:, 4:-1])
    likeliest = run(Sampling(top_k=1), seed=3)
    np.testing.assert_array_equal(np.concatenate(likeliest, 1), tokens[:, 5:])

    drawn = [np.concatenate(run(Sampling(), seed), 1) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).mean() > 0.5


def test_random_positions_are_one_draw_for_the_prompt_and_all_that_follows():
    members = encodings("randomized+t5", TWO)
    pos = positions(members, 2, 50, 64, KEY)
    assert pos.shape == (64,) and (np.diff(pos[:50]) > 0).all() and (pos[49:] == pos[49]).all()
    each = positions(make("randomized(per_sequence=True)", TWO.dims(64)), 2, 50, 64, KEY)
    assert each.shape == (2, 64) and (each[0] != each[1]).any()
    np.testing.assert_array_equal(positions(make("rope", TWO.dims(64)), 2, 50, 64, KEY), range(64))
    assert positions(encodings("since_zero+rope", TWO), 2, 50, 64, KEY) is None
    with pytest.raises(ValueError, match="pass `key`"):  # it would change with every token
        mixed = make("randomized", TWO.dims(64)) + encodings("since_zero+rope", TWO)
        generate(*model(mixed, TWO), mixed, np.asarray(text(5)), 1).__next__()


def test_no_token_compiles_anything(monkeypatch):
    traces = []

    @dataclasses.dataclass(frozen=True)
    class Counting(Encoding):
        def bias(self, params, q_pos, k_pos):
            traces.append((len(q_pos), len(k_pos)))
            return 0.0

    members = (Counting(ONE.dims(64)),)
    graphdef, params = model(members, ONE)

    def run(new, seed):
        traces.clear()
        prompt = np.asarray(text(20, seed=seed))
        assert sum(p.shape[1] for p in generate(graphdef, params, members, prompt, new)) == new
        return set(traces)

    # the prompt, then a room for all, or one that doubles
    assert run(90, 0) == {(1, 20), (1, 128)}
    assert run(90, 1) == run(70, 2) == set()
    monkeypatch.setattr(pe_jax.model.generate, "FIRST", 32)
    assert run(90, 3) == {(1, 20), (1, 64)}


@pytest.mark.parametrize(
    ("spec", "new", "words"),
    (
        ("learned", 60, ("Learned serves 64", "5 tokens of the prompt", "65", "at most 59")),
        ("randomized(max=40)+rope", 100, ("Randomized serves 40", "at most 35")),
        ("rope", 0, ("at least 1",)),
    ),
)
def test_what_cannot_be_generated_is_said_at_once(spec, new, words):
    members = make(spec, ONE.dims(64))
    graphdef, params = model(members, ONE)
    with pytest.raises(ValueError) as error:
        generate(graphdef, params, members, np.asarray(text(5)), new)
    assert all(word in str(error.value) for word in words), error.value


# How a token is drawn

LOGITS = np.log(np.array([0.02, 0.4, 0.1, 0.03, 0.25, 0.2], np.float32))


def likely(sampling):
    """The probabilities that a Sampling stands for, by loops over the sorted ones."""
    p = np.exp(LOGITS.astype(np.float64) / sampling.temperature)
    p = p / p.sum()
    order = sorted(range(len(p)), key=lambda i: -p[i])[: sampling.top_k]
    kept, mass, whole = [], 0.0, sum(p[i] for i in order)
    for i in order:
        if sampling.top_p is None or mass < sampling.top_p:
            kept.append(i)
        mass += p[i] / whole
    out = np.zeros(len(p))
    out[kept] = p[kept] / p[kept].sum()
    return out


@pytest.mark.parametrize("temperature", (0.5, 1.0, 2.0))
def test_tokens_are_drawn_by_their_probabilities(temperature):
    count = 20_000
    for top_k, top_p in itertools.product((None, 1, 4, 50), (None, 0.3, 0.7, 1.0)):
        sampling = Sampling(temperature, top_k, top_p)
        drawn = sampling(jnp.tile(LOGITS, (count, 1)), KEY)
        frequency = np.bincount(drawn, minlength=len(LOGITS)) / count
        p = likely(sampling)
        assert (frequency[p == 0] == 0).all(), sampling
        assert (np.abs(frequency - p) <= 5 * np.sqrt(p * (1 - p) / count)).all(), sampling


def test_temperature_0_is_greedy_and_equal_logits_break_to_the_first():
    logits = jnp.array([[0.0, 2.0, 2.0], [1.0, -1.0, 1.0]])
    for sampling in (Sampling(0.0), Sampling(0.0, 3, 0.5), Sampling(top_k=1), Sampling(top_p=0.1)):
        for seed in range(5):
            assert sampling(logits, jax.random.key(seed)).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("fields", "said"),
    (
        ({"temperature": -1.0}, "temperature must be .* of at least 0"),
        ({"temperature": float("nan")}, "temperature must be .* of at least 0"),
        ({"top_k": 0}, "top_k must be .* of at least 1"),
        ({"top_p": 0.0}, "top_p must be .* above 0"),
        ({"top_p": 1.5}, "top_p must be .* at most 1"),
    ),
)
def test_a_wrong_sampling_is_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        Sampling(**fields)


# The command line


@pytest.fixture(scope="module")
def runs(lab):
    """A folder with two runs, of `rope` and of `learned`."""
    workdir = lab.folder / "of_decoding"
    quick = {"train.steps": 2, "eval.lengths": (16,), "eval.swaps": ()}
    started = [lab.run(workdir / spec, spec, **quick) for spec in ("rope", "learned")]
    assert [command.wait().code for command in started] == [0, 0]
    for spec in ("rope", "learned"):
        the_run(workdir / spec).rename(workdir / the_run(workdir / spec).name)
        (workdir / spec).rmdir()
    return workdir


def run_folder(runs, spec):
    (folder,) = runs.glob(f"{spec}-*")
    return folder


def test_text_comes_from_a_run_as_it_is_decoded(lab, runs):
    """The same text for the same seed; bytes that are no UTF-8 are replaced, characters that two
    pieces share are not torn.
    """
    folder = run_folder(runs, "rope")
    options = ("--prompt=naïve ", "--tokens=100", "--temperature=3", "--seed=2", "--model_seed=1")
    done = lab.start("generate", f"--workdir={folder}", *options).wait()
    assert done.code == 0, done.err
    trained = Trained.of(folder, seed=1)
    prompt = "naïve ".encode()
    pieces = generate(
        trained.graphdef,
        trained.params,
        trained.run.encodings,
        np.array([list(prompt)], np.int32),
        100,
        Sampling(3.0),
        2,
    )
    new = bytes(np.concatenate(list(pieces), axis=1)[0].tolist())
    assert done.out == (prompt + new).decode(errors="replace") + "\n"
    assert "100 tokens in" in done.err

    swapped = lab.start("generate", f"--workdir={folder}", *options, "--swap=window(window=2)")
    assert swapped.wait().code == 0 and swapped.out.startswith("naïve ")
    assert swapped.out != done.out


@pytest.mark.parametrize("tokens", (["Call me"], [0.5], [[[1]]], 3, [3, -1], [256]))
def test_logits_of_no_ids_are_refused(runs, tokens):
    with pytest.raises(ValueError, match=r"integers \[L\] or \[B, L\] from 0 to 255, got"):
        Trained.of(run_folder(runs, "rope")).logits(tokens)


def test_text_is_encoded_decoded_and_read(runs):
    model = Trained.of(run_folder(runs, "rope"))
    ids = model.encode("naïve")
    assert model.decode(ids) == model.decode(list(ids)) == "naïve"
    assert model.decode(ids[:3]) == "na\ufffd" and model.decode([]) == ""
    np.testing.assert_array_equal(model.logits("naïve"), model.logits(ids))
    for empty in ("", []):
        with pytest.raises(ValueError, match="at least one token"):
            model.logits(empty)
    for tokens in ("text", [ids], [300]):
        with pytest.raises(ValueError, match=r"integers \[L\] from 0 to 255, got"):
            model.decode(tokens)


MISTAKES = {
    "several runs": (["--workdir={runs}"], ["holds 2 runs", "rope-", "learned-"]),
    "no such seed": (["--workdir={rope}", "--model_seed=7"], ["seed 7", "its seeds are 0, 1"]),
    "too long": (["--workdir={learned}"], ["Learned serves 16 positions", "at most 15"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(lab, runs, mistake):
    arguments, words = MISTAKES[mistake]
    places = {"runs": runs} | {spec: run_folder(runs, spec) for spec in ("rope", "learned")}
    done = lab.start("generate", *(a.format(**places) for a in arguments)).wait()
    assert done.code == 2 and done.out == "" and len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith("pe-jax generate: ")
    assert all(word in done.err for word in words), done.err
