"""Any config makes a run, or one line says why not; equal configs have equal ids."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pe_jax.encodings import ENCODINGS
from pe_jax.fields import hints
from pe_jax.runs.config import SECTIONS
from pe_jax.runs.run import Run
from pe_jax.specs.parse import defaults, parse
from pe_jax.storage import records
from pe_jax.storage.hashes import canonical

settings.register_profile("same", derandomize=True, database=None, deadline=None, max_examples=60)
settings.load_profile("same")

FIELDS = [f"{name}.{field}" for name, kind in SECTIONS.items() for field in hints(kind)]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 300),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["rope", "data:2", "files:", "uniform", "test"]),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(), SCALARS))
ROPES = st.fixed_dictionaries(
    {
        "train.rate": st.floats(1e-6, 1.0),
        "train.steps": st.integers(1, 10**6),
        "eval.swaps": st.just(()),  # each of which takes time to plan
    }
)


NESTED = """
import dataclasses

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class Bands(Encoding):
    bands: tuple[tuple[int, int], ...] = ((0, 4), (4, 8))
"""


def config_of(values, spec="rope"):
    """A config in sections of values by "section.field"."""
    config = {"pe": {"spec": spec}}
    for name, value in values.items():
        section, field = name.split(".")
        config.setdefault(section, {})[field] = value
    return config


def assert_made_or_refused(config):
    """A run is made of the config, and again of its record; or it is refused in one short line."""
    try:
        run = Run.of(config)
    except (ValueError, OSError) as error:
        assert "\n" not in str(error) and 10 < len(str(error)) < 2000
        return
    assert Run.of(json.loads(canonical(run.config))).id == run.id


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=3))
def test_any_values_of_a_config_make_a_run_or_are_refused_in_one_line(values):
    assert_made_or_refused(config_of(values))


@settings(max_examples=150)
@given(st.sampled_from(sorted(ENCODINGS)), st.data())
def test_any_values_of_an_encodings_fields_make_a_run_or_are_refused_in_one_line(name, data):
    fields = st.dictionaries(st.sampled_from(sorted(defaults(ENCODINGS[name]))), VALUES, max_size=2)
    assert_made_or_refused({"pe": {"spec": name, name: data.draw(fields)}})


@settings(max_examples=150)
@given(st.lists(st.sampled_from([*"+()[]:=,.'\"-", *"0123", "\n", "é", *ENCODINGS]), max_size=8))
def test_any_text_is_a_spec_that_is_read_again_as_itself_or_is_refused_in_one_line(parts):
    text = "".join(parts)
    try:
        spec = parse(text)
    except ValueError as error:
        assert "\n" not in str(error)
        return
    assert parse(str(spec)) == spec


@given(ROPES, st.permutations(range(3)), st.randoms(use_true_random=False))
def test_an_id_does_not_depend_on_how_the_config_is_written(values, order, rng):
    run = Run.of(config_of(values))
    shuffled = list(run.config.items())
    rng.shuffle(shuffled)
    again = {name: dict(sorted(section.items(), reverse=True)) for name, section in shuffled}
    assert Run.of(again).id == run.id
    whole, real = ({"pe": f"rope(base={n})", "train": {"clip": n}} for n in (500, 500.0))
    assert Run.of(whole).id == Run.of(real).id


def test_the_function_that_gives_the_text_is_part_of_the_id(tmp_path):
    own, ids = tmp_path / "own.py", set()
    for text in ("def texts():\n    return ['a']\n", "def texts():\n    return ['b']\n"):
        own.write_text(text)
        ids.add(Run.of({"pe": "rope", "data": {"source": f"documents:{own}:texts"}}).id)
    assert len(ids) == 2


@given(ROPES, ROPES)
def test_runs_have_one_id_if_and_only_if_they_learn_the_same(one, other):
    assert (Run.of(config_of(one)).id == Run.of(config_of(other)).id) == (one == other)


def test_numbers_of_numpy_are_those_of_python():
    def run(rate, lengths, seeds):
        sections = {"train": {"rate": rate}, "eval": {"lengths": lengths}, "run": {"seeds": seeds}}
        return Run.of({"pe": "rope", **sections})

    made = run(np.float64(1e-3), tuple(np.array([64, 128])), tuple(np.arange(2)))
    assert records.plain(made.config) == records.plain(run(1e-3, (64, 128), (0, 1)).config)


def test_tuples_in_tuples_come_back_from_a_record(tmp_path):
    (tmp_path / "mine.py").write_text(NESTED)
    assert_made_or_refused({"pe": f"{tmp_path / 'mine.py'}:Bands"})
    assert_made_or_refused({"pe": f"{tmp_path / 'mine.py'}:Bands(bands=((0, 2), (2, 8)))"})
