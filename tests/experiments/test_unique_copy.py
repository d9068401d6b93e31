"""The task of copying different symbols."""

import jax
import numpy as np

from experiments.studies.unique_copy import UniqueCopy
from pe_jax import testing


def test_samples_are_strings_of_different_symbols_with_a_copy():
    task = UniqueCopy(True, alphabet=12)
    testing.check(task)
    for n in (1, 5, 12):
        tokens = np.array(task.sample(jax.random.key(n), n, 12).tokens)
        assert len({*tokens[:n]}) == n and tokens[n] == 13
        assert (tokens[n + 1 : 2 * n + 1] == tokens[:n]).all()
    assert not task.has(13)
