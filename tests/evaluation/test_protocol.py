"""The protocol: which tokens are scored and what they see, by loops over the documents."""

import copy
import dataclasses
import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from evaluated import ends, evaluated, stacked
from flax import nnx

from pe_jax.data.tokenizer import Tokenizer
from pe_jax.encoding import Dims
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import longest
from pe_jax.evaluation.passes import Key, Pass, Scored, key_of, missing_jobs, plan
from pe_jax.evaluation.scoring import target_nats
from pe_jax.evaluation.windows import windows
from pe_jax.metric import Place, Predictions, SampleMetric, TextMetric
from pe_jax.metrics import METRICS, named, same_targets
from pe_jax.model.config import LmConfig
from pe_jax.model.memory import Memory
from pe_jax.record import AS_TRAINED, Reason, Replica, Row, Way
from pe_jax.specs.parse import make
from pe_jax.storage.jsonl import History
from pe_jax.training.session import Session
from pe_jax.training.step import structure

OF_TEXT = tuple(name for name, m in METRICS.items() if isinstance(m, TextMetric) and not m.masks)
FAR = 1000000  # between the tokens of two documents


def configured(train=8, **fields):
    return EvalConfig(**{"lengths": (8, 16, 32), "metrics": OF_TEXT, **fields}).resolved(train)


def numbered(*sizes):
    """Documents whose tokens say where they stand."""
    return [FAR * (d + 1) + np.arange(size) for d, size in enumerate(sizes)]


def scored(cut):
    """(document, place, tokens seen) of every scored target; its window is looked at whole."""
    out = []
    for row, lo, hi in zip(cut.tokens.tolist(), *ends(cut), strict=True):
        assert 0 <= lo < hi <= cut.length == len(row) - 1
        assert row[: hi + 1] == list(range(row[0], row[0] + hi + 1))  # one document, no padding
        document, start = divmod(row[0], FAR)
        out += [(document - 1, start + r + 1, r + 1) for r in range(lo, hi)]
    assert len(out) == cut.targets
    return out


def test_a_place_has_all_windows_that_a_metric_cuts_for_it(monkeypatch):
    def halves(sizes, E, scope):
        for place in same_targets(sizes, E, scope):
            yield place._replace(end=place.begin + 2)
            yield place._replace(begin=place.begin + 2)

    metric = dataclasses.replace(METRICS["same_targets"], name="halves", places=halves)
    monkeypatch.setitem(METRICS, "halves", metric)
    config = configured(metrics=("halves",), by="place", targets=12, last=4)
    cut = windows(numbered(60, 70), "halves", 16, config)
    whole = windows(numbered(60, 70), "same_targets", 16, config)
    parts = [Replica("place", number) for number in range(3)]
    assert [scored(cut.of(one)) for one in parts] == [scored(whole.of(one)) for one in parts]


# Documents without room to spare: every metric has but one way to place its targets.
TIGHT = {
    "same_targets": ((32 + 4 * 3, 32 + 4), lambda size: range(32 - 4, size)),
    "nonoverlapping": ((1 + 32 * 2, 1 + 32), lambda size: range(1, size)),
}


def tight(metric, lengths=(8, 16, 32)):
    """(sizes of documents, every target there, a config that scores each once)."""
    sizes, targets = TIGHT[metric]
    places = [(d, p) for d, size in enumerate(sizes) for p in targets(size)]
    return sizes, places, configured(targets=len(places), lengths=lengths)


@pytest.mark.parametrize("metric", TIGHT)
def test_where_the_text_just_suffices_every_target_is_scored_once(metric):
    sizes, places, config = tight(metric)
    for E in config.lengths:
        cut = windows(numbered(*sizes), metric, E, config)
        assert sorted((d, p) for d, p, _ in scored(cut)) == places
    with pytest.raises(ValueError, match="lower eval.targets or give more text"):
        longer = dataclasses.replace(config, targets=config.targets + 32)
        windows(numbered(*sizes), metric, 32, longer)


def test_windows_by_hand():
    """k = 2 on a document of the 12 tokens 100 .. 111."""

    def cuts(metric, E):
        """(the last token that the first target sees and the targets, the window's first token)."""
        config = configured(train=4, lengths=(4, 8), targets=6)
        cut = windows([np.arange(100, 112)], metric, E, config)
        rows = zip(cut.tokens.tolist(), *ends(cut), strict=True)
        return [(row[lo : hi + 1], row[0]) for row, lo, hi in rows]

    targets = [[105, 106, 107], [107, 108, 109], [109, 110, 111]]
    assert cuts("same_targets", 4) == [(targets[0], 104), (targets[1], 106), (targets[2], 108)]
    assert cuts("same_targets", 8) == [(targets[0], 100), (targets[1], 102), (targets[2], 104)]
    assert cuts("nonoverlapping", 4) == [([100, 101, 102, 103, 104], 100), ([104, 105, 106], 104)]
    assert cuts("nonoverlapping", 8) == [([100, 101, 102, 103, 104, 105, 106], 100)]


@pytest.mark.parametrize("metric", OF_TEXT)
def test_bytes_are_those_of_the_targets(metric):
    """A token has as many bytes as its number says."""
    document, config = np.random.default_rng(0).integers(1, 9, 200), configured(targets=96)
    tokenizer = Tokenizer("sized", tuple(b"a" * size for size in range(9)))
    cut = windows([document], metric, 16, config, tokenizer)
    total = 0
    for row, sizes, lo, hi in zip(cut.tokens, cut.sizes, *ends(cut), strict=True):
        np.testing.assert_array_equal(sizes[lo:hi], row[lo + 1 : hi + 1])
        total += row[lo + 1 : hi + 1].sum()
    assert total == cut.bytes


ROOMY = (5, 700, 32, 33, 90, 1500, 34)


@pytest.mark.parametrize("train", (8, 12))
@pytest.mark.parametrize("targets", (480, 484, 36))
def test_every_length_scores_as_many_tokens_each_once(train, targets):
    config = configured(train, targets=targets, lengths=(8, 14, 32, 16), last=4)
    documents = numbered(*ROOMY)
    for metric in OF_TEXT:
        at = {E: scored(windows(documents, metric, E, config)) for E in config.lengths}
        for places in at.values():
            assert len(places) == targets
            assert len({(d, p) for d, p, _ in places}) == targets
            assert all(len(documents[d]) > 32 for d, _, _ in places)
        assert len({frozenset((d, p) for d, p, _ in places) for places in at.values()}) == 1


@pytest.mark.parametrize("E", (8, 16, 32))
def test_how_much_each_target_sees(E):
    k, config, documents = 4, configured(targets=480), numbered(*ROOMY)
    assert config.last == k

    def seen(metric):
        return [n for _, _, n in scored(windows(documents, metric, E, config))]

    for metric in OF_TEXT:
        window = range(1, E + 1) if metric == "nonoverlapping" else range(E - k, E)
        assert seen(metric) == [*window] * (480 // len(window)), metric


def test_sums_over_each_document_that_has_targets():
    """-ln p of a target grows by 0.1 a document; a token has as many bytes as it says."""
    rng, config = np.random.default_rng(1), configured(targets=480)
    documents = [rng.integers(1, 5, size) for size in ROOMY]
    tokenizer = Tokenizer("sized", tuple(b"a" * size for size in range(5)))
    numbers, bytes_at = numbered(*ROOMY), {}
    for metric, E in itertools.product(("same_targets", "nonoverlapping"), config.lengths):
        cut = windows(documents, metric, E, config, tokenizer)
        targets = np.zeros((len(cut.tokens), E), np.float32)
        nats, sizes = ({d: 0.0 for d in range(len(ROOMY))} for _ in range(2))
        places = windows(numbers, metric, E, config).tokens
        for place, (row, lo, hi) in enumerate(zip(places, *ends(cut), strict=True)):
            document = row[0] // FAR - 1
            targets[place] = 0.1 * (document + rng.random(E))
            nats[document] += targets[place, lo:hi].sum(dtype=np.float64)
            sizes[document] += documents[document][row[lo + 1 : hi + 1] % FAR].sum()
        scored_ones = [d for d, size in sizes.items() if size]
        assert 1 < len(scored_ones) < len(ROOMY)
        found = cut.by_document(cut.sizes)
        assert found == tuple(sizes[d] for d in scored_ones) == bytes_at.setdefault(metric, found)
        found = cut.by_document(targets[:, -cut.last :])
        np.testing.assert_allclose(found, [nats[d] for d in scored_ones], atol=6e-4)


def test_batches_have_one_shape_and_every_window_once():
    """So that one program serves all of them: copies of the last window fill up the last batch."""
    cut = windows(numbered(*ROOMY), "same_targets", 8, configured(targets=40))
    assert len(cut.tokens) == 10
    for size, starts in ((4, [0, 4, 8]), (10, [0]), (99, [0])):
        batches, firsts = zip(*cut.batches(size), strict=True)
        assert [*firsts] == starts and {b.shape for b in batches} == {(min(size, 10), 9)}
        joined = np.concatenate(batches)
        np.testing.assert_array_equal(joined[:10], cut.tokens)
        assert (joined[10:] == cut.tokens[-1]).all()


def test_places_are_spread_evenly_over_the_documents():
    config = configured(targets=400)
    sizes = (4000, 8000, 20)
    places = scored(windows(numbered(*sizes), "same_targets", 32, config))
    assert 0.3 < np.mean([d == 0 for d, _, _ in places]) < 0.37
    ends = [p for d, p, _ in places if d == 1][3::4]
    assert set(np.diff(ends)) <= {120, 124} and ends[-1] > 7880 and ends[0] < 160
    spans = scored(windows(numbered(*sizes), "nonoverlapping", 32, config))
    assert {d for d, _, _ in spans} == {0, 1}


def test_padding_stands_where_nothing_is_scored():
    """A window that ends with its document has a last row without a target."""
    _, _, config = tight("same_targets")
    cut = windows([np.full(44, 7), np.full(36, 9)], "same_targets", 16, config)
    assert (cut.tokens == 0).any() and set(np.unique(cut.tokens)) == {0, 7, 9}
    for row, lo, hi in zip(cut.tokens, *ends(cut), strict=True):
        assert len(set(row[: hi + 1])) == 1 and row[0] != 0 and hi - lo == 4

    scores = np.ones((len(cut.tokens), cut.last))
    scores[:, -1] = 1e30  # the row after the last scored one
    assert cut.value(scores) == 1 / math.log(2)


TOO_LITTLE = (
    ((31, 20), {}, "the 3[23] tokens that .* needs.*the longest document has 31"),
    ((), {}, "the longest document has 0"),
    ((100,), {"lengths": (8, 128)}, "the 12[89] tokens .* the longest document has 100"),
    ((100,), {"targets": 10000}, "room for .* of .* targets: lower eval.targets"),
)


@pytest.mark.parametrize("metric", TIGHT)
def test_too_little_text_is_an_error(metric):
    for sizes, fields, said in TOO_LITTLE:
        config = configured(**{"targets": 64, **fields})
        with pytest.raises(ValueError, match=said):
            windows(numbered(*sizes), metric, 8, config)


OUTSIDE = (
    [Place(0, 0, 0, 8), Place(0, -5, 0, 8)],  # begins before its document
    [Place(0, 32, 7, 8), Place(0, 33, 0, 8)],  # predicts a token beyond it
    [Place(0, 0, 0, 9)],  # is longer than E
    [Place(1, 0, 0, 8)],  # is of no document
    [Place(0, 0, 8, 8)],  # scores nothing
    [Place(0, 0.0, 0, 8)],
    [(0, 0, 0, 8)],
    [],
    itertools.repeat(Place(0, 0, 0, 8)),
)


def test_windows_outside_their_document_are_refused(monkeypatch, subtests):
    for places in OUTSIDE:
        mine = dataclasses.replace(METRICS["nonoverlapping"], places=lambda *_, of=places: iter(of))
        monkeypatch.setitem(METRICS, "nonoverlapping", mine)
        said = r"^nonoverlapping, test split: .*: places must give Place\(.* at E = 8$"
        with subtests.test(places=places), pytest.raises(ValueError, match=said):
            windows(numbered(41), "nonoverlapping", 8, configured())


WRONG = (
    ({"last": 9}, "eval.last must be below .* 8 .*got 9"),
    ({"targets": 3}, "eval.targets must be at least eval.last, 4, got 3"),
    ({"lengths": (1, 8)}, "at least 2 .* got 1 .the training length may be among them"),
    ({"lengths": ()}, "eval.lengths"),
    ({"metrics": ("same_target",)}, "'same_target'; did you mean 'same_targets'"),
)


def test_wrong_settings_are_named(subtests):
    for fields, said in WRONG:
        with subtests.test(fields=fields):
            with pytest.raises(ValueError, match=said):
                configured(**fields)


@pytest.mark.parametrize(("field", "value"), [("unit", 5), ("better", "up"), ("value", 1.0)])
def test_fields_of_a_metric_are_checked(field, value):
    metric = copy.copy(METRICS["nonoverlapping"])
    object.__setattr__(metric, field, value)  # made at once, the tests' own check would see it
    with pytest.raises(ValueError, match=f"^nonoverlapping's {field} must be .*, got {value!r}$"):
        metric.__post_init__()


def test_the_training_length_is_always_evaluated():
    config = EvalConfig(lengths=(128, 40)).resolved(64)
    assert (config.lengths, config.last) == ((40, 64, 128), 32)


def test_what_is_asked_twice_is_scored_once():
    config = configured(swaps=("window", "pi", "window"), metrics=("same_targets",) * 2)
    assert (config.swaps, config.metrics) == (("window", "pi"), ("same_targets",))


def bins(middles):
    """The positions first .. last of each bin, whose middle is sqrt(first last)."""
    out = []
    for middle in middles:
        first = out[-1][1] + 1 if out else 1
        out.append((first, round(middle**2 / first)))
    return out


@pytest.mark.parametrize("E", (6, 64, 500))
def test_a_curve_counts_every_scored_token_once(E):
    config = configured(4, lengths=(4, E), targets=2 * E + E // 2)
    cut = windows(numbered(4 * E), "nonoverlapping", E, config)
    nats = np.random.default_rng(0).exponential(size=(len(cut.tokens), E))
    middles, means = cut.curve(nats)
    assert len(middles) <= 64 and bins(middles)[-1][1] == E
    assert all(first <= last for first, last in bins(middles))
    total = 0.0
    for (first, last), mean in zip(bins(middles), means, strict=True):
        places = range(first, last + 1)
        inside = [nats[w, p - 1] for w, hi in enumerate(ends(cut)[1]) for p in places if p <= hi]
        assert mean == pytest.approx(np.mean(inside) / math.log(2))
        total += sum(inside)
    assert total / cut.targets / math.log(2) == pytest.approx(cut.value(nats))


def test_a_curve_has_gaps_where_nothing_is_scored():
    cut = windows(numbered(100), "same_targets", 8, configured(lengths=(8,), targets=8))
    means = cut.curve(np.ones((2, 8)))[1]
    assert means == (None,) * 3 + (1 / math.log(2),) * 4 + (None,)


# Oracles: a text from a table of bigrams, and models that know the table.

V = 8
LM = LmConfig(vocab=V, layers=1, model=V, heads=2, mlp=4)


def table():
    return np.random.default_rng(3).dirichlet(np.full(V, 0.5), V) + 1e-3


TABLE = table() / table().sum(1, keepdims=True)


def markov(*sizes):
    rng = np.random.default_rng(4)
    documents = []
    for size in sizes:
        document = [int(rng.integers(V))]
        while len(document) < size:
            document.append(int(rng.choice(V, p=TABLE[document[-1]])))
        documents.append(np.array(document, np.uint8))
    return documents


def bits(documents, places):
    """The mean of -log2 p of the tokens at (document, place)."""
    return np.mean([-math.log2(TABLE[documents[d][p - 1], documents[d][p]]) for d, p in places])


def untrained(lm, encodings, seeds):
    """Parameters drawn by NumPy: to draw them as a run does takes a program of its own."""
    rng = np.random.default_rng(0)

    def drawn(a):  # scales of norms are 1
        shape = seeds, *a.shape
        return (0.5 * rng.normal(size=shape) if a.ndim > 1 else np.ones(shape)).astype(a.dtype)

    return jax.device_put(jax.tree.map(drawn, structure(lm, encodings)[1]))


def oracles(encodings, *heads):
    """(graphdef, parameters): a model for each matrix of logits, [token, next token]."""
    params = untrained(LM, encodings, len(heads))
    block = params["blocks"][0]
    for dense in (block["out"], block["down"]):
        dense["kernel"] *= 0
    params["embedding"] = jnp.tile(jnp.eye(V), (len(heads), 1, 1))
    params["head"]["kernel"] = jnp.stack([jnp.asarray(h, jnp.float32) for h in heads]) * V**-0.5
    return structure(LM, encodings)[0], params


def seed(number):
    return Replica("seed", number)


def values(found, **wanted):
    rows = [r for r in found.rows if all(getattr(r, k) == v for k, v in wanted.items())]
    return [r.value for r in rows]


def test_models_that_know_the_table_or_nothing():
    """Through `evaluate`: every metric, length and swap, for seeds of which two have no value."""
    dims = LM.dims(8)
    encodings = make("rope", dims)
    known = np.log(TABLE)
    graphdef, params = oracles(encodings, known, 0 * known, known * np.nan, known)
    metrics, swaps = ("nonoverlapping", "same_targets"), ("window",)
    config = configured(targets=96, lengths=(8, 32), metrics=metrics, swaps=swaps)
    documents = markov(300, 20, 200)
    places = {m: scored(windows(numbered(300, 20, 200), m, 32, config)) for m in metrics}
    expected = {m: bits(documents, [(d, p) for d, p, _ in places[m]]) for m in metrics}

    target_nats.clear_cache()
    reports = []
    models = stacked(graphdef, params, encodings, {8: 17}, seeds=(5, 6, 7, 8))
    session = Session(History(watch=lambda line: reports.append(tuple(line.values()))))
    found = evaluated(models, documents, config, session=session, threads=3)
    assert len(found.rows) == 4 * 2 * 2 * 2
    for way in config.ways:
        for metric in metrics:
            got = values(found, replica=seed(5), way=way, metric=metric)
            assert len(got) == 2
            np.testing.assert_allclose(got, expected[metric], rtol=2e-5)
    np.testing.assert_allclose(values(found, replica=seed(6)), 3.0, rtol=1e-6)  # log2 V, uniform
    for number, reason, why in (
        (7, Reason.NOT_FINITE, "not finite"),
        (8, Reason.DIVERGED, "diverged at step 17"),
    ):
        rows = [r for r in found.rows if r.replica == seed(number)]
        assert {(r.value, r.reason, r.why) for r in rows} == {(None, reason, why)}
    assert all(r.reason is None for r in found.rows if r.value is not None)

    dones, totals = zip(*reports, strict=True)
    assert len(set(totals)) == 1 and list(dones) == sorted(set(dones)) and dones[-1] == totals[0]

    shapes = set()
    for E in config.lengths:
        for metric in metrics:
            cut = windows(documents, metric, E, config)
            shapes.add((min(len(cut.tokens), config.batch_tokens // E), E, cut.last))
    # At 8 tokens the window of 8 hides nothing, so its scores are those without it.
    programs = len(shapes) + sum(E > 8 for _, E, _ in shapes)
    assert target_nats._cache_size() == programs
    again = evaluated(models, documents, config)
    assert again == found and target_nats._cache_size() == programs

    kept = {(c.replica.number, str(c.way)): c for c in found.curves}
    assert len(found.curves) == len(kept) == 2 * 2
    assert {c.length for c in found.curves} == {32}
    line = kept[5, ""]
    sizes = [last - first + 1 for first, last in bins(line.position)]
    mean = np.average(line.value, weights=sizes)
    np.testing.assert_allclose(mean, expected["nonoverlapping"], rtol=2e-5)


def trained_at_random(spec, lm=LM, seeds=(0, 1)):
    """Untrained models with a head of some size."""
    encodings = make(spec, lm.dims(8))
    params = untrained(lm, encodings, len(seeds))
    return stacked(structure(lm, encodings)[0], params, encodings, seeds=seeds)


@pytest.mark.parametrize("spec", (pytest.param("rope", marks=pytest.mark.slow), "randomized+rope"))
def test_what_is_done_is_not_computed_again_and_changes_nothing_else(spec, monkeypatch):
    models = trained_at_random(spec)
    config = configured(
        targets=40, lengths=(8, 16), metrics=("same_targets", "nonoverlapping"), swaps=("window",)
    )
    documents, calls, window = markov(200), [], Way(swap="window")

    def counted(params, tokens, first, *, encodings, last, **rest):
        calls.append((len(encodings), tokens.shape[1] - 1))
        return target_nats(params, tokens, first, encodings=encodings, last=last, **rest)

    counted.lower = target_nats.lower
    monkeypatch.setattr("pe_jax.evaluation.scoring.target_nats", counted)
    whole = evaluated(models, documents, config)
    everything = {key_of(row) for row in whole.rows}
    curves = {key_of(curve): curve for curve in whole.curves}

    def place(key):  # the window hides nothing of 8 tokens, which both ways then share
        return key.way == window and key.length > 8, key.length, key.metric, key.replica

    for skipped in (
        {key for key in everything if not key.way and key.length == 8},  # a pass
        {key for key in everything if key.metric == "same_targets"},
        {Key(seed(1), window, "nonoverlapping", 16), Key(seed(0), Way(), "same_targets", 8)},
        everything - {Key(seed(1), window, "nonoverlapping", 8)},
        everything,
    ):
        calls.clear()
        known = [
            Scored(row, curves.get(key_of(row))) for row in whole.rows if key_of(row) in skipped
        ]
        part = evaluated(models, documents, config, known=known)
        assert part.rows == tuple(row for row in whole.rows if key_of(row) not in skipped)
        computed = {*map(place, everything - skipped)} - {*map(place, skipped)}
        own = 1 + spec.count("+")
        assert {(own + windowed, length) for windowed, length, *_ in computed} == set(calls)
        known = [c for c in whole.curves if key_of(c) in skipped]
        assert set(longest(sorted((*known, *part.curves), key=lambda c: c.length))) == set(
            whole.curves
        )
    assert not calls and part == ((), ())


def test_values_do_not_depend_on_the_batch():
    """Random positions neither: they go with the window."""
    models = trained_at_random("randomized+rope")
    config = configured(targets=40, lengths=(8,), metrics=("same_targets",), swaps=())
    found = []
    for tokens in (1, 24, 10**6):  # 1, 3 and all 10 windows at once
        config = dataclasses.replace(config, batch_tokens=tokens)
        found.append(values(evaluated(models, markov(200), config)))
    assert found[0][0] != found[0][1]
    np.testing.assert_allclose(found[1:], found[:1] * 2, rtol=1e-5)


@pytest.mark.parametrize("compared", (False, True))
def test_a_program_of_many_layers_has_the_code_of_two(compared):
    def products(layers):
        config = dataclasses.replace(LM, layers=layers)
        encodings = make("rope", config.dims(8))
        graphdef, params = structure(config, encodings)
        rows = jax.ShapeDtypeStruct((1, 4, LM.model), jnp.float32)
        given = params, jax.ShapeDtypeStruct((1, 9), jnp.int32), 0, *([rows, 0] if compared else [])
        lowered = target_nats.lower(*given, graphdef=graphdef, encodings=encodings, last=4)
        return lowered.as_text().count("dot_general")

    # One of the loop, and the last one, which computes fewer rows.
    assert products(12) == products(2)


@pytest.mark.parametrize(
    "spec", (pytest.param("rope", marks=pytest.mark.slow), "randomized(max=64)+rope")
)
def test_with_a_memory_every_segment_draws_its_own_random_positions(spec):
    """The text repeats itself every segment, so all segments behind the second score alike, unless
    their positions differ.
    """
    models, segment, first = trained_at_random(spec, seeds=(0,)), 5, 7
    params = models.params[0]
    model = nnx.merge(models.graphdef, params)
    ahead = jax.jit(partial(model, encodings=models.encodings))
    tokens = jnp.stack([jnp.resize(jnp.arange(5), 24), jnp.resize(jnp.arange(7, 2, -1), 24)])
    score = partial(target_nats, params, graphdef=models.graphdef, encodings=models.encodings)
    got = score(tokens, first, last=23, segment=segment, memory=segment)

    for window, text in enumerate(tokens):
        key = jax.random.fold_in(jax.random.key(0), first + window)
        kept = Memory.empty(model.config, 1, segment)
        for number, start in ((4, 0), (0, 3), (1, 8), (2, 13), (3, 18)):  # the short one is first
            end = start + segment if start else 3
            own = jax.random.fold_in(key, number)[None]
            logits, kept = ahead(text[None, start:end], kept, key=own)
            rows = np.arange(end - start)
            want = -jax.nn.log_softmax(logits[0])[rows, text[start + 1 : end + 1]]
            np.testing.assert_allclose(got[window, start:end], want, atol=1e-5)
    apart = np.abs(np.diff(got[:, 8:].reshape(2, 3, segment), axis=1)).max(axis=(0, 2))
    assert (apart < 1e-5).all() if spec == "rope" else (apart > 1e-3).all()


def test_what_an_encoding_cannot_serve_has_a_reason_and_no_value():
    models = trained_at_random("learned", seeds=(0,))
    config = configured(targets=32, lengths=(4, 8, 16), metrics=("nonoverlapping",), last=2)
    config = dataclasses.replace(config, swaps=("learned(clip=True)",))
    found = evaluated(models, markov(100), config)
    plain = [r for r in found.rows if not r.way]
    assert [r.length for r in plain] == [4, 8, 16]
    assert [r.why for r in plain] == ["", "", "beyond its 8 positions"]
    assert plain[2].reason is Reason.BEYOND_POSITIONS and plain[2].at == 8
    assert plain[2].value is None
    clipped = values(found, way=Way(swap="learned(clip=True)"))
    assert clipped[:2] == [r.value for r in plain[:2]] and math.isfinite(clipped[2])
    assert {str(c.way): c.length for c in found.curves} == {"": 8, "learned(clip=True)": 16}


@pytest.mark.parametrize("causal", [True, False])
def test_a_window_is_left_out_where_it_hides_nothing(causal):
    """Of 12 tokens the causal window sees the nearest 8 and the first 4, and so all."""
    dims = Dims(model=16, heads=2, head=8, layers=1, train_len=8, causal=causal)
    rope, window = make("rope+window(window=8,sinks=4)", dims)
    part = Pass(AS_TRAINED, 12, 12, (rope, window))
    assert (part.computed() == Pass(AS_TRAINED, 12, 12, (rope,)).computed()) == causal


def test_swaps_that_come_to_the_same_are_computed_once():
    dims = LM.dims(8)
    config = configured(lengths=(8, 32), swaps=("window", "window(window=3)", "window(sinks=1)"))
    passes = plan(make("rope", dims), config)
    given, jobs = missing_jobs(passes, config, (0, 1), {})
    scores = [
        Key(replica, way, metric, job.part.length)
        for job in jobs
        for (metric, replica), ways in job.ways.items()
        for way in ways
    ]
    assert not given and len({*scores}) == len(scores) == 4 * 2 * len(OF_TEXT) * 2
    found = [
        (job.part.length, [e.reach() for e in job.part.encodings], len(job.ways)) for job in jobs
    ]
    assert found == [
        (8, [None], 2 * len(OF_TEXT)),
        (32, [None], 2 * len(OF_TEXT)),
        (32, [None, (8, 0)], 2 * len(OF_TEXT)),
        (8, [None, (3, 0)], 2 * len(OF_TEXT)),
        (32, [None, (3, 0)], 2 * len(OF_TEXT)),
        (32, [None, (8, 1)], 2 * len(OF_TEXT)),
    ]
    ways = ["", "window", "window(sinks=1)"]
    assert [way.swap for way in jobs[0].ways["kl", seed(1)]] == ways
    known = {key: Scored(Row(**key._asdict(), value=1.0)) for key in scores if not key.way}
    given, rest = missing_jobs(passes, config, (0, 1), known)
    assert {one.row.length for one in given} == {8} and len(given) == 2 * 2 * len(OF_TEXT)
    assert rest == jobs[2:]


def test_too_little_memory_is_a_reason_and_other_errors_are_errors(monkeypatch):
    models = trained_at_random("nope", seeds=(0,))
    config = configured(targets=32, lengths=(8, 16), metrics=("same_targets",), swaps=())

    def failing(why):
        def nats(params, tokens, first, *, last, **_):
            if tokens.shape[1] == 17:
                raise jax.errors.JaxRuntimeError(why)
            return np.ones((len(tokens), last))

        nats.lower = target_nats.lower
        monkeypatch.setattr("pe_jax.evaluation.scoring.target_nats", nats)
        return evaluated(models, markov(100), config)

    rows = failing("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes").rows
    assert [(r.length, r.reason) for r in rows] == [(8, None), (16, Reason.OUT_OF_MEMORY)]
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        failing("INTERNAL: something else")


def test_accuracy_counts_tokens_and_exact_match_samples():
    scored = np.arange(6) < np.array([[1], [6], [3]])
    right = np.arange(6) < np.array([[1], [3], [2]])
    nats = np.full(scored.shape, np.nan)
    made = Predictions(scored, right, nats, nats, nats, nats)
    assert named("accuracy", SampleMetric).score(made, 2) == pytest.approx(60)
    assert named("exact_match", SampleMetric).score(made, 2) == pytest.approx(100 / 3)
    assert math.isnan(named("bits", SampleMetric).score(made, 2))


def test_bits_are_of_all_scored_tokens_or_of_the_last_of_each_sample():
    nats = math.log(2) * np.array([[1.0, 2, 3, 40], [5, 60, 7, 8]])
    scored = np.array([[1, 1, 1, 0], [1, 0, 1, 1]], bool)
    made = Predictions(scored, scored, nats, nats, math.log(2) * np.ones((2, 4)), nats)
    values = {
        name: named(name, SampleMetric).score(made, 2)
        for name in ("bits", "last_bits", "above_bayes")
    }
    assert values == pytest.approx({"bits": 26 / 6, "last_bits": 5, "above_bayes": 4})


def test_every_distance_has_one_vote():
    p = np.array([[0.9, 0.7, 0.1], [0.2, 0.3, 0.5]])
    distance = np.array([[1.0, 1, 5], [np.nan, 3, 1]])
    scored = np.isfinite(distance)
    made = Predictions(scored, scored, p, -np.log(p), p, distance)
    value = named("by_distance", SampleMetric).score(made, 1)
    assert value == pytest.approx(100 * ((0.9 + 0.7 + 0.5) / 3 + 0.3 + 0.1) / 3)


def mean_probability(nats, sizes):
    return float(np.exp(-nats.astype(np.float64)).mean())


def test_value_and_curve_of_a_metric_that_is_better_when_higher(monkeypatch):
    mine = TextMetric(
        "mean_probability",
        "The mean probability of every token.",
        places=named("nonoverlapping", TextMetric).places,
        by_position=True,
        value=mean_probability,
        unit="probability",
        better="higher",
    )
    monkeypatch.setitem(METRICS, mine.name, mine)
    sizes = (300, 200)
    documents = markov(*sizes)
    config = configured(targets=96, lengths=(8, 32), metrics=(mine.name,))
    encodings = make("rope", LM.dims(8))
    graphdef, params = oracles(encodings, np.log(TABLE), 0 * TABLE)
    models = stacked(graphdef, params, encodings, seeds=(3, 4))
    found = evaluated(models, documents, config)

    cut = windows(numbered(*sizes), mine.name, 32, config)
    seen = [TABLE[documents[d][p - 1], documents[d][p]] for d, p, _ in scored(cut)]
    known = values(found, replica=seed(3), way=Way())
    np.testing.assert_allclose(known, np.mean(seen), rtol=2e-5)
    np.testing.assert_allclose(values(found, replica=seed(4)), 1 / V, rtol=1e-6)
    assert {row.metric for row in found.rows} == {mine.name} and all(
        mine.sign * v < 0 for v in known
    )
    assert mine.title == "Probability, mean probability (higher is better)"
    (line,) = (c for c in found.curves if c.replica == seed(3) and not c.way)
    assert line.metric == mine.name
    weights = [last - first + 1 for first, last in bins(line.position)]
    np.testing.assert_allclose(np.average(line.value, weights=weights), np.mean(seen), rtol=2e-5)
    # Where few rows are scored, the program gives these alone
    few = dataclasses.replace(mine, places=named("same_targets", TextMetric).places)
    ones = np.ones((len(cut.tokens), 2))
    part = dataclasses.replace(cut, metric=few, scored=cut.scored & (np.arange(32) >= 30))
    assert [v for v in part.curve(ones)[1] if v] == pytest.approx([np.exp(-1)])
