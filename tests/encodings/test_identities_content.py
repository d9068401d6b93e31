"""What encodings that read content become where their parameters make them another."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import one
from helpers import DIMS, assert_near, bind, example, output, scattered
from reference_case import alibi_slopes, attention, sinusoid

from pe_jax.specs.parse import make

LENGTH = 20


def attended(spec, case=None, params=None, dims=DIMS):
    """The attention of an encoding as it is drawn, or with some of its parameters replaced."""
    pe = bind(make(spec, dims), spread=0.0)
    if params is not None:
        given = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
        members = (pe.params[0] | given, *pe.params[1:])
        pe = dataclasses.replace(pe, params=members)
    return output(pe, example(LENGTH, dims) if case is None else case)


def zeros(spec, *names):
    (params,) = bind(make(spec, DIMS)).params
    return {name: np.zeros(params[name].shape) for name in names or params}


@pytest.mark.parametrize("spec", ["shaw", "shaw(values=False)"])
def test_shaw_of_zeros_is_none(spec):
    assert_near(attended(spec, params=zeros(spec)), attended("nope"), 1e-6)


def test_shaw_without_values_is_shaw_with_values_of_zero():
    keys = bind(make("shaw", DIMS)).params[0]["keys"]
    one = attended("shaw", params={"keys": keys, "values": np.zeros(keys.shape)})
    assert_near(attended("shaw(values=False)", params={"keys": keys}), one, 1e-6)
    far = example(LENGTH)._replace(pos=scattered(LENGTH, 60))
    pe = bind(make("shaw(values=False)", DIMS), contiguous=False)
    assert np.isfinite(output(pe, far)).all() and "values" not in pe.params[0]


@pytest.mark.parametrize("variant", ["paper", "code"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_nezha_is_shaw_with_the_rows_of_a_sinusoid(causal, variant):
    dims, k = DIMS._replace(causal=causal), 5
    distances = range(k + 1) if causal else range(-k, k + 1)
    start = k if variant == "code" else 0
    rows = np.array([sinusoid(start - n, dims.head) for n in distances])
    got = attended(f"nezha(clip={k},variant={variant!r})", dims=dims)
    want = attended(f"shaw(clip={k})", params={"keys": rows, "values": rows}, dims=dims)
    assert_near(got, want, 1e-5)


def test_urpe_begins_as_none():
    assert_near(attended("urpe"), attended("nope"), 1e-6)


def test_urpe_takes_its_last_number_beyond_it():
    c = np.random.default_rng(0).normal(size=(DIMS.heads, 3))
    case = example(LENGTH)
    want = attention(case, case.dot, gate=lambda i, j, h: c[h, min(i - j, 2)])
    assert_near(attended("urpe(rows=3)", params={"c": c}), want, 1e-5)


def test_a_constant_forget_gate_is_alibi():
    """ln sigmoid(b) = -m where b = -ln(e^m - 1)."""
    b = [-math.log(math.expm1(m)) for m in alibi_slopes(DIMS.heads)]
    same = attended("forget_gate", params={"w": np.zeros((DIMS.model, DIMS.heads)), "b": b})
    assert_near(same, attended("alibi"), 1e-5)


def test_a_forget_gate_begins_with_a_memory_of_the_training_length():
    for spec, gate in (("forget_gate", 8 / 9), ("forget_gate(start=0.0)", 0.5)):
        b = bind(make(spec, DIMS), spread=0.0).params[0]["b"]
        assert_near(1 / (1 + np.exp(-b)), np.full(DIMS.heads, gate), 1e-6)


def test_dape_with_a_silent_mlp_is_its_bias_alone():
    silent = zeros("dape", "w2")
    assert_near(attended("dape", params=silent), attended("alibi"), 1e-5)
    p, a = [0.5, 1.5, 3.0], [0.2, 0.001, 1.0]  # the second is held at 0.01
    got = attended("dape(prior='kerple_log')", params=silent | {"p": p, "a": a})
    case = example(LENGTH)

    def logit(i, j, h):
        return case.dot(i, j, h) - p[h] * math.log(1 + max(a[h], 0.01) * (i - j))

    assert_near(got, attention(case, logit), 1e-5)


def test_cope_with_open_gates_counts_the_keys():
    """Keys that are all one make equal products: large, they open every gate."""
    rng, rows = np.random.default_rng(0), 7
    case, table = example(LENGTH), rng.normal(size=(rows, DIMS.head))
    q = case.q + 10.0
    case = case._replace(q=q, k=np.full_like(q, 5.0))

    def logit(i, j, h):
        return case.dot(i, j, h) + q[i, h] @ table[min(i - j + 1, rows - 1)] / math.sqrt(DIMS.head)

    got = attended(f"cope(rows={rows})", case, {"table": table})
    assert_near(got, attention(case, logit), 1e-4)


@pytest.mark.parametrize("length", (8, 33, 64))
def test_training_reaches_every_row_of_cope_and_the_table_says_from_which_length(length):
    e = one("cope", DIMS._replace(train_len=length))
    pe, case = bind((e,), spread=0.0), example(length)

    def loss(params):
        return (output(dataclasses.replace(pe, params=params), case) ** 2).sum()

    (gradient,) = jax.grad(loss)(pe.params)
    assert np.abs(gradient["table"]).max(1).min() > 0
    assert e.trained_from() == length // 2 * 2 and len(gradient["table"]) == length // 2 + 1
    assert one("cope", DIMS._replace(train_len=2048)).trained_from() == 126


def test_the_prior_of_dape_passes_the_gradient_of_a_parameter_out_of_bounds():
    e, case = one("dape(prior='kerple_log')"), example(LENGTH)
    (params,) = bind((e,)).params
    low = params | {"a": jnp.full(DIMS.heads, 1e-3), "p": jnp.full(DIMS.heads, -1.0)}
    logits = jnp.zeros((DIMS.heads, LENGTH, LENGTH))
    gradient = jax.grad(
        lambda params: (e.logits(params, logits, case.q, case.k, case.pos, case.pos) ** 2).sum()
    )(low)
    assert np.abs(gradient["a"]).min() > 0 and np.abs(gradient["p"]).min() > 0


def test_the_gates_of_cope_do_not_see_other_members():
    """ALiBi changes its logits and not its counts."""
    case, table = example(LENGTH), np.random.default_rng(0).normal(size=(8, DIMS.head))
    slope = alibi_slopes(DIMS.heads)

    def logit(i, j, h):
        count = min(sum(1 / (1 + math.exp(-case.dot(i, t, h))) for t in range(j, i + 1)), 7)
        low, part = int(count), count - int(count)
        e = (1 - part) * table[low] + part * table[min(low + 1, 7)]
        return case.dot(i, j, h) + case.q[i, h] @ e / math.sqrt(DIMS.head) - slope[h] * (i - j)

    assert_near(
        attended("cope(rows=8)+alibi", params={"table": table}), attention(case, logit), 1e-5
    )


def test_deberta_of_zeros_is_a_lower_scale():
    case = example(LENGTH)
    got = attended("deberta", params=zeros("deberta", "table"))
    assert_near(got, attended("nope", case._replace(q=case.q / math.sqrt(3))), 1e-5)


@pytest.mark.parametrize("k", [4, 16, 64, 256])
def test_the_buckets_of_deberta_v2(k):
    """Of the differences -3000 .. 3000, in double precision: the code's make_log_bucket_position
    with 2k as its farthest, and its clip.
    """
    m, exact = np.arange(-3000, 3001), k // 2
    near = np.abs(m) <= exact
    per_log = (exact - 1) / np.log((2 * k - 1) / exact)
    far = np.ceil(per_log * np.log(np.where(near, exact, np.abs(m)) / exact) - 1e-9) + exact
    want = np.clip(np.where(near, m, np.sign(m) * far) + k, 0, 2 * k - 1)

    (e,) = make(f"deberta(clip={k},variant='v2')", DIMS._replace(model=1, heads=1, head=1))
    own = {"table": jnp.arange(2.0 * k)[:, None], "key": jnp.ones((1, 1, 1))}
    np.testing.assert_array_equal(e.relative_keys(own, m)[0, :, 0], want)


def test_tupe_with_one_position_everywhere_is_its_bias_at_half_the_temperature():
    """Equal products leave the softmax alone: t5's table and the scale 1 / sqrt(2) remain."""
    case, dims = example(LENGTH), DIMS._replace(train_len=LENGTH)
    table = bind(make("t5", dims)).params[0]["table"]
    own = {"table": np.tile(np.arange(dims.model), (LENGTH, 1)), "bias": table}
    cooler = case._replace(q=case.q / math.sqrt(2))
    want = attended("t5", cooler, {"table": table}, dims)
    assert_near(attended("tupe", case, own, dims), want, 1e-5)


def test_lengths_follow_the_training_length_up_to_those_of_the_papers():
    for spec, name, of_8, of_4096 in (
        ("shaw", "keys", 8, 17),
        ("urpe", "c", 8, 4096),
        ("cope", "table", 5, 64),
        ("tupe", "table", 8, 4096),
        ("deberta", "table", 14, 1024),
        ("deberta(variant='v2')", "table", 8, 512),
    ):
        for train_len, rows in ((8, of_8), (4096, of_4096)):
            (e,) = make(spec, DIMS._replace(train_len=train_len))
            shape = jax.eval_shape(e.init, jax.random.key(0))[name].shape
            assert shape[1 if name == "c" else 0] == rows, (spec, train_len)
