"""What is asked of an ideal encoding: encodings whose formulas say whether they have it."""

import numpy as np
import pytest

from pe_jax.atlas.facts import Ideals, ideals, values
from pe_jax.atlas.subject import Subject
from pe_jax.encoding import Dims
from pe_jax.geometry import slopes

DIMS = Dims(model=16, heads=2, head=8, layers=2, train_len=16)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("rope", Ideals(True, True, True)),
        ("sinusoidal", Ideals(True, True, True)),
        ("learned", Ideals(True, True, True)),  # of the positions that it serves
        ("t5(buckets=8)", Ideals(False, True, True)),  # distances of a bucket have one value
        ("alibi", Ideals(True, True, False)),
        ("kerple_log", Ideals(True, True, False)),  # grows as a logarithm
        ("integer", Ideals(True, True, False)),
        ("normalized", Ideals(True, False, True)),  # position / length
        ("pi", Ideals(True, False, True)),
        ("log_n", Ideals(False, True, False)),  # reads the query's position alone
        ("forget_gate", Ideals(True, True, False)),  # grows with the tokens between, not the places
        ("window(window=4)", Ideals(False, True, True)),
        ("nope", Ideals(False, True, True)),
        ("randomized", Ideals(None, None, None)),
        ("learned+t5", Ideals(True, True, True)),
        ("t5+alibi", Ideals(True, True, False)),
    ],
)
def test_ideals_of(spec, wanted):
    assert ideals(Subject.of(spec, DIMS)) == wanted


def test_the_value_of_a_place_is_what_the_logit_gets():
    found = values(Subject.of("alibi", DIMS), 32)
    i, j = np.indices((32, 32))
    want = np.where(j <= i, -slopes(2)[:, None, None] * (i - j), 0)
    np.testing.assert_allclose(found, np.broadcast_to(want, found.shape), atol=1e-4)
