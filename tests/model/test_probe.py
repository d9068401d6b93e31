"""A user's encoding that reads later tokens or makes numbers infinite is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from cases import CASES, WIDE, encodings
from commands import run_of

from pe_jax.encoding import HOOKS, Encoding
from pe_jax.model import probe
from pe_jax.model.config import LmConfig
from pe_jax.runs import users
from pe_jax.specs.parse import parse

QUICK = ("cope", "stick_breaking", "abacus")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in QUICK else pytest.mark.slow)
        for n in dict.fromkeys((*QUICK, *CASES))
    ],
)
def test_no_encoding_of_the_table_and_of_the_tests_has_a_fault(name):
    members = encodings(name, WIDE)
    assert [probe.fault(members[: i + 1]) for i in range(len(members))] == [None] * len(members)


def mine(**functions):
    """An encoding with these functions as its hooks."""
    scope = {f"given_{hook}": function for hook, function in functions.items()}
    for hook in functions:
        names = ", ".join(HOOKS[hook][1:])
        exec(f"def {hook}(self, {names}): return given_{hook}({names})", scope)
    hooks = {hook: scope[hook] for hook in functions}
    return dataclasses.dataclass(frozen=True)(type("Mine", (Encoding,), hooks))(WIDE)


def ahead(a):
    return jnp.roll(a, -1, axis=0)


def next_key(params, logits, q, k, q_pos, k_pos):
    return logits + jnp.einsum("thk,shk->hts", q, ahead(k))


def block_mean(params, x, tokens, pos):
    """The mean of each block of two tokens."""
    size = len(x) // 2
    means = x[: 2 * size].reshape(size, 2, -1).mean(1)
    return x.at[: 2 * size].set(jnp.repeat(means, 2, 0))


LEAKS = {
    "embed": mine(embed=lambda params, x, tokens, pos: x + 5 * ahead(x)),
    "embed of blocks": mine(embed=block_mean),
    "embed behind a zero": mine(
        init=lambda key: {"a": jnp.zeros(())},
        embed=lambda params, x, tokens, pos: x + params["a"] * ahead(x),
    ),
    "positions": mine(positions=lambda tokens, pos, key, train: pos + ahead(tokens)),
    "locate": mine(locate=lambda params, x, pos, before: jnp.cumsum(x[::-1, 0])[::-1]),
    "qk": mine(qk=lambda params, q, k, q_pos, k_pos: (q, k + ahead(k))),
    "logits": mine(logits=next_key),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_hook_that_reads_later_tokens_is_named(leak):
    hook = leak.split()[0]
    with pytest.raises(ValueError, match=rf"^a.py:Mine: {hook} reads later .*, line \d+\)$"):
        probe.check([LEAKS[leak]], ["a.py:Mine"])


@pytest.mark.parametrize(("of", "ends"), [(b"0123456789", b" "), (b"abc", b" "), (b"abc", b".")])
def test_a_leak_that_depends_on_signs_of_text_is_found(of, ends):
    """The place of a digit from the end of its number, of a letter from that of its word."""

    def embed(params, x, tokens, pos):
        ended, counts = (jnp.isin(tokens, jnp.array(list(signs))) for signs in (ends, of))
        place = jnp.arange(len(tokens))
        left = jax.lax.cummin(jnp.where(ended, place, len(tokens)), reverse=True) - place
        return x + jnp.where(counts, jnp.minimum(left, 8), 0)[:, None]

    made = dataclasses.replace(mine(embed=embed), dims=WIDE._replace(vocab=256))
    assert probe.fault((made,)) == ("embed", probe.LATER)


def test_a_leak_is_found_behind_another_member():
    """Positions of another encoding are floats, and the wrong encoding is named."""
    rope, first = encodings("rope")[0], encodings("randomized")[0]
    with pytest.raises(ValueError, match="^b: logits"):
        probe.check([first, LEAKS["logits"], rope], ["randomized", "b", "rope"])


ENDLESS = {
    "embed": lambda params, x, tokens, pos: x / 0.0,
    "relative_bias": lambda params, n: jnp.broadcast_to(-jnp.log(n * 1.0), (WIDE.heads, n.size)),
    "qk": lambda params, q, k, q_pos, k_pos: (q * jnp.nan, k),
}


@pytest.mark.parametrize("hook", ENDLESS)
@pytest.mark.parametrize("causal", [True, False])
def test_a_hook_that_makes_infinite_numbers_is_named(hook, causal):
    made = mine(**{hook: ENDLESS[hook]})
    made = dataclasses.replace(made, dims=WIDE._replace(causal=causal))
    with pytest.raises(ValueError, match=f"^a.py:Mine: {hook} gives numbers that are infinite "):
        probe.check([made], ["a.py:Mine"])


def test_a_bias_that_hides_keys_by_an_infinite_number_passes():
    def bias(params, q_pos, k_pos):
        far = jnp.abs(q_pos[:, None] - k_pos[None]) > 3
        return jnp.where(far, -jnp.inf, 0.0)[None]

    probe.check([mine(bias=bias)], ["mine"])


def test_what_reads_earlier_tokens_alone_passes():
    """A moving mean by an FFT, whose rounding depends on all tokens, and a forward sum."""

    def mean(params, x, tokens, pos):
        size = 2 * len(x)
        spectrum = jnp.fft.rfft(x, size, axis=0) * jnp.fft.rfft(jnp.ones((4, 1)) / 4, size, axis=0)
        return jnp.fft.irfft(spectrum, size, axis=0)[: len(x)]

    def so_far(params, x, pos, before):
        return (0 if before is None else before) + jnp.cumsum(x[:, 0])

    located = mine(embed=mean, locate=so_far)
    probe.check([located], ["mine"])


def suffix_sums(params, logits, q, k, q_pos, k_pos):
    """As CoPE counts, without whole_rows."""
    return jnp.cumsum(jnp.minimum(logits, 0)[..., ::-1], -1)[..., ::-1]


PARTS = {
    "logits": (mine(logits=suffix_sums), probe.BLOCKS),
    "bias": (
        mine(bias=lambda params, i, j: (j[None] - i[:, None])[None] / (1 + j.max())),
        probe.BLOCKS,
    ),
    "relative_bias": (
        mine(relative_bias=lambda params, n: jnp.tile(n / jnp.abs(n).max(), (WIDE.heads, 1))),
        probe.TOGETHER,
    ),
    "scale": (mine(scale=lambda params, i: jnp.full((len(i), 1), 1.0 + len(i))), probe.LENGTHS),
    "embed": (mine(embed=lambda params, x, tokens, pos: x * len(x)), probe.LENGTHS),
    "locate": (mine(locate=lambda params, x, pos, before: x[:, 0].cumsum()), probe.AFRESH),
}


@pytest.mark.parametrize("hook", PARTS)
def test_a_hook_that_depends_on_how_much_it_gets_at_once_is_named(hook):
    encoding, words = PARTS[hook]
    assert probe.fault((encoding,)) == (hook, words)
    whole = type("Whole", (type(encoding),), {"whole_rows": True})(WIDE)
    assert probe.fault((whole,)) == (hook, probe.LENGTHS if words is probe.BLOCKS else words)


def until(end, causal=True):
    """A bias that falls up to the distance 20, on both sides, and is constant from `end` on."""
    made = mine(
        constant_from=lambda: end,
        relative_bias=lambda params, n: jnp.tile(-jnp.clip(n, -20, 20) * 0.1, (WIDE.heads, 1)),
    )
    return dataclasses.replace(made, dims=WIDE._replace(causal=causal))


@pytest.mark.parametrize("causal", [True, False])
def test_a_hook_that_changes_beyond_its_constant_distance_is_named(causal):
    """Attention by blocks would meet all keys beyond it with one vector."""
    assert probe.fault((until(19, causal),)) == ("relative_bias", probe.MOVING)
    assert probe.fault((until(20, causal),)) is None


def test_what_is_fixed_is_probed_as_it_is_drawn():
    """Frequencies, say, of which a root is taken."""
    turned = mine(
        init=lambda key: {"w": jnp.full(WIDE.head, 0.01)},
        qk=lambda params, q, k, i, j: (q * jnp.sqrt(params["w"])[None, None], k),
    )
    assert probe.fault((turned,)) == ("qk", probe.ENDLESS)
    type(turned).fixed = ("w",)
    probe.fault.cache_clear()
    assert probe.fault((turned,)) is None


def test_what_raises_for_a_part_alone_is_left_to_the_run_that_gets_there():
    def bias(params, i, j):
        if len(i) == 1:
            raise RuntimeError
        return jnp.zeros((1, 1, 1))

    assert probe.fault((mine(bias=bias),)) is None


@pytest.mark.parametrize(
    ("s", "slope", "without", "beside_fixed"),
    [
        (-2.0, lambda p: jnp.maximum(p["s"], 0.0), ["s", "t"], ["s"]),
        (2.0, lambda p: jnp.maximum(p["s"], 0.0), ["t"], []),
        (0.0, lambda p: p["s"] * p["t"], [], ["s"]),  # noise shows that neither is in vain
    ],
)
def test_parameters_without_gradient_are_found(s, slope, without, beside_fixed):
    made = mine(
        init=lambda key: {"s": jnp.full(WIDE.heads, s), "t": jnp.ones(WIDE.heads) * s},
        relative_bias=lambda params, n: -slope(params)[:, None] * jnp.abs(n)[None],
    )
    assert probe.without_gradient((made,)) == without
    type(made).fixed = ("t",)
    assert probe.without_gradient((made,)) == beside_fixed


FILE = """
import dataclasses
import jax.numpy as jnp
from pe_jax import Encoding

@dataclasses.dataclass(frozen=True)
class Leak(Encoding):
    def embed(self, params, x, tokens, pos):
        return x + jnp.roll(x, -1, axis=0)

@dataclasses.dataclass(frozen=True)
class Reads(Encoding):
    def positions(self, tokens, pos, key, train):
        return pos + jnp.cumsum(tokens)
"""


def test_a_run_with_such_an_encoding_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    for values in ({}, {"eval.swaps": (f"{path}:Leak",)}):
        spec = "rope" if values else f"{path}:Leak+rope"
        with pytest.raises(ValueError, match=r"Leak: embed reads later .*mine.py, line 8\)"):
            run_of(spec, **values)
    both_sides = LmConfig(causal=False)
    users.check_users_hooks(parse(f"{path}:Leak"), (), both_sides.dims(16), both_sides)
    with pytest.raises(TypeError, match="per_sequence = True"):
        run_of(f"{path}:Reads")


def test_what_a_hook_raises_in_the_probe_is_one_line():
    def fails(params, x, tokens, pos):
        raise RuntimeError("no table\nof that size")

    with pytest.raises(ValueError, match="^a.py:Mine: RuntimeError: no table$"):
        probe.check([mine(embed=fails)], ["a.py:Mine"])
