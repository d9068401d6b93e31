"""The tasks of single studies."""

import jax
import numpy as np
import pytest

from experiments.studies.unique_copy import UniqueCopy
from experiments.studies.warm_markov import WarmMarkov
from pe_jax import testing


def test_samples_are_strings_of_different_symbols_with_a_copy():
    task = UniqueCopy(True, alphabet=12)
    testing.check(task)
    for n in (1, 5, 12):
        tokens = np.array(task.sample(jax.random.key(n), n, 12).tokens)
        assert len({*tokens[:n]}) == n and tokens[n] == 13
        assert (tokens[n + 1 : 2 * n + 1] == tokens[:n]).all()
    assert not task.has(13)


def test_easier_chains_have_their_share_and_are_not_scored():
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = [
        np.array(jax.vmap(WarmMarkov(fixed=fixed, sharp=sharp)._matrix)(keys))
        for fixed, sharp in ((0.25, 0.0), (0.0, 0.0), (0.0, 1.0))
    ]
    _, counts = np.unique(drawn[0][:, 0, 0], return_counts=True)
    assert abs(counts.max() / 4000 - 0.25) < 0.03
    usual, few = (matrices.max(-1).mean() for matrices in drawn[1:])
    assert usual == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, abs=0.01) and few > 0.8
    testing.check(WarmMarkov())
