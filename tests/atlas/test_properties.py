"""The properties that the atlas computes, and the numbers and figures of a layer."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import sampled

from pe_jax.atlas import figures, probe, properties
from pe_jax.atlas.layer import Layer
from pe_jax.atlas.properties import Measured
from pe_jax.encoding import Dims, overrides
from pe_jax.encodings import ENCODINGS
from pe_jax.geometry import inverse_timescales, log_bucket, slopes
from pe_jax.specs.parse import make

L = 16
DIMS = Dims(model=16, heads=2, head=8, layers=2, train_len=L)
MINE = '''"""Far keys are worth less: an encoding of a test."""
import dataclasses
import jax.numpy as jnp
from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class Mine(Encoding):
    """-sqrt(n)."""

    def relative_bias(self, params, n):
        return -jnp.sqrt(n * 1.0)[None] * jnp.ones((self.dims.heads, 1))
'''


@pytest.fixture(scope="module")
def measured():
    made = {}

    def of(spec):
        if spec not in made:
            made[spec] = Measured.of(Layer.of(spec, DIMS))
        return made[spec]

    return of


@pytest.mark.parametrize(
    ("spec", "known"),
    [
        ("rope", {"distance_alone": True, "content": "pair", "parameters": 0, "decays": "none"}),
        ("alibi", {"decays": "all", "content": "no", "limit": None, "group": "bias"}),
        ("learned", {"limit": L, "reads": "absolute", "distance_alone": False, "trained_from": L}),
        ("window(window=5,sinks=2)", {"hides": "5 + 2", "group": "mask", "content": "no"}),
        ("cope", {"content": "others", "causal_only": True, "parameters": 9 * 8}),
        pytest.param("forget_gate", {"content": "others"}, marks=pytest.mark.slow),
        pytest.param(
            "selective_rope",
            {"content": "others", "distance_alone": True, "reads": "order"},
            marks=pytest.mark.slow,
        ),
        ("repo", {"content": "pair", "distance_alone": True, "reads": "order"}),
        ("t5(buckets=4,max_distance=72)", {"constant_from": 12, "parameters": 2 * 4}),
        ("pi", {"adapts": True, "family": "RoPE"}),
        ("randomized", {"random": "always", "reads": "moved", "group": "positions"}),
        ("shape", {"random": "in training"}),
        ("nope", {"random": "never", "content": "no", "causal_only": False, "decays": "none"}),
        ("rope[1::2]+alibi", {"family": "RoPE, ALiBi", "distance_alone": True}),
        ("rope[::2]+cope[1::2]", {"parameters": 9 * 8, "causal_only": True}),
    ],
)
def test_properties(measured, spec, known):
    found = measured(spec).properties
    assert {name: getattr(found, name) for name in known} == known


def test_spec_whose_fields_fit_only_its_own_heads():
    dims = DIMS._replace(model=64, head=32)
    found = Measured.of(Layer.of("partial_rope(rotary_pct=0.1)", dims)).properties
    assert (found.reads, found.distance_alone) == ("relative", True)


def whole():
    """Every encoding, slow but for the first of each kind that reads tokens in `locate`."""
    located = [name for name, cls in ENCODINGS.items() if overrides(cls(DIMS), "locate")]
    yield from sampled(located, lambda name: (ENCODINGS[name](DIMS),))
    yield from (pytest.param(n, marks=pytest.mark.slow) for n in ENCODINGS if n not in located)


@pytest.mark.parametrize("name", list(whole()))
def test_every_encoding_has_properties_and_figures(measured, name):
    one = measured(name)
    assert all(drawn.figure.axes and drawn.caption for drawn in figures.of_layer(one))


def test_rows_are_grouped_by_where_position_enters(measured):
    specs = ("rope", "nope", "window(window=5,sinks=2)", "shape")
    rows = [measured(spec).properties for spec in specs]
    found = [rows[i].name for places in properties.by_group(rows).values() for i in places]
    assert found == ["rope", "shape", "window(window=5,sinks=2)", "nope"]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("rope", (True, True, True)),
        ("sinusoidal", (True, True, True)),
        ("learned", (True, True, True)),  # of the positions that it serves
        ("t5(buckets=8)", (False, True, True)),  # distances of a bucket have one value
        ("alibi", (True, True, False)),
        ("kerple_log", (True, True, False)),  # grows as a logarithm
        ("integer", (True, True, False)),
        ("normalized", (True, False, True)),  # position / length
        ("pi", (True, False, True)),
        ("log_n", (False, True, False)),  # reads the query's position alone
        ("forget_gate", (True, True, False)),  # grows with the tokens between, not the places
        ("window(window=4)", (False, True, True)),
        ("nope", (False, True, True)),
        ("randomized", (None, None, None)),
        ("learned+t5", (True, True, True)),
        ("t5+alibi", (True, True, False)),
    ],
)
def test_ideals(spec, wanted):
    assert properties.ideals(Layer.of(spec, DIMS)) == wanted


def test_value_of_a_place_is_added_to_the_logit():
    found = properties.values(Layer.of("alibi", DIMS), 2 * L)
    i, j = np.indices((2 * L, 2 * L))
    want = np.where(j <= i, -slopes(2)[:, None, None] * (i - j), 0)
    np.testing.assert_allclose(found, np.broadcast_to(want, found.shape), atol=1e-4)


def test_kinds():
    wanted = {
        "learned": ("absolute", False),
        "rope": ("relative", True),
        "fire": ("both", False),
        "streaming": ("both", False),
        "grape_ap": ("absolute", False),
        "tupe": ("both", False),
        "cope": ("order", True),
        "randomized": ("moved", None),
    }
    assert {name: properties.kind(name) for name in wanted} == wanted


def test_encodings_that_only_move_positions():
    moving = [properties.moves_positions(make(name, DIMS)) for name in ("shape", "nope", "log_n")]
    assert moving == [True, False, False]


def added(measured):
    """The mean of what is added to the logits at each distance, [H, T]."""
    return probe.means(measured.same.effect).mean


def test_alibi_adds_its_formula(measured):
    means, n = probe.means(measured("alibi").same.effect), np.arange(4 * L)
    np.testing.assert_allclose(means.mean, -slopes(2)[:, None] * n, rtol=1e-4, atol=1e-4)
    assert means.of_distance


def test_t5_adds_its_table_by_bucket(measured):
    one = measured("t5(buckets=8)")
    (params,) = one.layer.params
    want = np.asarray(params["table"])[:, np.asarray(log_bucket(jnp.arange(4 * L), 8, L, True))]
    np.testing.assert_allclose(added(one), want, rtol=1e-3, atol=1e-5)


def test_rope_adds_and_turns_by_its_formula(measured):
    w, n = np.asarray(inverse_timescales(8)), np.arange(4 * L)
    want = 2 * (np.cos(w * n[:, None]) - 1).sum(1) / np.sqrt(8)
    for head in added(measured("rope")):
        np.testing.assert_allclose(head, want, atol=1e-4)
    angles = probe.rotations(measured("rope").layer, L)
    np.testing.assert_allclose(angles, w, rtol=1e-4)
    near, far = (probe.rotations(measured("pi").layer, length) for length in (L, 4 * L))
    np.testing.assert_allclose(far, near / 4, rtol=1e-4)


def test_a_window_hides_far_keys(measured):
    same = measured("window(window=5,sinks=2)").same
    i, j = np.indices(same.added.shape[1:])
    seen = (j <= i) & ((i - j < 5) | (j < 2))
    np.testing.assert_array_equal(np.isfinite(same.added), np.broadcast_to(seen, same.added.shape))


def test_pairs_that_are_not_turned_are_left_out():
    for spec, pairs in {"rope": 4, "partial_rope(rotary_pct=0.5)": 2}.items():
        assert len(probe.rotations(Layer.of(spec, DIMS), L)) == pairs
    for spec in ("rerope", "repo"):
        assert probe.rotations(Layer.of(spec, DIMS), L) is None


def test_effective_window_without_an_encoding_grows_with_the_text(measured):
    same = measured("nope").same
    want = np.ceil(0.9 * np.arange(1, 4 * L + 1) - 1e-4)
    for head in probe.window(same.weights):
        np.testing.assert_array_equal(head, want)
    np.testing.assert_allclose(probe.nearness(same.weights)[0, -1], 1.0, rtol=1e-6)


def test_encodings_without_an_initial_effect_are_shown_with_noise(measured):
    cope, alibi = measured("cope"), measured("alibi")
    assert cope.noised and cope.same.acts and cope.random is not None
    assert not alibi.noised and alibi.random is None
    assert "noise" in next(iter(figures.of_layer(cope))).caption


def test_figures_are_drawn_where_there_is_something_to_show(measured):
    for spec, names in {
        "nope": [],
        "rope": ["logits", "distance", "rotary"],
        "learned": ["logits", "distance"],
        "shape": ["positions"],
        "repo": ["logits"],
    }.items():
        assert [drawn.name for drawn in figures.of_layer(measured(spec))] == names


def test_users_encoding(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    layer = Layer.of("mine.py:Mine", DIMS)
    assert layer.sources == ["Far keys are worth less: an encoding of a test."]
    one = Measured.of(layer)
    assert one.properties.decays == "all" and one.properties.distance_alone
    np.testing.assert_allclose(added(one)[1], -np.sqrt(np.arange(4 * L)), atol=1e-4)


def test_bidirectional_model():
    same = Measured.of(Layer.of("alibi", DIMS._replace(causal=False))).same
    assert np.isfinite(same.added).all()
    near, far = probe.window(same.weights)[:, 2 * L]
    assert near < far
