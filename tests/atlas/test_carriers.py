"""The report of carriers, on models in which one part alone knows the order of the tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pe_jax.atlas import carriers, figures
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM
from pe_jax.report import sheet
from pe_jax.report.stats import Interval
from pe_jax.specs.parse import make

T, KEY = 12, jax.random.key(0)
GAINS = {"query": 3.0, "key_value": 2.0, "out": 4.0, "head": 4.0, "out_kernel": 4.0}
NOTHING = "learned(std=0.0,length=64)"  # a table that knows nothing


class HandMade:
    """A model of random weights, of which some are so large that attention tells tokens apart;
    targets are drawn from its own predictions.
    """

    def __init__(self, spec, causal=True, layers=2, count=128, places=T - 1):
        self.config = LmConfig(vocab=8, layers=layers, model=16, heads=2, mlp=16, causal=causal)
        self.encodings = tuple(e.at(T) for e in make(spec, self.config.dims(T)))
        self.graphdef, params = nnx.split(
            LM(self.config, self.encodings, rngs=nnx.Rngs(params=0, encodings=1))
        )
        gains = lambda path: max(GAINS.get(str(key.key), 1.0) for key in path)  # noqa: E731
        params = nnx.to_pure_dict(params)
        self.params = jax.tree.map_with_path(lambda path, a: a * gains(path), params)
        rng = np.random.default_rng(0)
        self.tokens = rng.integers(0, self.config.vocab, (count, T)).astype(np.int32)
        self.places = np.broadcast_to(places, count)
        logits = self.log_probabilities(self.tokens)
        targets = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
        self.windows = carriers.Windows(self.tokens, targets, self.places)

    def log_probabilities(self, tokens):
        """By the model itself, at the places."""

        @jax.jit
        def run(params, tokens):
            return nnx.merge(self.graphdef, params)(tokens, key=KEY)[0]

        logits = run(self.params, jnp.asarray(tokens))
        return np.asarray(jax.nn.log_softmax(logits))[np.arange(len(tokens)), self.places]

    def disturbed(self, part, disturbance):
        """By the report."""
        members = carriers.with_masks(self.encodings)
        static = self.config, members, self.config.vocab, part
        return carriers._log_probabilities(*static, self.params, self.windows, disturbance)


# The last of the queries sees all tokens, masked or not: with one layer of attention at the end,
# the mask carries nothing.
ONE_CARRIER = [
    ("learned(std=1.0,length=64)+window(window=64)", True, 1, ["Learned"]),
    (f"t5(std=3.0)+{NOTHING}", True, 1, ["T5"]),
    (f"shaw(values=False)+{NOTHING}", True, 1, ["Shaw"]),
    (f"nope+{NOTHING}", True, 2, ["causal mask"]),
    (f"window(window=3)+{NOTHING}", False, 1, ["window"]),
    (f"conv+{NOTHING}", False, 1, ["Conv"]),
    ("short_conv[0]+nope[1]", True, 2, ["ShortConv[0]", "convolution of ShortConv[0]"]),
    ("retention[0]+nope[1]", True, 2, ["Retention[0]"]),
    (f"nope+window(window=64)+{NOTHING}", False, 2, []),
]


@pytest.mark.parametrize(("spec", "causal", "layers", "carrying"), ONE_CARRIER)
def test_the_part_that_knows_the_order_is_named(spec, causal, layers, carrying, monkeypatch):
    monkeypatch.setattr(carriers, "REACHED", 1)
    made = HandMade(spec, causal, layers)
    arguments = made.config, made.encodings, made.params, made.windows, made.config.vocab
    whole, *parts = carriers.measure(*arguments)
    assert [one.name for one in parts if one.carries] == carrying
    for one in parts:
        if one.name not in carrying:
            assert all(abs(nats.mean) < 1e-4 for nats in one.lost.values())
        elif one.name == "Learned":
            assert one.lost["shifted by 1"].mean > 0.1
        elif one.name == "window":
            assert whole.reach == 2 < one.reach


# A part that alone knows the order has the tokens in another one: as if the model had.
@pytest.mark.parametrize(
    ("spec", "causal", "layers", "carrying"),
    [one for one in ONE_CARRIER if one[3] and "Shaw" not in one[3]],
)
def test_tokens_are_in_another_order_for_a_part(spec, causal, layers, carrying):
    made = HandMade(spec, causal, layers, 8)
    (part,) = (
        p for p in carriers.parts(carriers.with_masks(made.encodings)) if p.name == carrying[0]
    )
    got = made.disturbed(part, carriers.Disturbance(4.0))
    tokens, made.places = made.tokens.copy(), made.places.copy()
    for i, (target, place) in enumerate(zip(*made.windows[1:], strict=True)):
        noise = jax.random.uniform(jax.random.fold_in(KEY, target * T + place), (T,))
        keys = np.arange(T) + 4 * np.asarray(noise)
        keys[T - causal :] = np.inf
        order = np.argsort(keys, kind="stable")
        assert np.abs(order - np.arange(T)).max() < 4 and (order != np.arange(T)).any()
        tokens[i], made.places[i] = tokens[i][order], np.flatnonzero(order == place)[0]
    np.testing.assert_allclose(got, made.log_probabilities(tokens), atol=1e-4)


# Logits, weights and outputs of all kinds; where places are not the last, later tokens are padding.
IDLE = ["rope+window(window=5,sinks=1)", "learned(length=64)+shaw+alibi", "randomized+forget_gate"]
IDLE += ["conv+gated_delta[0]+cope[1]", "dape+tupe"]
MORE = ["deberta+urpe", "fire+rerope(window=4)", "bipe(ends=(3,))+transformer_xl"]
MORE += ["self_extend(window=4)+ssmax+stick_breaking", "kimi_delta[0]+path[1]"]
MORE += ["streaming(window=4)"]


@pytest.mark.parametrize(
    "spec", [*IDLE, *(pytest.param(spec, marks=pytest.mark.slow) for spec in MORE)]
)
def test_without_a_disturbance_predictions_are_those_of_the_model(spec):
    made = HandMade(spec, count=8, places=np.arange(4, 12))
    got = made.disturbed(carriers.Part("", -1), carriers.Disturbance())
    np.testing.assert_allclose(got, made.log_probabilities(made.tokens), atol=2e-4)


@pytest.mark.parametrize("entry", ["rate", "taps"])
def test_a_frozen_part_of_a_mixer_is_that_of_other_parameters(entry):
    made = HandMade("gated_delta[0]+nope[1]", count=8)
    plain, owned = made.log_probabilities(made.tokens), made.params["owned"][0][0]
    got = made.disturbed(carriers.Part("", 0, entry), carriers.Disturbance(1e6, True))
    still = np.zeros_like(owned["taps"])
    still[0] = np.sum(owned["taps"], axis=0)
    owned[entry] = {"rate": np.full_like(owned["rate"], -80.0), "taps": still}[entry]
    want = made.log_probabilities(made.tokens)
    np.testing.assert_allclose(got, want, atol=1e-4)
    assert np.abs(want - plain).max() > 1e-2


SHIFTED, SHUFFLED = carriers.Disturbance(shift=1), carriers.Disturbance(4.0)
FROZEN = carriers.Disturbance(1e6, True)


@pytest.mark.parametrize(
    ("spec", "part", "disturbance", "words"),
    [
        (f"learned(length={T})", "Learned", SHIFTED, f"there are {T} positions"),
        (f"learned(length={T + 1})", "Learned", SHIFTED, ""),
        ("randomized(max=16)+learned(length=16)", "Learned", SHIFTED, "16 positions"),
        ("randomized(max=16)+learned(length=16)", "Randomized", SHIFTED, "are 16"),
        ("shaw", "Shaw", SHUFFLED, "it gets distances"),
        ("shaw", "Shaw", FROZEN, ""),
        ("alibi", "ALiBi", SHUFFLED, ""),
        ("gated_delta", "decay of GatedDelta", SHUFFLED, "has no positions"),
        ("gated_delta", "decay of GatedDelta", FROZEN, ""),
    ],
)
def test_what_cannot_be_done_is_said(spec, part, disturbance, words):
    members = carriers.with_masks(make(spec, LmConfig(vocab=8).dims(T)))
    (part,) = (known for known in carriers.parts(members) if known.name == part)
    why = carriers._refusal(members, part, disturbance, T)
    assert words in why and bool(words) == bool(why)


def test_a_hidden_token_stays_hidden_where_the_reach_is_measured(monkeypatch):
    monkeypatch.setattr(carriers, "REACHED", 1)
    tokens, tried = np.array([[3, 1, 4, 0, 2]]), []  # the id 4 stands for a hidden token

    def predict(windows, disturbance):
        tried.append(windows.tokens)
        return np.zeros((len(windows.tokens), 4))

    windows = carriers.Windows(tokens, np.zeros(1, int), np.full(1, 2))
    assert carriers._reach(predict, windows, carriers.Disturbance(), ids=4) == 0
    changed = tried[0] != tokens
    np.testing.assert_array_equal(changed, np.eye(6, 5, dtype=bool) & (tokens < 4))
    assert tried[0].min() == 0


def test_the_table_and_the_figure_of_parts():
    none = dict.fromkeys(("frozen", "shuffled", "shifted by 1"), Interval(0.0, 0.0, 8))
    whole = carriers.Measured("the model as it is", 9, none)
    table = none | {"frozen": Interval(0.5, 0.4, 8), "shifted by 1": "there are 64 positions"}
    unsure = none | {"frozen": Interval(0.5, 0.495, 8), "shuffled": Interval(0.005, 0.001, 8)}
    parts = [carriers.Measured(name, 3, lost) for name, lost in (("A", table), ("B", unsure))]
    every = [whole, *parts]
    text = sheet.markdown([carriers.sheet("mine", every)])
    assert "Position is carried by A." in text and "+0.500 ± 0.400" in text
    assert "n/a <sup>1</sup>" in text and "<sup>1</sup> there are 64 positions" in text
    assert "carried by no part." in sheet.markdown([carriers.sheet("mine", [whole, every[2]])])
    (axes,) = figures._carriers(every[1:]).figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A", "B"]
