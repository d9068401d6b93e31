"""The properties that the atlas computes, and the numbers that its figures show."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import sampled

from pe_jax.atlas import by_distance, facts, figures, probe, write
from pe_jax.atlas.numbers import Numbers
from pe_jax.atlas.subject import Subject
from pe_jax.encoding import Dims, overrides
from pe_jax.encodings import ENCODINGS
from pe_jax.geometry import inverse_timescales, log_bucket, slopes

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
def numbers():
    made = {}

    def of(spec):
        if spec not in made:
            made[spec] = Numbers.of(Subject.of(spec, DIMS))
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
        ("t5(buckets=8)", {"constant_from": 12, "parameters": 2 * 8}),
        ("pi", {"adapts": True, "family": "RoPE"}),
        ("randomized", {"random": "always", "reads": "moved", "group": "positions"}),
        ("shape", {"random": "in training"}),
        ("nope", {"random": "never", "content": "no", "causal_only": False, "decays": "none"}),
        ("rope[1::2]+alibi", {"family": "RoPE, ALiBi", "distance_alone": True}),
        ("rope[::2]+cope[1::2]", {"parameters": 9 * 8, "causal_only": True}),
    ],
)
def test_properties(numbers, spec, known):
    found = numbers(spec).facts
    assert {name: getattr(found, name) for name in known} == known


def test_a_spec_whose_fields_fit_its_own_heads_alone_has_facts():
    dims = DIMS._replace(model=64, head=32)
    found = Numbers.of(Subject.of("partial_rope(rotary_pct=0.1)", dims)).facts
    assert (found.reads, found.distance_alone) == ("relative", True)


def whole():
    """Every encoding, slow but for the first of each kind that reads tokens in `locate`."""
    located = [name for name, cls in ENCODINGS.items() if overrides(cls(DIMS), "locate")]
    yield from sampled(located, lambda name: (ENCODINGS[name](DIMS),))
    yield from (pytest.param(n, marks=pytest.mark.slow) for n in ENCODINGS if n not in located)


@pytest.mark.parametrize("name", list(whole()))
def test_every_encoding_has_its_facts_and_figures(numbers, name):
    one = numbers(name)
    assert all(drawn.figure.axes for drawn in write.figures_of(one))
    if "locate" in one.facts.sites:
        assert one.angles is None


def test_every_column_has_a_cell_and_every_group_a_title(numbers):
    every = [numbers(spec).facts for spec in ("rope", "nope", "window(window=5,sinks=2)", "shape")]
    assert all(len(facts.texts(one)) == len(facts.COLUMNS) for one in every)
    assert [every[i].name for places in facts.by_group(every).values() for i in places] == [
        "rope",
        "shape",
        "window(window=5,sinks=2)",
        "nope",
    ]


def test_what_alibi_adds_is_its_formula(numbers):
    n = np.arange(4 * L)
    np.testing.assert_allclose(
        numbers("alibi").means.mean, -slopes(2)[:, None] * n, rtol=1e-4, atol=1e-4
    )
    assert numbers("alibi").means.of_distance


def test_what_t5_adds_is_its_table_by_bucket(numbers):
    one = numbers("t5(buckets=8)")
    (params,) = one.subject.params
    buckets = np.asarray(log_bucket(jnp.arange(4 * L), 8, L, True))
    np.testing.assert_allclose(
        one.means.mean, np.asarray(params["table"])[:, buckets], rtol=1e-3, atol=1e-5
    )
    np.testing.assert_array_equal(one.classes, buckets)


def test_what_rope_adds_and_turns_is_its_formula(numbers):
    one, w, n = numbers("rope"), np.asarray(inverse_timescales(8)), np.arange(4 * L)
    want = 2 * (np.cos(w * n[:, None]) - 1).sum(1) / np.sqrt(8)
    for head in one.means.mean:
        np.testing.assert_allclose(head, want, atol=1e-4)
    np.testing.assert_allclose(one.angles[0], w, rtol=1e-4)
    near, far = numbers("pi").angles
    np.testing.assert_allclose(far, near / 4, rtol=1e-4)


def test_pairs_that_are_not_turned_are_left_out():
    for spec, pairs in {"rope": 4, "partial_rope(rotary_pct=0.5)": 2}.items():
        assert len(by_distance.rotations(Subject.of(spec, DIMS), L)) == pairs
    assert by_distance.rotations(Subject.of("rerope", DIMS), L) is None


def test_the_effective_window_of_no_encoding_grows_with_the_text(numbers):
    same = numbers("nope").same
    want = np.ceil(0.9 * np.arange(1, 4 * L + 1) - 1e-4)
    for head in by_distance.window(same.weights):
        np.testing.assert_array_equal(head, want)
    np.testing.assert_allclose(by_distance.nearness(same.weights)[0, -1], 1.0, rtol=1e-6)


def test_a_window_hides_what_is_further(numbers):
    added = numbers("window(window=5,sinks=2)").same.added
    i, j = np.indices(added.shape[1:])
    seen = (j <= i) & ((i - j < 5) | (j < 2))
    np.testing.assert_array_equal(np.isfinite(added), np.broadcast_to(seen, added.shape))


def test_position_vectors_are_those_of_the_table(numbers):
    one = numbers("learned")
    table = np.asarray(one.subject.params[0]["table"])
    np.testing.assert_allclose(one.vectors, table, atol=1e-6)
    assert one.subject.served == L and one.same.added.shape[1:] == (L, L)


def test_what_changes_nothing_at_first_is_shown_with_noise(numbers):
    assert (
        numbers("cope").noised and numbers("cope").same.acts and numbers("cope").random is not None
    )
    assert not numbers("alibi").noised and numbers("alibi").random is None
    assert "noise" in next(iter(write.figures_of(numbers("cope")))).caption


def test_each_figure_is_drawn_where_there_is_something_to_show(numbers):
    for spec, names in {
        "nope": [],
        "rope": ["logits", "distance", "rotary"],
        "t5(buckets=8)": ["logits", "distance", "classes"],
        "learned": ["logits", "distance", "vectors"],
        "shape": ["positions"],
        "repo": ["logits"],
    }.items():
        drawn = list(write.figures_of(numbers(spec)))
        assert [one.name for one in drawn] == names
        assert all(one.figure.axes and one.caption for one in drawn)


def test_the_training_length_is_drawn_in_every_panel(numbers):
    panels = [
        axes for axes in figures.logits(numbers("alibi")).axes if axes.images and axes.get_title()
    ]
    assert [axes.get_title() for axes in panels] == ["head 1", "head 2"]
    for axes in panels:
        assert {tuple(line.get_xdata()) for line in axes.lines} >= {(L, L)}


def test_a_models_own_encoding_gets_its_facts_and_its_text(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    subject = Subject.of("mine.py:Mine", DIMS)
    assert subject.sources == ["Far keys are worth less: an encoding of a test."]
    one = Numbers.of(subject)
    assert one.facts.decays == "all" and one.facts.distance_alone
    np.testing.assert_allclose(one.means.mean[1], -np.sqrt(np.arange(4 * L)), atol=1e-4)


def test_a_model_that_sees_later_tokens():
    one = Numbers.of(Subject.of("alibi", DIMS._replace(causal=False)))
    assert np.isfinite(one.same.added).all()
    middle = by_distance.window(one.same.weights)[0, 2 * L]
    assert middle < by_distance.window(one.same.weights)[1, 2 * L]


def test_what_other_tokens_hold_is_changed_at_one_token():
    _, drawn, other = probe.contents(Subject.of("nope", DIMS), 12)
    differ = (np.asarray(drawn.x) != np.asarray(other.x)).any(1)
    assert np.flatnonzero(differ).tolist() == [probe.changed(12)]
