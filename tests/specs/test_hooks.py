"""A user's hook that raises or gives another shape is refused before anything runs."""

import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, DIMS, WIDE, encodings
from commands import Lab, run_of
from helpers import sampled

from pe_jax.encoding import HOOKS, Encoding, overrides
from pe_jax.specs import hooks

LENGTH = WIDE.train_len  # of keys and queries at first; H = 3, K = 8, D = 24


@pytest.mark.parametrize("name", sampled(CASES, lambda name: encodings(name, DIMS)))
def test_the_encodings_of_the_table_and_of_the_tests_pass(name):
    members = encodings(name, DIMS)
    pos = jnp.float32 if any(overrides(e, "positions") for e in members) else jnp.int32
    for encoding in members:
        hooks.check_hooks(encoding, name, pos, jnp.bfloat16)


def broken(hook, function):
    """An encoding with that function as its hook."""
    names = HOOKS[hook][1:]
    scope = {"function": function}
    exec(f"def {hook}(self, {', '.join(names)}): return function({', '.join(names)})", scope)
    return dataclasses.dataclass(frozen=True)(type("Mine", (Encoding,), {hook: scope[hook]}))(WIDE)


def zeros(*shape, dtype=jnp.float32):
    return lambda *arguments: jnp.zeros(shape, dtype)


H, K, D, L = 3, 8, 24, LENGTH
WRONG = [
    ("at", lambda length: length, "an encoding, got 64"),
    ("limit", lambda: 2.5, "an integer or None, got 2.5"),
    ("reach", lambda: (3,), "two integers, (window, sinks), or None, got (3,)"),
    ("init", lambda key: jnp.zeros(3), "a dictionary of float32 arrays, got float32[3]"),
    ("init", lambda key: {"a": jnp.zeros(3, int)}, "arrays, got {'a': int32[3]}"),
    ("positions", lambda t, pos, k, train: pos[:, None], "numbers [L] = [64], got int32[64, 1]"),
    ("embed", zeros(L), "floats [L, D] = [64, 24], got float32[64]"),
    ("embed", zeros(D), "floats [L, D] = [64, 24], got float32[24]"),
    ("locate", zeros(1, L), "arrays [L, ...] = [64, ...], got float32[1, 64]"),
    ("qk", lambda p, q, k, i, j: q, "floats [T, H, J] = [64, 3, J] and [S, H, J]"),
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
    ("embed", lambda p, x, t, pos: x + jnp.ones((1, 5)), "raised TypeError: add got incompatible"),
    ("bias", lambda p, i, j: p["table"], "raised KeyError: 'table' ("),
    ("reach", lambda: 1 / 0, "raised ZeroDivisionError: division by zero ("),
]


def test_a_wrong_hook_is_named_with_what_it_gives_and_must_give(subtests):
    for hook, function, words in WRONG:
        with subtests.test(hook=hook):
            with pytest.raises(ValueError, match=re.escape(words)) as caught:
                hooks.check([broken(hook, function)], ["a.py:Mine"], jnp.float32)
            start = "raised" if "raised" in words else "must give"
            assert str(caught.value).startswith(f"a.py:Mine: {hook} {start} ")
            assert re.search(r" \(.*, line \d+\)$", str(caught.value))


@pytest.mark.parametrize(
    ("drawn", "fixed", "words"),
    [
        ({"mlp": {"w": jnp.ones(2)}}, (), "float32 arrays, got {'mlp': {'w': float32[2]}}"),
        ({"s": 1.0}, (), "float32 arrays, got {'s': 1.0}"),
        ({"s": np.ones(2)}, (), "float32 arrays, got {'s': float64[2]}"),
        ({"w": jnp.ones(2)}, ("v",), "must give v, which `fixed` names, got w"),
    ],
)
def test_parameters_that_no_model_could_hold_are_refused(drawn, fixed, words):
    mine = broken("init", lambda key: drawn)
    type(mine).fixed = fixed
    with pytest.raises(ValueError, match=re.escape(words)):
        hooks.check_hooks(mine, "mine")


def test_every_hook_is_checked():
    told = {"highest_position", "trained_from", "constant_from"}  # as `limit` is
    assert {hook for hook, *_ in WRONG} | told == set(HOOKS)


def test_what_is_right_at_one_length_by_chance_is_refused():
    dims = WIDE._replace(train_len=8, heads=8)
    mine = dataclasses.replace(broken("embed", zeros(8, D)), dims=dims)
    with pytest.raises(ValueError, match=re.escape("[L, D] = [7, 24], got float32[8, 24]")):
        hooks.check_hooks(mine, "mine")


@pytest.mark.parametrize("shape", ((), (L,), (L, 1), (H, 1, 1), (1, L, L)))
def test_terms_may_broadcast(shape):
    short = broken("bias", lambda p, i, j: jnp.zeros([{L: len(i)}.get(n, n) for n in shape]))
    if L not in shape:
        hooks.check_hooks(short, "mine")


def test_positions_of_another_member_are_what_a_hook_gets():
    """A table is indexed by distances, which a member before it makes floats."""
    table = broken("relative_bias", lambda p, n: jnp.zeros((H, 99))[:, n])
    moved = broken("positions", lambda tokens, pos, key, train: pos * 0.5)
    hooks.check([table, moved], ["table", "moved"], jnp.float32)
    with pytest.raises(ValueError, match="table: relative_bias raised TypeError: Indexer"):
        hooks.check([moved, table], ["moved", "table"], jnp.float32)


MINE = """
import dataclasses
import jax.numpy as jnp
from pe_jax import Encoding

def helper(n):
    return n.wrong

@dataclasses.dataclass(frozen=True)
class Mine(Encoding):
    def relative_bias(self, params, n):
        return helper(n)
"""


def test_a_command_tells_the_line_of_the_users_own_file(tmp_path):
    lab = Lab(tmp_path, tmp_path / "programs")
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    done = lab.run(tmp_path / "runs", f"{path}:Mine").wait()
    assert done.code == 2 and done.err.count("\n") == 1 and not (tmp_path / "runs").exists()
    assert f"{path}:Mine: relative_bias raised AttributeError: " in done.err
    assert "has no attribute" in done.err and done.err.endswith(f" ({path}, line 7)\n")
    with pytest.raises(ValueError, match="Mine: relative_bias raised AttributeError"):
        run_of("rope", **{"eval.swaps": (f"{path}:Mine",)})


TURNED = """
import dataclasses
import jax.numpy as jnp
from pe_jax.encodings.rotary import Rotary

@dataclasses.dataclass(frozen=True)
class Turned(Rotary):
    def _frequencies(self):
        return jnp.ones(3) + jnp.ones(4)
"""


def test_the_line_is_that_of_the_users_file_where_the_hook_is_of_the_package(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(TURNED)
    with pytest.raises(ValueError, match=r"qk raised TypeError: add got .* \(.*mine.py, line 9\)$"):
        run_of(f"{path}:Turned")
