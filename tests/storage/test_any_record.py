"""Any record comes back as it was written, and any change of its text is told."""

import dataclasses
import json
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pe_jax import record
from pe_jax.fields import hints
from pe_jax.record import VERSION, Begun, Planned, Result, State
from pe_jax.storage import records

settings.register_profile("same", derandomize=True, database=None, deadline=None, max_examples=40)
settings.load_profile("same")

# beartype draws the entries that it checks by `random`
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")

FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
KINDS = (Planned, Begun, Result, State)


def any_of(kind):
    """A record, or a part of one, of the present version, with a value for each of its fields."""
    return st.builds(kind, **{name: value_of(name, hint) for name, hint in hints(kind).items()})


def value_of(name, hint):
    if name == "version":
        return st.just(VERSION)
    json_object = hint == dict[str, typing.Any]
    return st.dictionaries(st.text(), JSON, max_size=3) if json_object else st.from_type(hint)


st.register_type_strategy(float, FINITE)
for part in vars(record).values():
    if dataclasses.is_dataclass(part) and isinstance(part, type):
        st.register_type_strategy(part, any_of)
RECORDS = st.sampled_from(KINDS).flatmap(any_of)


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(whole):
    text = records.encode(whole)
    again = records.parse(type(whole), text)
    assert again == whole and records.encode(again) == text


@given(RECORDS, st.data())
def test_a_record_whose_bytes_were_changed_is_refused_or_says_the_same(whole, data):
    text = records.encode(whole).encode()
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.binary(max_size=2)) + text[place + 1 :]
    try:
        again = records.parse(type(whole), changed)
    except ValueError:  # what is not JSON, and what is not UTF-8, too
        return
    assert records.plain(again) == records.plain(whole)


@settings(max_examples=200)
@given(st.sampled_from(KINDS), JSON | st.dictionaries(st.sampled_from(["version", "rows"]), JSON))
def test_any_json_that_is_no_record_is_refused(kind, data):
    with pytest.raises(ValueError):
        records.parse(kind, json.dumps(data))
