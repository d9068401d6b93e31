"""The language model with every encoding, alone and in compositions."""

import dataclasses
import functools
import re
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exotic import PairGate, Selective
from flax import nnx
from helpers import assert_near, covering, perturbed

from pe_jax.attention.bound import Bound
from pe_jax.encoding import RELATIVE, Encoding, mixes, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.cope import CoPE
from pe_jax.encodings.shaw import Shaw
from pe_jax.encodings.ssmax import SSMax
from pe_jax.model import lm
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM, _dropped, _row_counts, decayed
from pe_jax.specs.parse import make
from pe_jax.specs.swap import swap
from pe_jax.training.step import structure

TRAINED, LENGTH = 8, 128
TINY = LmConfig(vocab=32, layers=2, model=16, heads=2, attention="dense")
KEY = jax.random.key(5)


@dataclasses.dataclass(frozen=True)
class Blend(Encoding):
    """x_i + w * x_{i-1}: `embed` reads content, on the input of every layer, a w each."""

    per_layer: tuple[str, ...] = dataclasses.field(default=("w",), kw_only=True)
    where: Literal["input", "layers"] = dataclasses.field(default="layers", kw_only=True)

    def init(self, key):
        return {"w": jax.random.normal(key, (self.dims.model,))}

    def embed(self, params, x, tokens, pos):
        before = jnp.pad(x, [(1, 0), (0, 0)])[:-1]
        return x + (params["w"].astype(x.dtype)[None] * before)


MADE_HERE = {
    "selective+shaw": (Selective, Shaw),
    "cope+pair_gate+ssmax": (CoPE, PairGate, SSMax),
    "blend": (Blend,),
}
COMPOSED = ("learned+t5", "randomized+shaw", "rope[::2]", "deberta+learned[-1:]", *MADE_HERE)
MORE = "rope+alibi randomized+rope rope+window learned[-1:] sinusoidal+shaw".split()
MORE += ["forget_gate+rope"]


def encodings(spec, config=TINY, trained=TRAINED, served=LENGTH):
    """For `served` tokens, trained at `trained`, or at `served` where fewer would be served."""

    def at(dims):
        if spec in MADE_HERE:
            return tuple(cls(dims) for cls in MADE_HERE[spec])
        return make(spec, dims)

    short = any((e.limit() or served) < served for e in at(config.dims(trained)))
    return tuple(e.at(served) for e in at(config.dims(served if short else trained)))


def model(spec="nope", config=TINY, seed=0, **kwargs):
    """(graphdef, parameters), perturbed, the model's by less so that its rounding stays small."""
    made = encodings(spec, config, **kwargs) if isinstance(spec, str) else spec
    lm = LM(config, made, rngs=nnx.Rngs(params=seed, encodings=seed + 100))
    graphdef, params = nnx.split(lm, nnx.Param)
    spreads = {"shared": 0.3, "owned": 0.3}
    parts = nnx.to_pure_dict(params).items()
    return graphdef, {n: perturbed(part, seed, spreads.get(n, 0.1)) for n, part in parts}


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings", "last"))
def run(graphdef, params, tokens, key=KEY, dropout_key=None, encodings=None, last=None):
    lm = nnx.merge(graphdef, params, copy=True)
    logits, none = lm(tokens, key=key, dropout_key=dropout_key, encodings=encodings, last=last)
    assert none is None
    return logits


def text(length=LENGTH, batch=2, vocab=TINY.vocab, seed=0):
    return jnp.asarray(np.random.default_rng(seed).integers(0, vocab, (batch, length)), jnp.int32)


OTHERS = covering((*COMPOSED, *ENCODINGS, *MORE), encodings)[len(COMPOSED) :]


@pytest.mark.parametrize("spec", (*COMPOSED, *OTHERS))
def test_the_model_with_an_encoding(spec):
    """At 16 times the training length, two seeds at once: causal, finite, and as one by blocks."""
    config = dataclasses.replace(TINY, layers=1) if spec in ENCODINGS else TINY
    (graphdef, params), (_, other) = model(spec, config), model(spec, config, seed=1)
    program = jax.jit(jax.vmap(functools.partial(run, graphdef), in_axes=(0, None)))
    stacked, tokens = jax.tree.map(lambda *a: jnp.stack(a), params, other), text()
    logits = program(stacked, tokens)
    assert logits.dtype == jnp.float32 and np.isfinite(logits).all()
    assert np.abs(logits[1] - logits[0]).max() > 0.1

    t = 70
    changed = jnp.concatenate([tokens[:, : t + 1], (tokens[:, t + 1 :] + 1) % 32], axis=1)
    after = program(stacked, changed)
    np.testing.assert_array_equal(after[:, :, : t + 1], logits[:, :, : t + 1])
    assert (np.abs(after - logits)[:, :, t + 1 :].max(-1) > 1e-4).all()

    config = dataclasses.replace(config, attention="blockwise")
    blocks = structure(config, encodings(spec, config))[0]
    alone = run(blocks, other, tokens, last=80)
    assert_near(alone, logits[1, :, -80:], 1e-5, "a seed alone, blockwise")


FEW = ("nope", "rope", "cope", "bipe", "selective+shaw")
REST = [pytest.param(name, marks=pytest.mark.slow) for name in ENCODINGS if name not in FEW]


@pytest.mark.parametrize("spec", (*FEW, *REST))
def test_bfloat16_activations_under_float32_parameters_and_logits(spec):
    config = dataclasses.replace(TINY, dtype="bfloat16")
    graphdef, params = model(spec, config)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    logits = run(graphdef, params, text())
    assert logits.dtype == jnp.float32 and np.isfinite(logits).all()


@pytest.mark.parametrize("changes", [{}, {"parallel": True, "gated": True, "qk_norm": True}])
def test_tokens_that_keep_their_batch_axis_give_the_same(changes, monkeypatch):
    """As on accelerators."""
    graphdef, params = model("t5+rope", dataclasses.replace(TINY, biases="all", **changes))

    def slopes():
        def total(params):
            logits, _ = nnx.merge(graphdef, params, copy=True)(text(16), last=15)
            return (logits**2).sum(), logits

        return jax.jit(jax.value_and_grad(total, has_aux=True))(params)

    flat = slopes()
    monkeypatch.setattr(lm, "flat", lambda x: x)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), slopes(), flat
    )


def test_rematerialised_layers_keep_their_inputs_alone():
    """For the backward pass, besides the parameters and what is outside of the layers."""

    def kept(layers, remat):
        config = dataclasses.replace(TINY, layers=layers)
        graphdef, params = structure(config, encodings("nope", config))

        def total(params):
            return nnx.merge(graphdef, params, copy=True)(text(), remat=remat)[0].sum()

        shapes = jax.eval_shape(lambda params: jax.vjp(total, params)[1], params)
        sizes = [a.size for a in jax.tree.leaves(shapes) if a.dtype == jnp.float32]
        return sum(sizes) - sum(a.size for a in jax.tree.leaves(params))

    B, T, D, H = 2, LENGTH, TINY.model, TINY.heads
    assert kept(2, True) - kept(1, True) == B * T * D
    assert kept(2, False) - kept(1, False) > B * H * T * T


@pytest.mark.parametrize(
    ("spec", "swapped", "causal", "layers", "loops"),
    [
        pytest.param("rope", "yarn", True, 5, [4], marks=pytest.mark.slow),
        ("t5(per_layer=('table',))", "", False, 3, [2]),  # the last one computes fewer rows
        ("randomized+learned(length=4096)[:2]+rope", "", True, 5, [2, 2]),
        pytest.param("rope+window(window=5)[3:]", "rerope", True, 4, [2], marks=pytest.mark.slow),
        ("rope[::2]", "", True, 4, []),
    ],
)
def test_layers_that_are_alike_are_one_loop(spec, swapped, causal, layers, loops, monkeypatch):
    """It gives the same, with padding, dropout, rematerialised layers and gradients, too."""
    monkeypatch.setattr(lm, "ALIKE", 2)
    config = dataclasses.replace(TINY, layers=layers, dropout=0.1, causal=causal)
    made = make(spec, config.dims(LENGTH))
    graphdef, params = model(made, config)
    used = swap(made, swapped) if swapped else made
    train = {"train": True, "dropout_key": KEY, "remat": True}

    def called(params, scan, **options):
        merged = nnx.merge(graphdef, params, copy=True)
        return merged(text(24), encodings=used, key=KEY, scan=scan, **options)[0]

    @functools.partial(jax.jit, static_argnames="scan")
    def every(params, scan):
        slopes = jax.grad(lambda params: (called(params, scan, **train) ** 2).sum())(params)
        return called(params, scan, last=6, size=jnp.int32(21)), slopes

    found = jax.make_jaxpr(functools.partial(called, scan=True, last=3))(params).eqns
    assert [e.params["length"] for e in found if e.primitive.name == "scan"] == loops
    if loops:
        near = functools.partial(assert_near, tolerance=1e-5)
        jax.tree.map(near, every(params, True), every(params, False))


def test_an_encoding_says_what_it_cannot_serve():
    limited = [name for name in ENCODINGS if make(name, TINY.dims(TRAINED))[0].limit()]
    assert {"learned", "randomized"} <= set(limited)
    for name in limited:
        (made,) = make(name, TINY.dims(TRAINED))
        limit = made.limit()
        graphdef, params = model((made,), dataclasses.replace(TINY, layers=1))
        inside = run(graphdef, params, text(limit, 1), encodings=(made.at(limit),))
        assert np.isfinite(inside).all(), name
        try:
            beyond = run(graphdef, params, text(limit + 1, 1), encodings=(made.at(limit + 1),))
            assert np.isnan(beyond[:, -1]).all(), name
        except ValueError as refusal:
            assert str(limit) in str(refusal)


@pytest.mark.parametrize(
    ("tokens", "said"),
    (
        (jnp.zeros(5, jnp.int32), r"tokens must be \[B, L\].*\(5,\); pass tokens\[None\]"),
        (jnp.zeros((1, 5)), "tokens must be integers, got float32"),
    ),
    ids=("one sequence", "floats"),
)
def test_tokens_of_another_shape_or_type_are_refused(tokens, said):
    with pytest.raises(ValueError, match=said):
        nnx.merge(*model("rope"))(tokens)


def test_last_rows_are_those_of_the_full_forward():
    graphdef, params = model("blend")
    tokens = text(24)
    logits = run(graphdef, params, tokens)
    for last in (1, 23):
        got = run(graphdef, params, tokens, last=last)
        assert got.shape[1] == last
        assert_near(got, logits[:, -last:], 1e-5, f"last={last}")


TWICE = "key_offset+key_offset(part=0.25)"
READS_ROWS = ("rope", "shaw", "cope", "stick_breaking", "conv", "forget_gate", "blend", TWICE)
"""One encoding for each way in which a row may depend on those before it."""


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(spec, marks=() if spec in READS_ROWS else pytest.mark.slow)
        for spec in (*ENCODINGS, *COMPOSED, *MORE, TWICE)
        if not any(map(mixes, encodings(spec)))  # without attention there is no window
    ],
)
def test_last_rows_behind_windows_are_those_of_the_full_forward(spec):
    """Rows out of the windows' sight are left out where the result allows it."""
    graphdef, params = model(spec)
    window = make("window(window=6)", TINY.dims(TRAINED))
    windowed = (*encodings(spec), *window)
    tokens = text()
    whole = run(graphdef, params, tokens, encodings=windowed)
    got = run(graphdef, params, tokens, encodings=windowed, last=3)
    assert_near(got, whole[:, -3:], 1e-5)


def test_layers_compute_the_rows_that_the_last_ones_depend_on():
    """A window of W lets a row depend on the W - 1 before it; every other limit, on all rows."""

    def rows(spec, last=3, cuts=True, causal=True):
        made = make(spec, TINY.dims(TRAINED))
        pe = Bound(({},) * len(made), made, causal=causal)
        return _row_counts([pe] * 3, 40, last, cuts)

    for spec in ("window(window=6)", "rope+window(window=6)", "sinusoidal+window(window=6)"):
        assert rows(spec) == [18, 13, 8, 3]
    assert rows("window(window=6)+window(window=3)") == [9, 7, 5, 3]
    assert rows("window(window=16)") == [40, 33, 18, 3]
    every = "rope window(window=6,sinks=1) cope+window(window=6) sinusoidal[0:]+window(window=6)"
    for spec in every.split():
        assert rows(spec) == [40, 40, 40, 3]
    for options in ({"cuts": False}, {"causal": False}, {"last": 40}):
        assert rows("window(window=6)", **options)[:3] == [40, 40, 40]


@pytest.mark.parametrize(("attention", "long"), (("dense", 24), ("blockwise", 1000)))
def test_a_window_swapped_in(attention, long):
    """Over the same parameters; one at least as long as the sequence hides nothing."""
    config = dataclasses.replace(TINY, attention=attention)
    graphdef, params = model("rope", config)
    made, tokens = encodings("rope", config), text(24)
    plain = run(graphdef, params, tokens)

    def swapped(window, tokens=tokens):
        there = swap(made, f"window(window={window})")
        return run(graphdef, params, tokens, encodings=there)

    np.testing.assert_array_equal(swapped(long), plain)
    narrow = swapped(3)
    # two layers of windows of 3 see 5 tokens; before that nothing is hidden in the first 3
    np.testing.assert_array_equal(narrow[:, :3], plain[:, :3])
    assert (np.abs(narrow - plain)[:, 3:].max(-1) > 1e-4).all()
    far = swapped(3, tokens.at[:, 0].add(-1) % 32)
    np.testing.assert_array_equal(far[:, 5:], narrow[:, 5:])
    assert (np.abs(far - narrow)[:, :5].max(-1) > 1e-6).all()


PLACES_KEYS = {"embed", "qk", "logits", *RELATIVE, "bias", "gate", "normalize"}


@pytest.mark.parametrize(
    ("spec", "layers"),
    (("nope", 1), ("nope", 2), ("ssmax", 1), ("rope", 1), ("learned", 1), ("cope", 1)),
)
def test_one_layer_without_positions_does_not_see_the_order_of_earlier_tokens(spec, layers):
    config = dataclasses.replace(TINY, layers=layers)
    graphdef, params = model(spec, config, served=TRAINED)
    tokens = jnp.arange(8, dtype=jnp.int32)[None]
    shuffled = tokens[:, jnp.array([3, 0, 6, 5, 1, 4, 2, 7])]
    last = [run(graphdef, params, t, last=1) for t in (tokens, shuffled)]
    difference = np.abs(last[0] - last[1]).max()
    sees = PLACES_KEYS & {*sites(encodings(spec, config, served=TRAINED)[0])} or layers > 1
    assert difference > 1e-3 if sees else difference < 1e-5


@pytest.mark.parametrize("spec", ("rope+t5", "selective+shaw"))
def test_a_bidirectional_model_sees_the_future(spec):
    config = dataclasses.replace(TINY, layers=1, causal=False)
    graphdef, params = model(spec, config)
    tokens = text(12)
    logits = run(graphdef, params, tokens)
    changed = run(graphdef, params, tokens.at[:, -1].add(1) % 32)
    assert (np.abs(changed - logits).max(-1) > 1e-5).all()
    blocks, _ = model(spec, dataclasses.replace(config, attention="blockwise"))
    assert_near(run(blocks, params, tokens), logits, 1e-5, "blockwise")


@dataclasses.dataclass(frozen=True)
class Sine(Encoding):
    """A bias sin(i - j): its name stands in the traced program, beside the shape it has there."""

    def bias(self, params, q_pos, k_pos):
        return jnp.sin(1.0 * (q_pos[:, None] - k_pos[None, :]))[None]


@pytest.mark.parametrize(
    ("spec", "shape"),
    (("nope", (8, 8)), ("randomized", (8, 8)), ("randomized(per_sequence=True)", (3, 8, 8))),
)
def test_positions_that_the_batch_shares_are_not_batched(spec, shape):
    dims = TINY.dims(TRAINED)
    graphdef, params = model((*make(spec, dims), Sine(dims)))
    program = str(jax.make_jaxpr(functools.partial(run, graphdef))(params, text(8, 3)))
    shapes = re.findall(r"f32\[([\d,]+)\] = sin ", program)
    assert shapes == [",".join(map(str, shape))] * TINY.layers


def test_random_positions_are_one_draw_for_a_batch_or_one_a_sequence():
    graphdef, params = model("randomized+rope")
    same = jnp.tile(text(16, 1), (4, 1))

    shared = run(graphdef, params, same)
    np.testing.assert_array_equal(shared, jnp.tile(shared[:1], (4, 1, 1)))
    each = run(graphdef, params, same, jax.random.split(KEY, 4))
    assert (np.abs(each[1:] - each[:1]).max((1, 2)) > 1e-3).all()
    assert np.abs(run(graphdef, params, same, jax.random.key(6)) - shared).max() > 1e-3
    with pytest.raises(ValueError, match="pass `key`"):
        run(graphdef, params, same, None)


def test_dropout_needs_its_key_and_keeps_the_expectation():
    graphdef, params = model("rope")
    dropping, _ = model("rope", dataclasses.replace(TINY, dropout=0.5))
    tokens = text(12)
    plain = run(graphdef, params, tokens)
    np.testing.assert_array_equal(run(dropping, params, tokens), plain)
    draws = [run(dropping, params, tokens, dropout_key=jax.random.key(i)) for i in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert np.abs(draws[0] - plain).max() > 0.1 and np.abs(draws[0] - draws[2]).max() > 0.1

    ones, keys = jnp.ones((200, 200)), [jax.random.fold_in(KEY, n) for n in (1, 2)]
    first, second = (_dropped(0.25, ones, key) for key in keys)
    for dropped in (first, second):
        np.testing.assert_allclose(np.unique(dropped), [0, 4 / 3], rtol=1e-6)
        assert abs(dropped.mean() - 1) < 0.015  # 5 standard deviations
    assert abs((first * second).mean() - 1) < 0.025  # independent of each other


def test_tied_embeddings_are_the_head():
    config = dataclasses.replace(TINY, tie_embeddings=True, embed_std=2.0)
    graphdef, params = model("rope", config)
    assert "head" not in params and "head" in model("rope")[1]
    tokens = text(64) % 31
    logits = run(graphdef, params, tokens)
    assert 0.3 < logits.std() < 3  # unit scale whatever embed_std is

    new = params | {"embedding": params["embedding"].at[31].multiply(3.0)}
    after = run(graphdef, new, tokens)  # 31 is not in the text: its row is but a target
    np.testing.assert_array_equal(after[..., :31], logits[..., :31])
    assert_near(after[..., 31], 3 * logits[..., 31], 1e-5)


def test_tied_embeddings_of_a_pretrained_model_are_the_head_to_the_bit():
    """In bfloat16 multiplied and divided by the root of 24 they would be rounded twice."""
    config = dataclasses.replace(TINY, model=24, tie_embeddings=True, embed_std=24**-0.5)
    graphdef, params = model("rope", config)
    rounded = params["embedding"].astype(jnp.bfloat16)
    both = [params | {"embedding": rounded.astype(kind)} for kind in (jnp.bfloat16, jnp.float32)]
    np.testing.assert_array_equal(*(run(graphdef, own, text(64)) for own in both))


@pytest.mark.parametrize("spec", ("transformer_xl+learned", "blend"))
@pytest.mark.parametrize("norm", ("rms", "layer"))
def test_weight_decay_acts_on_dense_kernels_alone(spec, norm):
    _, params = model(spec, dataclasses.replace(TINY, norm=norm))
    marked = {
        jax.tree_util.keystr(path, simple=True, separator=".")
        for path, yes in jax.tree_util.tree_leaves_with_path(decayed(params))
        if yes
    }
    dense = ("query", "key_value", "out", "up", "down")
    assert marked == {f"blocks.{i}.{name}.kernel" for i in (0, 1) for name in dense} | {
        "head.kernel"
    }


def test_an_encoding_may_call_its_parameter_kernel_and_is_not_decayed():
    @dataclasses.dataclass(frozen=True)
    class Named(Encoding):
        def init(self, key):
            return {"kernel": jnp.ones(3)}

    dims = TINY.dims(TRAINED)
    _, params = model((Named(dims), Named(dims, per_layer=("*",))))
    marks = decayed(params)
    assert (
        len(jax.tree.leaves(params["shared"])) == 1 and len(jax.tree.leaves(params["owned"])) == 2
    )
    assert not any(jax.tree.leaves((marks["shared"], marks["owned"])))
    assert marks["head"]["kernel"]


def test_what_is_fixed_gets_no_gradient_and_an_entry_may_be_called_items():
    @dataclasses.dataclass(frozen=True)
    class Fixed(Encoding):
        fixed: ClassVar = ("w",)

        def init(self, key):
            return {"w": jnp.ones(2), "items": jnp.ones(2)}

        def relative_bias(self, params, n):
            return -jnp.log1p(abs(n))[None] * (params["w"] * params["items"])[:, None]

    graphdef, params = model((Fixed(TINY.dims(TRAINED)),))
    slopes = jax.grad(lambda params: (run(graphdef, params, text()) ** 2).sum())(params)
    (shared,) = jax.tree.leaves(slopes["shared"], is_leaf=lambda node: "w" in node)
    assert np.all(shared["w"] == 0) and np.any(shared["items"] != 0)


def test_embeddings_of_one_precision_leave_the_activations_in_theirs(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Wide(Encoding):
        def embed(self, params, x, tokens, pos):
            return x + jnp.sin(pos.astype(jnp.float32))[:, None]

    config = dataclasses.replace(TINY, dtype="bfloat16", layers=8)
    wide = Wide(config.dims(TRAINED), where="layers", layers="0:")
    graphdef, params = model((wide,), config)
    built, left = nnx.merge(graphdef, params, copy=True), []
    monkeypatch.setattr(LM, "logits_of", lambda self, x: left.append(x.dtype) or x)
    for scan in (False, True):
        jax.eval_shape(lambda tokens, scan=scan: built(tokens, scan=scan), text())
    assert left == [jnp.bfloat16] * 2


def test_what_encodings_share_depends_on_the_seed_alone():
    def shared(spec, seed):
        params = model(spec, seed=seed)[1]
        leaves = jax.tree_util.tree_leaves_with_path(
            {name: part for name, part in params.items() if name not in ("shared", "owned")}
        )
        return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}

    nope, other = shared("nope", 0), shared("nope", 1)
    for spec in ("transformer_xl", "learned+t5", "blend", "learned[-1:]"):
        its = shared(spec, 0)
        assert its.keys() == nope.keys()
        for name, leaf in its.items():
            np.testing.assert_array_equal(leaf, nope[name], name)
    for name in nope:
        assert "scale" in name or np.abs(nope[name] - other[name]).max() > 0.1, name


def test_embeddings_and_dense_layers_start_at_the_documented_scales():
    config = LmConfig(vocab=512, layers=2, model=128, heads=2, embed_std=0.5)
    lm = LM(config, make("nope", config.dims(8)), rngs=nnx.Rngs(params=0, encodings=1))
    assert abs(lm.embedding[...].std() - 0.5) < 0.01
    layer = lm.blocks[1]
    for dense, want in (
        (layer.query, 128**-0.5),
        (layer.up, 128**-0.5),
        (layer.down, 512**-0.5 / 2),
    ):
        assert abs(dense.kernel[...].std() / want - 1) < 0.05
    assert layer.up.kernel[...].shape == layer.down.kernel[...].shape == (128, 512)


REFUSED = (
    ({"heads": 3}, ("lm.heads", "lm.model", "3", "16")),
    ({"layers": 0}, ("lm.layers", "0")),
    ({"embed_std": 0.0, "tie_embeddings": True}, ("lm.tie_embeddings", "lm.embed_std")),
    ({"kv_heads": 3}, ("lm.kv_heads", "3 for 2 heads")),
    ({"dropout": 1.0}, ("lm.dropout", "1.0")),
    ({"activation": "swish"}, ("lm.activation", "'swish'", "gelu", "relu", "silu")),
)


def test_a_wrong_config_says_field_value_and_what_is_known(subtests):
    for fields, said in REFUSED:
        with subtests.test(fields=fields):
            with pytest.raises(ValueError) as error:
                dataclasses.replace(TINY, **fields)
            for part in said:
                assert part in str(error.value)
