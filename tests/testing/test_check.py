"""Faults of encodings, tasks and metrics are refused in one line, and right ones pass."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, DIMS, WIDE, encodings
from commands import run_of
from helpers import sampled

from pe_jax.encoding import HOOKS, Encoding, overrides, seen
from pe_jax.metrics import METRICS
from pe_jax.testing import check, check_members
from pe_jax.testing.encodings import check_parts, check_reads, model_of, without_gradient
from pe_jax.testing.hooks import check_hooks

QUICK = ("cope", "stick_breaking", "abacus")
H, K, D, L = 3, 8, 24, WIDE.train_len


@pytest.mark.parametrize("name", sampled(CASES, lambda name: encodings(name, DIMS)))
def test_hooks_of_the_table_pass(name):
    members = encodings(name, DIMS)
    pos = jnp.float32 if any(overrides(e, "positions") for e in members) else jnp.int32
    for encoding in members:
        check_hooks(encoding, pos, jnp.bfloat16)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in QUICK else pytest.mark.slow)
        for n in dict.fromkeys((*QUICK, *CASES))
    ],
)
def test_models_of_the_table_pass(name):
    members = encodings(name, WIDE)
    texts = np.random.default_rng(0).integers(0, WIDE.vocab, (2, L)).astype(np.int32)
    check_reads(model_of(WIDE), members, texts)
    check_parts(members, texts[0])


def mine(dims=WIDE, fixed=(), **hooks):
    """An encoding with these functions as its hooks."""
    scope = {f"given_{hook}": function for hook, function in hooks.items()}
    for hook in hooks:
        names = ", ".join(HOOKS[hook][1:])
        exec(f"def {hook}(self, {names}): return given_{hook}({names})", scope)
    parts = {hook: scope[hook] for hook in hooks} | {"fixed": fixed}
    return dataclasses.dataclass(frozen=True)(type("Mine", (Encoding,), parts))(dims)


def zeros(*shape, dtype=jnp.float32):
    return lambda *arguments: jnp.zeros(shape, dtype)


WRONG = [
    ("at", lambda length: length, "an encoding, got 64"),
    ("init", lambda key: jnp.zeros(3), "a dictionary of float32 arrays, got float32[3]"),
    ("init", lambda key: {"a": jnp.zeros(3, int)}, "arrays, got {a: int32[3]}"),
    ("init", lambda key: {"mlp": {"w": jnp.ones(2)}}, "arrays, got {mlp: {w: float32[2]}}"),
    ("init", lambda key: {"s": 1.0}, "float32 arrays, got {s: 1.0}"),
    ("positions", lambda t, pos, k, train: pos[:, None], "numbers [L] = [64], got int32[64, 1]"),
    ("embed", zeros(L), "floats [L, D] = [64, 24], got float32[64]"),
    ("embed", zeros(L, D), "floats [L, D] = [63, 24], got float32[64, 24]"),  # at another length
    ("locate", zeros(1, L), "arrays [L, ...] = [64, ...], got float32[1, 64]"),
    ("qk", lambda p, q, k, i, j: q, "floats [T, H, J] = [64, 3, 8] and [S, H, J]"),
    ("qk", lambda p, q, k, i, j: (q, k[..., :4]), "got (float32[64, 3, 8], float32[64, 3, 4])"),
    ("far", lambda i, j: i[:, None] - j[None], "booleans [T, S] = [64, 64], got int32[64, 64]"),
    ("far_positions", lambda i, j: (i, j[1:]), "[T] = [64] and [S] = [64], got (int32[64], int3"),
    ("scale", zeros(L), "floats [T, H] = [64, 3], or what broadcasts to it, got float32[64]"),
    ("relative_bias", zeros(H, K), "floats [H, N] = [3, 127], got float32[3, 8]"),
    ("relative_bias", lambda p, n: n[None] * jnp.ones((H, 1), int), "got int32[3, 127]"),
    ("relative_bias", lambda p, n: 1.5, "floats [H, N] = [3, 127], got float32[]"),
    ("relative_gate", zeros(1, 2 * L - 1), "floats [H, N] = [3, 127], got float32[1, 127]"),
    ("relative_keys", zeros(H, 2 * L - 1), "floats [H, N, K] = [3, 127, 8], got float32[3, 127]"),
    ("relative_queries", zeros(H, 1, K), "[H, N, K] = [3, 127, 8], got float32[3, 1, 8]"),
    ("relative_values", zeros(2 * L - 1, H, K), "[H, N, K] = [3, 127, 8], got float32[127, 3, 8]"),
    ("bias", zeros(H, L + 1, L), "floats [H, T, S] = [3, 64, 64], or what broadcasts to it, got"),
    ("bias", zeros(2, H, L, L), "got float32[2, 3, 64, 64]"),
    ("gate", zeros(H, L, L, dtype=bool), "got bool[3, 64, 64]"),
    ("logits", zeros(H, 1, 1), "floats [H, T, S] = [3, 64, 64], got float32[3, 1, 1]"),
    ("normalize", lambda p, logits: logits.sum(-1), "got float32[3, 64]"),
    ("sink", zeros(1), "floats [H] = [3], got float32[1]"),
    ("embed", lambda p, x, t, pos: x + jnp.ones((1, 5)), "raised TypeError: add got incompatible"),
    ("mix", lambda p, x, state: (x[:, :3], state), "floats [L, D] = [64, 24], got float32[64, 3]"),
    ("bias", lambda p, i, j: p["table"], "raised KeyError: 'table' ("),
]


def test_wrong_shapes_and_dtypes_raise(subtests):
    for hook, function, words in WRONG:
        with subtests.test(hook=hook):
            with pytest.raises(ValueError, match=re.escape(words)) as caught:
                check_members([mine(**{hook: function})], jnp.float32)
            start = "raised" if "raised" in words else "must give"
            assert str(caught.value).startswith(f"Mine.{hook} {start} ")
            assert re.search(r" \(.*, line \d+\)$", str(caught.value))
    checked = {hook for hook, *_ in WRONG}
    facts = {"limit", "reach", "highest_position", "trained_from", "constant_from"}
    assert checked | facts == set(HOOKS)


def test_fixed_entries_must_be_drawn():
    made = mine(init=lambda key: {"w": jnp.ones(2)}, fixed=("v",))
    with pytest.raises(ValueError, match=r"must give v, which `fixed` names, got \[w\]"):
        check_hooks(made)


@pytest.mark.parametrize("shape", ((), (L,), (L, 1), (H, 1, 1), (1, L, L)))
def test_terms_may_broadcast(shape):
    short = mine(bias=lambda p, i, j: jnp.zeros([{L: len(i)}.get(n, n) for n in shape]))
    if L not in shape:
        check_hooks(short)


def test_hooks_get_the_positions_of_the_members_before():
    """A table is indexed by distances, which a member before it makes floats."""
    table = mine(relative_bias=lambda p, n: jnp.zeros((H, 99))[:, n])
    moved = mine(positions=lambda tokens, pos, key, train: pos * 0.5)
    check_members([table, moved], jnp.float32)
    with pytest.raises(ValueError, match="Mine.relative_bias raised TypeError: Indexer"):
        check_members([moved, table], jnp.float32)


def pure(x):
    return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def debug(x):
    jax.debug.callback(lambda a: None, x)
    return x


@pytest.mark.parametrize("call", [pure, debug, jax.jit(pure)])
def test_callbacks_raise(call):
    nested = mine(
        embed=lambda params, x, tokens, pos: jax.lax.fori_loop(0, 2, lambda i, x: call(x), x)
    )
    with pytest.raises(ValueError, match="^Mine.embed calls Python while the program runs"):
        check_hooks(nested)


def test_printing_is_no_callback():
    def embed(params, x, tokens, pos):
        jax.debug.print("{}", x[0, 0])
        return x

    check_hooks(mine(embed=embed))


# In a model


def ahead(a):
    return jnp.roll(a, -1, axis=0)


def next_key(params, logits, q, k, q_pos, k_pos):
    return logits + jnp.einsum("thk,shk->hts", q, ahead(k))


def block_mean(params, x, tokens, pos):
    """The mean of each block of two tokens."""
    size = len(x) // 2
    means = x[: 2 * size].reshape(size, 2, -1).mean(1)
    return x.at[: 2 * size].set(jnp.repeat(means, 2, 0))


def to_the_end_of_a_word(params, x, tokens, pos):
    """The place of a letter from the end of its word."""
    ended = jnp.isin(tokens, jnp.array(list(b" .")))
    place = jnp.arange(len(tokens))
    left = jax.lax.cummin(jnp.where(ended, place, len(tokens)), reverse=True) - place
    return x + jnp.where(tokens >= 97, jnp.minimum(left, 8), 0)[:, None]


LEAKS = {
    "embed": mine(embed=lambda params, x, tokens, pos: x + 5 * ahead(x)),
    "embed of blocks": mine(embed=block_mean),
    "embed among letters": mine(
        WIDE._replace(vocab=256),
        embed=lambda params, x, tokens, pos: jnp.where(tokens[:, None] >= 97, x + ahead(x), x),
    ),
    "embed to the end of a word": mine(WIDE._replace(vocab=256), embed=to_the_end_of_a_word),
    "embed behind a zero": mine(
        init=lambda key: {"a": jnp.zeros(())},
        embed=lambda params, x, tokens, pos: x + params["a"] * ahead(x),
    ),
    "embed in long rows": mine(
        embed=lambda params, x, tokens, pos: x + ahead(x) if len(x) > L else x
    ),
    "locate": mine(
        locate=lambda params, x, pos, before: jnp.cumsum(x[::-1, 0])[::-1],
        bias=lambda params, i, j: jnp.sin(j)[None, None],
    ),
    "qk": mine(qk=lambda params, q, k, q_pos, k_pos: (q, k + ahead(k))),
    "logits": mine(logits=next_key),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_later_tokens_are_not_read(leak):
    with pytest.raises(ValueError, match=rf"^Mine.{leak.split()[0]}.* reads later .*, line \d+\)$"):
        check(LEAKS[leak], (L, 2 * L))


def test_a_model_of_both_directions_reads_later_tokens():
    made = LEAKS["embed"]
    check(dataclasses.replace(made, dims=WIDE._replace(causal=False)))


def suffix_sums(params, logits, q, k, q_pos, k_pos):
    """As CoPE counts, without whole_rows."""
    counted = jnp.where(seen(logits), jnp.minimum(logits, 0), 0)
    return jnp.cumsum(counted[..., ::-1], -1)[..., ::-1] + logits


FAULTS = (
    ("numbers that are infinite", "embed", lambda params, x, tokens, pos: x / 0.0),
    ("numbers that are infinite", "relative_bias", lambda p, n: jnp.log(jnp.zeros((H, len(n))))),
    ("numbers that are infinite", "qk", lambda params, q, k, q_pos, k_pos: (q * jnp.nan, k)),
    ("other numbers for a block", "logits", suffix_sums),
    ("other numbers for a block", "bias", lambda p, i, j: (j[None] - i[:, None])[None] / len(j)),
    ("other numbers for a short", "scale", lambda p, i: jnp.full((len(i), 1), 1.0 + len(i))),
    ("other numbers for a short", "embed", lambda params, x, tokens, pos: x * len(x)),
)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("bias", "end", "words"),
    [
        (lambda n: -9 * n / jnp.abs(n).max(), None, "gives another value at a distance"),
        (lambda n: jnp.abs(n) / n.size, None, "gives another value at a distance"),
        (lambda n: -0.05 * jnp.abs(n), 140, "changes beyond the distance that `constant_from`"),
        (lambda n: 5.0 * (jnp.abs(n) > 1000), 8, "changes beyond the distance that `constant"),
    ],
)
def test_hooks_of_the_distance_are_of_each_alone(bias, end, words, causal):
    made = mine(
        WIDE._replace(causal=causal), relative_bias=lambda params, n: jnp.tile(bias(n), (H, 1))
    )
    type(made).constant_from = lambda self: end
    with pytest.raises(ValueError, match=f"^Mine.*{words}"):
        check(made)


def test_blocks_are_compared_for_short_texts_of_both_directions():
    made = mine(
        WIDE._replace(causal=False), bias=lambda params, i, j: (j[None] - i[:, None])[None] / len(j)
    )
    with pytest.raises(ValueError, match="^Mine.bias gives other numbers for a block"):
        check(made)


@pytest.mark.parametrize(("words", "hook", "function"), FAULTS)
def test_faults_of_a_model_raise(words, hook, function):
    made = mine(WIDE._replace(train_len=130), **{hook: function})
    with pytest.raises(ValueError, match=f"^Mine.{hook} gives {words}"):
        check(made)


def test_located_coordinates_go_on_from_the_last_row():
    bias = {"bias": lambda params, i, j: -jnp.abs(i[:, None] - j[None])[None]}
    made = mine(locate=lambda params, x, pos, before: x[:, 0].cumsum(), **bias)
    with pytest.raises(ValueError, match="`locate` goes on from `before`"):
        check(made)

    def so_far(params, x, pos, before):
        return (0 if before is None else before) + jnp.cumsum(x[:, 0])

    check(mine(locate=so_far, **bias))


def mean_by_fft(params, x, tokens, pos):
    """A moving mean, whose rounding depends on all tokens."""
    size = 2 * len(x)
    spectrum = jnp.fft.rfft(x, size, axis=0) * jnp.fft.rfft(jnp.ones((4, 1)) / 4, size, axis=0)
    return jnp.fft.irfft(spectrum, size, axis=0)[: len(x)]


RIGHT = {
    "a mean of earlier tokens": mine(embed=mean_by_fft),
    "infinite bias": mine(
        bias=lambda params, i, j: jnp.where(jnp.abs(i[:, None] - j[None]) > 3, -jnp.inf, 0.0)[None]
    ),
    "fixed entries": mine(  # noise would make one negative
        init=lambda key: {"w": jnp.full(K, 0.01)},
        qk=lambda params, q, k, i, j: (q * jnp.sqrt(params["w"])[None, None], k),
        fixed=("w",),
    ),
    "whole rows": type("Rows", (type(mine(logits=suffix_sums)),), {"whole_rows": True})(WIDE),
}


@pytest.mark.parametrize("made", RIGHT)
def test_right_encodings_pass(made):
    check(RIGHT[made])


# Metrics


def test_metrics_of_the_table_pass():
    for metric in METRICS.values():
        check(metric)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (
            "value",
            lambda nats, sizes: "x",
            "the value of same_targets must be a finite number, got 'x'",
        ),
        ("places", lambda sizes, E, scope: iter(()), "places must give Place"),
    ],
)
def test_wrong_metrics_raise(field, value, words):
    with pytest.raises(ValueError, match=words):
        check(dataclasses.replace(METRICS["same_targets"], **{field: value}))


# In runs

FILE = """
import dataclasses
import jax.numpy as jnp
from pe_jax import Encoding
from pe_jax.encodings.rotary import Rotary

def helper(n):
    return n.wrong

@dataclasses.dataclass(frozen=True)
class Helped(Encoding):
    def relative_bias(self, params, n):
        return helper(n)

@dataclasses.dataclass(frozen=True)
class Turned(Rotary):
    def _frequencies(self):
        return jnp.ones(3) + jnp.ones(4)

@dataclasses.dataclass(frozen=True)
class Letters(Encoding):
    def embed(self, params, x, tokens, pos):
        return jnp.where(tokens[:, None] >= 97, x + jnp.roll(x, -1, axis=0), x)

@dataclasses.dataclass(frozen=True)
class Reads(Encoding):
    def positions(self, tokens, pos, key, train):
        return pos + jnp.cumsum(tokens)
"""


def test_a_wrong_hook_is_refused_before_a_run(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    for name, words in (
        (
            "Helped",
            r"relative_bias raised AttributeError: .* has no attribute .*mine.py, line 8\)$",
        ),
        ("Turned", r"qk raised TypeError: add got .* \(.*mine.py, line 18\)$"),
    ):
        with pytest.raises(ValueError, match=f"^{name}.{words}"):
            run_of(f"{path}:{name}")
        with pytest.raises(ValueError, match=f"^{name}.{words}"):
            run_of("rope", **{"eval.swaps": (f"{path}:{name}",)})


def test_a_model_that_reads_later_tokens_of_the_text_is_refused(lab, tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    letters = f"{tmp_path}/mine.py:Letters"
    for spec, values, words in (
        (f"{letters}+rope", {}, "Letters.embed reads later tokens"),
        ("rope", {"eval.swaps": (letters,)}, "Letters.embed reads later tokens"),
        (f"{tmp_path}/mine.py:Reads", {}, "set per_sequence = True in its class"),
    ):
        done = lab.run(tmp_path / "runs", spec, **values).wait()
        assert done.code == 2 and "Traceback" not in done.err, done.err
        assert words in done.err.splitlines()[-1], done.err
        assert f"{tmp_path}/mine.py, line " in done.err and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("fixed", [(), ("t",)])
@pytest.mark.parametrize(
    ("s", "slope", "without"),
    [
        (-2.0, lambda p: jnp.maximum(p["s"], 0.0), ["s", "t"]),
        (2.0, lambda p: jnp.maximum(p["s"], 0.0), ["t"]),
        (0.0, lambda p: p["s"] * p["t"], []),  # noise shows that neither is in vain
    ],
)
def test_parameters_without_gradient_are_found(s, slope, without, fixed):
    made = mine(
        fixed=fixed,
        init=lambda key: {"s": jnp.full(H, s), "t": jnp.ones(H) * s},
        relative_bias=lambda params, n: -slope(params)[:, None] * jnp.abs(n)[None],
    )
    if fixed and s == 0:
        without = ["s"]  # noise leaves t at 0
    assert without_gradient((made,)) == [name for name in without if name not in fixed]
