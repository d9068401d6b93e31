"""Blockwise and fused attention, with gradients: no encoding makes an array over all pairs of
tokens.

Programs are traced and not compiled: every array that a program names is seen, those that XLA
would never make included.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import pytest
from helpers import covering, example, layer, sampled

from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import attend
from pe_jax.attention.fused import attend_fused
from pe_jax.encoding import RELATIVE, Dims, mixes, overrides, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.model.lm import init_params
from pe_jax.specs.parse import make

LENGTH = 1024
DIMS = Dims(model=32, heads=4, head=8, layers=1, train_len=LENGTH)
COMPOSED = ["randomized+shaw", "randomized+transformer_xl", "deberta+forget_gate", "t5+window"]
COMPOSED += ["recurrent[0:]"]
EVERY = sampled([*ENCODINGS, *COMPOSED], lambda name: make(name, DIMS), COMPOSED[:1])


def largest(jaxpr):
    """The numbers of the largest array that a program or one inside it makes."""
    most = 0
    for equation in jaxpr.eqns:
        most = max([most, *(getattr(v.aval, "size", 0) for v in equation.outvars)])
        for inner in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(inner, "jaxpr", inner)  # of a ClosedJaxpr
            most = max(most, largest(inner) if hasattr(inner, "eqns") else 0)
    return most


def traced(name, contiguous, form, dims=DIMS):
    """The largest array of a layer's output and its gradients."""
    members, case = make(name, dims), example(LENGTH, dims)
    moved = any(overrides(e, "positions") for e in members)

    def loss(params, x, q, k, v, pos):
        pe = Bound(params, members, contiguous and not moved, dims.causal)
        tokens = jnp.asarray(case.tokens)
        pos = fold_positions(members, tokens[None], pos, jax.random.key(0), True).reshape(LENGTH)
        return layer(pe, case._replace(x=x, q=q, k=k, v=v, pos=pos), form=form).sum()

    def params():
        drawn = [init_params(e, jax.random.key(0)) for e in members]
        return tuple(shared | owned.get(0, {}) for shared, owned in drawn)

    step = jax.value_and_grad(loss, argnums=(0, 1, 2, 3, 4))
    given = jax.eval_shape(params), case.x, case.q, case.k, case.v, case.pos
    return largest(jax.make_jaxpr(step)(*given).jaxpr)


@pytest.mark.parametrize("name", EVERY)
def test_no_array_of_a_blockwise_program_is_over_all_pairs(name):
    """Below [T, S], even of one head: [T, S, K] and [H, T, S] are far beyond it."""
    blockwise = functools.partial(attend_blockwise, block=64)
    relative = {*RELATIVE} & {site for e in make(name, DIMS) for site in sites(e)}
    for contiguous in (True, False) if relative else (True,):
        assert traced(name, contiguous, blockwise) < LENGTH**2, f"{contiguous=}"


SETS = "rope kerple_log urpe forget_gate fire(width=4) t5+window rerope".split()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *zip(SETS, itertools.cycle(["tpu", "gpu"])),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in zip(SETS, itertools.cycle(["gpu", "tpu"]))
        ),
        ("randomized+rope", "gpu"),
    ],
)
def test_no_array_of_a_fused_program_is_over_all_pairs(name, target):
    """Nor inside its kernels, whose tiles are 64 by 64. One encoding for each set of hooks that the
    kernels have inside; all others are called before. Each on one target, on the other slow.
    """
    fused = functools.partial(attend_fused, target=target, block=64)
    assert traced(name, True, fused) < LENGTH**2


ATTENDING = [name for name in ENCODINGS if not mixes(*make(name, DIMS))]


@pytest.mark.parametrize("name", covering(ATTENDING, lambda name: make(name, DIMS)))
def test_the_largest_array_of_dense_attention_is_its_logits(name):
    """Or, where rows are padded to shift them, or stand beside a bias, twice these: [T, S, K] and
    the hidden layer of a network over pairs are larger.
    """
    wide = DIMS._replace(model=64, head=16)
    logits = wide.heads * LENGTH**2
    assert logits <= traced(name, True, attend, wide) <= 2 * logits < wide.head * LENGTH**2


@pytest.mark.parametrize("name", ["cape+transformer_xl", "cape+tisa"])
def test_nor_is_there_a_larger_one_where_every_pair_has_its_own_distance(name):
    wide = DIMS._replace(model=64, head=16)
    assert traced(name, False, attend, wide) <= 2 * wide.heads * LENGTH**2
