"""The common suite: every encoding of the table, against its reference and against what it claims.

A new encoding joins by its line in ENCODINGS and its function in reference.py.
"""

import collections
import contextlib
import functools
import itertools
import typing

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import scipy.stats
from helpers import (
    DIMS,
    assert_near,
    bind,
    embed,
    example,
    folded,
    layer,
    output,
    sampled,
    scattered,
)

from pe_jax.encoding import RELATIVE, mixes, overrides, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.model.lm import init_params
from pe_jax.specs.parse import defaults, make

every_encoding = pytest.mark.parametrize("name", ENCODINGS)
INPUT = {"at", "limit", "positions", "embed", "mix"}  # sites that attention does not see
SITES = ("embed", "attend", "mix")
LENGTH = 20


def others(value, hint):
    """Values to try in place of a field's default; `hint` is its annotation."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, str):
        return tuple(other for other in typing.get_args(hint) if other != value)
    if hint == tuple[int, ...]:
        return ((3,), (3, 12), (7,))
    if isinstance(value, tuple):
        return tuple(tuple(1.5 + i for i in range(pairs)) for pairs in (4, 8))
    if value is None:
        return (5.0, 50.0, 300.0) if float in typing.get_args(hint) else (5, 50, 300)
    if isinstance(value, int):
        return value // 2 or 3, value + 1, 2 * value
    return value / 2, 2 * value + 0.25


def variants(name, dims):
    """{field: [encodings with another value of it]}, for each value that is a name {"field=value":
    [that]}, and {"": [the default]}.
    """
    cls = ENCODINGS[name]
    hints = typing.get_type_hints(cls)
    out = {"": [cls(dims)]}
    for field, value in defaults(cls).items():
        if field not in ("layers", "where", "per_layer"):
            accepted = {}
            for other in others(value, hints[field]):
                key = f"{field}={other}" if isinstance(other, str) else field
                try:
                    accepted.setdefault(key, []).append(cls(dims, **{field: other}))
                except ValueError:
                    continue
            assert any(accepted.values()), (
                f"no other value of {name}.{field} is accepted: extend `others`"
            )
            out |= {key: encodings for key, encodings in accepted.items() if encodings}
    return out


def directions(name):
    """DIMS of a causal model, and of a bidirectional one unless the encoding refuses that."""
    for causal in (True, False):
        dims = DIMS._replace(causal=causal)
        try:
            ENCODINGS[name](dims)
        except ValueError as refusal:
            assert not causal and "causal" in str(refusal), refusal
            return
        yield dims


def relative(name):
    return set(sites(ENCODINGS[name](DIMS))) & {*RELATIVE}


def serving(name, length, dims=DIMS):
    """The encoding, trained at 8, or at 64 where it then serves too few positions."""
    for train_len in (8, 64):
        e = ENCODINGS[name](dims._replace(train_len=train_len))
        if e.limit() is None or e.limit() >= length:
            return e.at(length)
    raise AssertionError(f"{name} serves {e.limit()} positions, {length} are needed")


def in_place(e, case, **kwargs):
    """(bound, case with folded positions)."""
    pe = bind((e,), contiguous=not overrides(e, "positions"), **kwargs)
    return pe, case._replace(pos=folded((e,), case))


def embedded(pe, case):
    if not any(overrides(e, "embed") for e in pe.encodings):
        return case.x
    return jax.jit(embed)(pe, *(jnp.asarray(a) for a in (case.x, case.tokens, case.pos)))


def test_every_encoding_has_a_reference():
    missing = sorted(set(ENCODINGS) - set(reference.REFERENCES))
    assert not missing, f"write one function each in tests/reference/: {', '.join(missing)}"


@functools.partial(jax.jit, static_argnames="sites")
def computed(bound, case, sites):
    """{field: {site: its values}}; one program is compiled sooner than one for each field."""
    values = {"embed": lambda pe: embed(pe, case.x, case.tokens, case.pos)}
    values["attend"] = lambda pe: output(pe, case)
    values["mix"] = lambda pe: pe.encodings[0].mix(pe.params[0], case.x, None)[0]
    return {field: {site: values[site](pe) for site in sites} for field, pe in bound.items()}


@every_encoding
def test_values_are_those_of_the_reference(name):
    """With the default fields, for texts as long as in training and for 40 tokens, and with another
    value of each field; at positions in a row, further on too, and at others.
    """
    formula = reference.REFERENCES[name]
    for dims in directions(name):
        tried = {field: e.at(40) for field, (e, *_) in variants(name, dims).items()}
        tried |= {"at": serving(name, 40, dims), "trained": ENCODINGS[name](dims)}
        for again, other in (("trained", ""), ("", "at")):
            if tried[again] == tried[other]:
                del tried[again]
        used, case = set(sites(tried["at"])), example(10, dims)
        known, moved = set(), []
        tabled = bool({*RELATIVE, "reach", "far"} & used)  # else one program is all
        for contiguous, pos in (
            (tabled, case.pos + 2),
            (tabled, case.pos + 25),
            (False, scattered(10, 30)),
        ):
            here = case._replace(pos=pos)
            bound = {field: bind((e,), contiguous) for field, e in tried.items()}
            want = {
                field: formula(tried[field], jax.tree.map(np.float64, pe.params[0]), here)
                for field, pe in bound.items()
            }
            known |= set(want["at"])
            compared = tuple(site for site in SITES if site in want["at"])
            assert all({*compared} == {*SITES} & {*values} for values in want.values())
            got = computed(bound, here, compared)
            for field, site in itertools.product(bound, compared):
                assert_near(got[field][site], want[field][site], 1e-5, f"{field} {site}")
            moved.append(got["at"])
        if used <= {*RELATIVE, "reach", "at"} and "attend" in known:
            assert_near(moved[1]["attend"], moved[0]["attend"], 1e-6)
        assert "attend" in known or used <= INPUT, f"the reference of {name} lacks `attend`"
        sites_known = used & {"embed", "positions", "mix"}
        assert known >= sites_known, f"the reference of {name} lacks a site"


@pytest.mark.parametrize("train", [True, False], ids=["train", "test"])
@pytest.mark.parametrize(
    "name", [n for n, cls in ENCODINGS.items() if "positions" in sites(cls(DIMS))]
)
def test_positions_are_distributed_as_the_reference_says(name, train):
    """Each of its outcomes equally often; where it draws by a NumPy generator, two positions and
    their distance as it does (two-sample Kolmogorov-Smirnov).
    """
    dims = DIMS._replace(train_len=1)
    case = example(2, dims)
    keys = jax.random.split(jax.random.key(0), 20_000)
    tokens, pos = jnp.asarray(case.tokens), jnp.asarray(case.pos)
    for field, (e, *_) in variants(name, dims).items():
        outcomes = reference.REFERENCES[name](e, {}, case)["positions"](train)
        draw = jax.vmap(functools.partial(e.positions, tokens, pos, train=train))
        drawn = np.asarray(draw(keys))
        if callable(outcomes):
            rng = np.random.default_rng(1)
            wanted = np.array([outcomes(rng) for _ in keys])
            for weights in ((1, 0), (0, 1), (-1, 1)):
                got, want = (np.round(sample @ weights, 3) for sample in (drawn, wanted))
                assert scipy.stats.ks_2samp(got, want).pvalue > 1e-3, (field, weights)
            continue
        counts = collections.Counter(map(tuple, drawn.tolist()))
        assert set(counts) == set(outcomes), field
        if len(outcomes) > 1:
            assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3, field


@every_encoding
def test_parameters_are_finite_and_the_same_each_time(name):
    e, same = serving(name, LENGTH), serving(name, LENGTH)
    assert e == same and hash(e) == hash(same)
    params, again = (init_params(each, jax.random.key(4)) for each in (e, same))
    chex.assert_trees_all_equal(params, again)
    chex.assert_tree_all_finite(params)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    assert e.limit() is None or e.limit() > 0
    assert e.reach() is None or (e.reach()[0] > 0 and e.reach()[1] >= 0)


@pytest.mark.parametrize("name", sampled(ENCODINGS, lambda name: make(name, DIMS)))
def test_the_order_of_earlier_tokens_matters_where_a_site_can_tell_it(name):
    e = serving(name, LENGTH)
    pe, case = in_place(e, example(LENGTH, e.dims))
    order = np.arange(LENGTH)
    order[[0, LENGTH - 2]] = LENGTH - 2, 0
    fields = {n: getattr(case, n)[order] for n in ("x", "tokens", "q", "k", "v")}
    before, after = layer(pe, case)[-1], layer(pe, case._replace(**fields))[-1]
    alone = name in ("repo", "learned_sinks")  # whose positions come from one token; without any
    if alone or set(sites(e)) <= {"at", "limit", "positions", "scale"}:
        assert_near(after, before, 1e-6)
    else:
        assert np.abs(after - before).max() > 1e-3


def effects(name, e):
    """What an encoding decides of an example, by its reference; the positions by itself."""
    case = example(LENGTH, e.dims)
    exact = jax.tree.map(np.float64, bind((e,)).params[0])
    yield e.limit() or -1
    values = reference.REFERENCES[name](e, exact, case)
    yield from (values[site] for site in SITES if site in values)
    if "positions" in values:
        tokens = np.stack([case.tokens, case.tokens[::-1]])
        yield folded((e,), case._replace(tokens=tokens))


def differ(a, b):
    return np.shape(a) != np.shape(b) or not np.allclose(a, b, 1e-5, 1e-6, equal_nan=True)


@every_encoding
def test_every_field_changes_something(name):
    """Within the training length or beyond it. A short table hides what a field does to far
    distances, and at a short length no pair turns often enough for what counts its turns.
    """
    dead = None
    for train_len in (8, 64, 1024):
        dims = DIMS._replace(model=48, head=16, train_len=train_len)  # a quarter of a head: 2 pairs

        def marks(e, served=5 * train_len):
            with contextlib.suppress(ValueError):  # it would draw from fewer positions
                return [*effects(name, e), *effects(name, e.at(served))]
            return []

        tried = variants(name, dims)
        base = marks(*tried.pop(""))
        dead = {
            field
            for field in (tried if dead is None else dead)
            if not any(any(map(differ, marks(e), base)) for e in tried[field])
        }
        if not dead:
            return
    cancel = {"middle", "mscale_all_dim"}  # the second where all of a head turns
    assert dead <= cancel, f"fields of {name} that change nothing: {dead}"


@every_encoding
@pytest.mark.parametrize("length", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_gradients_are_finite_at_distance_0_too(name, length):
    e = serving(name, length)
    pe, case = in_place(e, example(length, e.dims), spread=0.0)

    def loss(params, inputs):
        bound = jax.tree.unflatten(jax.tree.structure(pe), jax.tree.leaves(params))
        return (layer(bound, case._replace(**inputs)) ** 2).sum()

    inputs = {n: getattr(case, n) for n in ("x" if mixes(e) else "xqkv")}
    slopes = jax.jit(jax.grad(loss, argnums=(0, 1)))(pe.params, inputs)
    chex.assert_tree_all_finite(slopes)
    if length > 1:
        for path, leaf in jax.tree.leaves_with_path(slopes):
            reached, learned = np.abs(leaf).max() > 0, path[-1].key not in e.fixed
            assert reached == learned, f"gradient of {jax.tree_util.keystr(path)}: {reached}"


@jax.jit
def in_both(pe, high, low):
    """A layer in two precisions: one program is compiled sooner than two."""
    return layer(pe, high), layer(pe, low)


@every_encoding
def test_sixteen_times_the_training_length_is_finite_or_refused(name):
    length = 16 * DIMS.train_len
    e = ENCODINGS[name](DIMS).at(length)
    served = min(e.limit() or length, length)
    case = example(length)
    if served < length and overrides(e, "positions"):
        with pytest.raises(ValueError, match="raise"):
            folded((e,), case)
        return
    pe, case = in_place(e, case, spread=0.1)  # more makes conv's logits large, and roundings too
    low = case._replace(**{n: jnp.asarray(getattr(case, n), jnp.bfloat16) for n in "xqkv"})
    high = case._replace(**{n: getattr(low, n).astype(jnp.float32) for n in "xqkv"})
    out, rounded = in_both(pe, high, low)
    if served < length:  # NaN where it serves no position, so never a made-up loss
        if overrides(e, "embed"):
            inputs = embedded(pe, high)
            assert np.isfinite(inputs[:served]).all() and np.isnan(inputs[served:]).all()
        assert np.isnan(out[served:]).all()
        return
    assert np.isfinite(out).all()
    assert rounded.dtype == jnp.bfloat16
    assert_near(rounded, out, 0.05)


# Identities


def attended(spec, case, dims=DIMS):
    encodings = make(spec, dims)
    return output(bind(encodings), case._replace(pos=folded(encodings, case)))


@pytest.mark.parametrize(
    "spec",
    [name for name in ENCODINGS if relative(name)]
    + ["shaw(clip=4)", "nezha(clip=4)", "deberta(clip=8,variant='v2')", "t5(buckets=8)"],
)
def test_relative_hooks_are_constant_from_where_they_say_and_not_before(spec):
    for causal, side in ((True, 1), (False, 1), (False, -1)):
        assert_constant_from_where_it_says(spec, causal, side)


def assert_constant_from_where_it_says(spec, causal, side):
    pe = bind(make(spec, DIMS._replace(train_len=64, causal=causal)))
    far = pe.constant_from

    def at(*distances):
        n = side * jnp.asarray(distances, jnp.float32)
        values = [pe.relative(hook, n) for hook in RELATIVE]
        return [np.asarray(a) for a in values if isinstance(a, jax.Array)]

    if far is None:
        two = (3, 7) if spec == "tisa" else (1000, 4000)  # its bumps end where parameters say
        assert all(np.abs(a[:, 0] - a[:, 1]).max() > 1e-6 for a in at(*two))
        return
    values = at(far - 1, far, far + 1, 2 * far, 50 * far)
    for a in values:
        np.testing.assert_array_equal(a[:, 1:], np.broadcast_to(a[:, 1:2], a[:, 1:].shape))
    assert any(np.abs(a[:, 0] - a[:, 1]).max() > 1e-3 for a in values)


def test_a_window_of_everything_is_none():
    case = example(LENGTH)
    plain = attended("nope", case)
    np.testing.assert_array_equal(attended(f"window(window={LENGTH})", case), plain)
    np.testing.assert_array_equal(attended(f"window(window=1,sinks={LENGTH})", case), plain)
    narrow = attended(f"window(window={LENGTH - 1})", case)
    np.testing.assert_array_equal(narrow[:-1], plain[:-1])
    assert np.abs(narrow[-1] - plain[-1]).max() > 1e-3
    np.testing.assert_array_equal(attended("window(window=1)", case), case.v)


def test_randomized_positions_below_the_length_are_the_plain_ones():
    case = example(LENGTH)
    for other in ("rope", "t5", "alibi"):
        got = attended(f"randomized(max={LENGTH})+{other}", case)
        pe = bind(make(f"nope+{other}", DIMS))  # the same keys, one member later
        assert_near(got, output(pe, case), 1e-6, other)
    with pytest.raises(ValueError, match=f"draw {LENGTH} of {LENGTH - 1}: raise randomized's max"):
        attended(f"randomized(max={LENGTH - 1})", case)


def test_one_randomized_draw_serves_the_batch_unless_each_sequence_draws():
    tokens = jnp.zeros((2, 8), jnp.int32)
    case = example(8)._replace(tokens=tokens)
    assert folded(make("randomized", DIMS), case).shape == (8,)
    first, second = folded(make("randomized(per_sequence=True)", DIMS), case)
    assert (first != second).any()
