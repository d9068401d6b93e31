"""The contract: what a class may define, what layers and parameters it gets, how a spec is read."""

import dataclasses
import importlib
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.encoding import HIDDEN, HOOKS, Dims, Encoding, acts_once, overrides, seen, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.encodings.hierarchical import Hierarchical
from pe_jax.encodings.learned import Learned
from pe_jax.encodings.nope import NoPE
from pe_jax.encodings.pi import PI
from pe_jax.encodings.rope import RoPE
from pe_jax.encodings.rotary import Rotary, Turned
from pe_jax.encodings.t5 import T5
from pe_jax.encodings.transformer_xl import TransformerXL
from pe_jax.encodings.xpos import XPos
from pe_jax.model.lm import init_params
from pe_jax.specs.parse import active, defaults, make, parse, sources
from pe_jax.specs.swap import kin, replaces, swap
from pe_jax.terms import elements

DIMS = Dims(model=24, heads=3, head=8, layers=6, train_len=16)


@dataclasses.dataclass(frozen=True)
class Two(Encoding):
    """Two parameters, a bias."""

    def init(self, key):
        a, b = jax.random.split(key)
        return {"a": jax.random.normal(a, (3,)), "b": jax.random.normal(b, ())}

    def relative_bias(self, params, n):
        return params["a"][:, None] * n[None]


@dataclasses.dataclass(frozen=True)
class Shifted(Encoding):
    """Positions plus a constant, plus a draw below `most`."""

    by: float = 0
    most: int = 0

    def positions(self, tokens, pos, key, train):
        return pos + self.by + (jax.random.randint(key, (), 0, self.most) if self.most else 0)


@dataclasses.dataclass(frozen=True)
class Read(Encoding):
    """Positions of the tokens themselves."""

    per_sequence: ClassVar[bool] = True

    def positions(self, tokens, pos, key, train):
        return tokens


# The class


def test_a_misspelt_hook_is_an_error_that_names_the_hooks():
    with pytest.raises(TypeError, match="relative_bais.*did you mean 'relative_bias'") as error:

        class Wrong(Encoding):
            def relative_bais(self, params, n):
                return n

    assert all(hook in str(error.value) for hook in HOOKS)


@pytest.mark.parametrize("name", ["jitted", "static", "nonsense"])
def test_no_other_public_function_passes(name):
    body = {
        "jitted": {"biass": jax.jit(lambda self, params, q_pos, k_pos: 0.0)},
        "static": {"biass": staticmethod(lambda params: 0.0)},
        "nonsense": {"xyzzy": lambda self: 0.0},
    }[name]
    with pytest.raises(TypeError, match="is not a hook"):
        type("Wrong", (Encoding,), body)


def test_another_argument_list_is_an_error_that_shows_the_right_one():
    with pytest.raises(TypeError, match=r"bias takes .*'k_len'\), and the hook takes .*'k_pos'\)"):

        class Wrong(Encoding):
            def bias(self, params, q_len, k_len):
                return 0.0


def test_a_field_may_not_have_the_name_of_a_hook():
    with pytest.raises(TypeError, match=r"Wrong\.normalize is a field, and the hook's name"):

        class Wrong(Encoding):
            normalize: bool = False


def test_helpers_begin_with_an_underscore_and_properties_are_no_hooks():
    class Fine(Encoding):
        size: int = 3
        activation: Callable = jax.nn.relu

        def _table(self, anything):
            return anything

        @property
        def _rows(self):
            return self.size

    assert sites(Fine(DIMS)) == ()


def test_a_subclass_of_a_subclass_is_checked_too():
    with pytest.raises(TypeError, match="limits"):
        type("Wrong", (RoPE,), {"limits": lambda self: None})


def test_sites_are_the_overridden_hooks_in_the_order_of_the_contract():
    assert sites(NoPE(DIMS)) == ()
    assert sites(RoPE(DIMS)) == ("qk",)
    assert sites(Learned(DIMS)) == ("limit", "embed")
    assert sites(TransformerXL(DIMS)) == ("qk", "relative_bias", "relative_keys")
    assert overrides(Two(DIMS), "init") and not overrides(RoPE(DIMS), "init")


def test_every_default_is_the_identity():
    e = Encoding(DIMS)
    x, pos = jnp.arange(6.0).reshape(3, 2), jnp.arange(3)
    q, s = x.reshape(3, 1, 2), jnp.arange(9.0).reshape(1, 3, 3)
    assert e.init(jax.random.key(0)) == {} and e.at(99) is e
    assert e.limit() is None and e.reach() is None
    assert e.positions(pos, pos, None, True) is pos and e.embed({}, x, pos, pos) is x
    assert e.locate({}, x, pos, None) is pos
    k = q + 1
    rotated_q, rotated_k = e.qk({}, q, k, pos, pos)
    assert rotated_q is q and rotated_k is k and e.logits({}, s, q, k, pos, pos) is s
    assert e.relative_bias({}, pos) == e.relative_keys({}, pos) == e.relative_values({}, pos) == 0
    assert e.relative_queries({}, pos) == 0 and e.relative_gate({}, pos) == 1
    assert e.bias({}, pos, pos) == 0 and e.gate({}, pos, pos) == e.scale({}, pos) == 1
    np.testing.assert_allclose(e.normalize({}, s).sum(-1), 1, rtol=1e-6)


# Layers and parameters


SLICES = [
    (":", [0, 1, 2, 3, 4, 5]),
    ("::2", [0, 2, 4]),
    ("1::2", [1, 3, 5]),
    ("-1:", [5]),
    (":2", [0, 1]),
    ("2:4", [2, 3]),
    ("::-5", [0, 5]),
    ("3", [3]),
    ("-1,0,2:4", [0, 2, 3, 5]),
]


def test_layers_are_slices_and_numbers(subtests):
    for layers, want in SLICES:
        with subtests.test(layers=layers):
            e = Two(DIMS, layers=layers)
            assert [layer for layer in range(6) if active(e, layer)] == want


NO_SLICES = ["", "0][1", "True", "3.5", "a:", "1:2:3:4", "1.5:", "--1:", "0,a"]


def test_layers_that_are_no_slice_are_an_error(subtests):
    for layers in NO_SLICES:
        with subtests.test(layers=layers):
            with pytest.raises(ValueError, match="must be slices or numbers"):
                active(Two(DIMS, layers=layers), 0)


@pytest.mark.parametrize("layers", ["0:", "::2", "-1:"])
def test_what_acts_on_the_models_input_has_no_layers(layers):
    assert acts_once(Learned(DIMS)) and not acts_once(Learned(DIMS, where="layers"))
    assert not acts_once(Learned(DIMS, layers=layers, where="layers"))
    assert RoPE(DIMS, layers=layers).where == "input"  # it has no `embed`: nothing is said by it

    @dataclasses.dataclass(frozen=True)
    class Checked(Learned):
        def __post_init__(self):  # does not call that of Encoding
            raise AssertionError("the contract's own check comes first")

    for cls in (Learned, Checked):
        with pytest.raises(ValueError, match=f"layers are '{layers}': give it where='layers'"):
            cls(DIMS, layers=layers)


def test_hidden_logits_are_told_from_any_that_are_seen():
    logits = jnp.array([HIDDEN, HIDDEN + 1e4, -1e6, 0.0, 1e6])
    np.testing.assert_array_equal(seen(logits), [False, False, True, True, True])


def test_parameters_exist_once_unless_a_layer_owns_them():
    key = jax.random.key(1)
    shared, owned = init_params(Two(DIMS), key)
    chex.assert_trees_all_equal(shared, Two(DIMS).init(key))
    assert owned == {}
    shared, owned = init_params(Two(DIMS, per_layer=("b",), layers="::2"), key)
    assert set(shared) == {"a"} and set(owned) == {0, 2, 4}
    assert all(set(entry) == {"b"} for entry in owned.values())
    assert len({float(entry["b"]) for entry in owned.values()}) == 3
    shared, owned = init_params(Two(DIMS, per_layer=("*",)), key)
    assert shared == {} and set(owned[5]) == {"a", "b"} and len(owned) == 6


def test_what_a_layer_owns_does_not_hang_on_the_number_of_layers():
    key = jax.random.key(1)
    _, some = init_params(TransformerXL(DIMS), key)
    _, more = init_params(TransformerXL(DIMS._replace(layers=9)), key)
    chex.assert_trees_all_equal(some, {layer: more[layer] for layer in some})


def test_an_unknown_parameter_cannot_be_owned():
    with pytest.raises(ValueError, match=r"names c; its parameters are a, b"):
        init_params(Two(DIMS, per_layer=("c",)), jax.random.key(0))


def test_what_acts_once_cannot_be_owned_by_layers():
    with pytest.raises(ValueError, match=r"acts once.*where='layers'"):
        init_params(Learned(DIMS, per_layer=("table",)), jax.random.key(0))
    shared, owned = init_params(
        Learned(DIMS, per_layer=("table",), where="layers"), jax.random.key(0)
    )
    assert not shared and len(owned) == 6


# Positions


TOKENS = jnp.array([[5, 1, 7], [2, 2, 9]])
POS = jnp.arange(3)


def test_positions_that_the_batch_shares_stay_one_row():
    np.testing.assert_array_equal(fold_positions((RoPE(DIMS),), TOKENS, POS, None, True), POS)
    members = (Shifted(DIMS, 10), Shifted(DIMS, 0.5))
    out = fold_positions(members, TOKENS, POS, None, True)
    np.testing.assert_array_equal(out, [10.5, 11.5, 12.5])
    once = fold_positions((Shifted(DIMS, most=1000),), TOKENS, POS, jax.random.key(0), True)
    assert once.shape == (3,)


def test_each_member_draws_with_a_key_of_its_own():
    one = (Shifted(DIMS, most=10**6),)
    key = jax.random.key(0)
    first = fold_positions(one, TOKENS, POS, key, True)[0]
    both = fold_positions(one * 2, TOKENS, POS, key, True)[0]
    after_another = fold_positions((Shifted(DIMS), *one), TOKENS, POS, key, True)[0]
    assert both == first + after_another and first != after_another


def test_positions_of_each_sequence_are_rows():
    np.testing.assert_array_equal(fold_positions((Read(DIMS),), TOKENS, POS, None, True), TOKENS)
    members = (Read(DIMS), Shifted(DIMS, most=10**6))
    out = fold_positions(members, TOKENS, POS, jax.random.key(0), True) - TOKENS
    assert (out == out[:, :1]).all() and out[0, 0] != out[1, 0]


def test_a_key_for_each_sequence_gives_each_its_draw():
    keys = jax.random.split(jax.random.key(0), 2)
    members = (Shifted(DIMS, most=10**6),)
    out = fold_positions(members, TOKENS, POS, keys, True)
    for row, key in zip(out, keys, strict=True):
        np.testing.assert_array_equal(row, fold_positions(members, TOKENS, POS, key, True))


def test_reading_tokens_without_saying_so_is_an_error():
    class Silent(Encoding):
        def positions(self, tokens, pos, key, train):
            return tokens + pos

    with pytest.raises(TypeError, match="Silent reads the tokens: set per_sequence = True"):
        fold_positions((Shifted(DIMS), Silent(DIMS)), TOKENS, POS, None, True)


# The tuple


def test_only_one_member_may_replace_the_softmax():
    class Sigmoid(Encoding):
        def normalize(self, params, logits):
            return jax.nn.sigmoid(logits)

    class Relu(Sigmoid):
        pass

    Bound(({},), (Sigmoid(DIMS),))
    with pytest.raises(ValueError, match="Sigmoid and Relu"):
        Bound(({}, {}), (Sigmoid(DIMS), Relu(DIMS)))


def test_equal_specs_trace_once_and_others_again():
    @jax.jit
    @chex.assert_max_traces(n=2)
    def run(pe, n):
        return pe.relative("relative_bias", n)

    n = jnp.arange(4)
    for base in (1.0, 2.0, 3.0):
        pe = Bound(({"table": base * jnp.ones((3, 32))},), make("t5", DIMS))
        np.testing.assert_array_equal(run(pe, n), base)
    run(Bound(({"table": jnp.ones((3, 16))},), make("t5(buckets=16)", DIMS)), n)
    with pytest.raises(AssertionError, match="traced"):
        run(Bound(({"table": jnp.ones((3, 8))},), make("t5(buckets=8)", DIMS)), n)
    assert hash(make("rope", DIMS)) == hash(make("rope", DIMS))
    assert make("rope", DIMS) != make("rope(base=5.0)", DIMS)


def test_causal_distances_below_0_have_no_sign():
    @dataclasses.dataclass(frozen=True)
    class Given(Encoding):
        def relative_bias(self, params, n):
            return n[None]

    n = jnp.array([-2, -1, 0, 1])
    for causal, want in ((True, [2, 1, 0, 1]), (False, [-2, -1, 0, 1])):
        pe = Bound(({},), (Given(DIMS),), causal=causal)
        np.testing.assert_array_equal(pe.relative("relative_bias", n)[0], want)


# Specs


def test_a_spec_keeps_its_order_fields_and_layers():
    spec = "t5( buckets=16 )+rope(base=5e+5)[::2]+learned+rope[1::2]"
    t5, rope, learned, again = members = parse(spec)
    assert [m.id for m in members] == ["t5", "rope", "learned", "rope_2"]
    assert t5.fields == {"buckets": 16} and learned.fields == {}
    assert rope.fields == {"base": 5e5, "layers": "::2"} and again.fields == {"layers": "1::2"}
    assert [type(e) for e in make(spec, DIMS)] == [T5, RoPE, Learned, RoPE]
    assert make(spec, DIMS)[1] == RoPE(DIMS, 5e5, layers="::2")
    assert [type(e) for e in make("learned+t5", DIMS)] == [Learned, T5]


def test_fields_of_a_config_come_on_top_of_the_spec():
    made = make("rope(base=5.0)+rope", DIMS, {"rope": {"base": 7.0}, "rope_2": {"layers": "::2"}})
    assert made == (RoPE(DIMS, 7.0), RoPE(DIMS, layers="::2"))
    with pytest.raises(ValueError, match="has the members rope, rope_2; there is no t5"):
        make("rope+rope", DIMS, {"t5": {}})


def test_a_label_shows_what_differs_and_reads_back():
    overrides_ = {"t5": {"buckets": 16, "std": 0.02}, "rope": {"layers": "::2"}}
    shown = str(parse("t5+rope").with_fields(overrides_))
    assert shown == "t5(buckets=16)+rope[::2]"
    assert str(parse("t5(buckets=32)+rope[:]")) == "t5+rope"
    assert make(shown, DIMS) == make("t5+rope", DIMS, overrides_)


def test_brackets_say_that_embed_acts_on_the_input_of_layers():
    late, once, every = (make(f"learned{brackets}", DIMS)[0] for brackets in ("[-1:]", "", "[0:]"))
    assert late == Learned(DIMS, layers="-1:", where="layers")
    assert once == Learned(DIMS) and every == Learned(DIMS, layers="0:", where="layers")
    assert parse("rope[0:]").members[0].fields == {"layers": "0:"}
    for spec in ("learned[-1:]", "learned", "learned[0:]", "deberta+learned[-1:]", "rope[::2]"):
        assert str(parse(spec)) == spec
    assert str(parse("learned(where='layers')")) == str(parse("learned[:]")) == "learned[0:]"


def test_layers_of_a_section_are_of_where_it_says():
    for layers in ("0:", "-1:"):
        fields = {"layers": layers, "where": "layers"}
        assert make("learned", DIMS, {"learned": fields}) == (Learned(DIMS, **fields),)
        for fields in ({"layers": layers}, {"layers": layers, "where": "input"}):
            with pytest.raises(ValueError, match="where='layers'"):
                make("learned", DIMS, {"learned": fields})


def test_a_section_has_every_field():
    plain = parse("learned").section()
    assert plain["spec"] == "learned" and plain["learned"] == defaults(Learned)
    whole = parse("learned+t5(buckets=8)").section()
    assert parse(whole.pop("spec")).with_fields(whole).section() == whole | {
        "spec": "learned+t5(buckets=8)"
    }


def test_a_list_is_cut_at_the_commas_between_specs():
    t5, own = "t5(buckets=16,std=0.5)[::2]", "my dir/my file.py:Mine(a=(1,2),b='x,+')"
    assert elements(f"rope,{t5}+learned, {own}+t5,") == ["rope", f"{t5}+learned", f"{own}+t5"]
    assert elements("") == [] and elements("rope(base=1") == ["rope(base=1"]


WRONG_SPECS = [
    ("rop", "unknown encoding 'rop'; did you mean 'rope'"),
    ("zzz", r"unknown encoding 'zzz'\. `pe-jax list encodings` prints all"),
    ("rope(bas=3)", "no field 'bas'; did you mean 'base'.*It has per_layer, layers, base"),
    ("rope(dims=3)", "no field 'dims'"),
    ("learned(clip=3)", "learned's clip must be True or False, got 3"),
    ("learned(length=True)", "learned's length must be an integer of at least 1 or None"),
    ("rope(base='x')", "rope's base must be a finite number above 0, got 'x'"),
    ("t5(buckets=16.0)", "t5's buckets must be an integer of at least 1, got 16.0"),
    ("rope(layers=3)", "rope's layers must be text, got 3"),
    ("rope(base=x)", "Python literals"),
    ("rope(5.0)", "cannot read 'rope"),
    ("rope(**{'base': 3.0})", "cannot read"),
    ("rope(base=3.0)(base=4.0)", "cannot read 'rope"),
    ("rope[::2][::2]", "cannot read 'rope"),
    ("rope[::2](base=3.0)", "cannot read 'rope"),
    ("rope.base", "unknown encoding 'rope.base'"),
    ("rope+", "cannot read ''"),
    ("rope++t5", "cannot read ''"),
    ("", "cannot read ''"),
    ("rope[::2", "cannot read 'rope"),
    ("learned+t5(buckets=16", "cannot read 't5"),
]


def test_what_a_spec_gets_wrong_is_said(subtests):
    for spec, message in WRONG_SPECS:
        with subtests.test(spec=spec):
            with pytest.raises(ValueError, match=message):
                parse(spec)


def test_defaults_are_the_fields_of_every_encoding():
    for name, cls in ENCODINGS.items():
        assert make(name, DIMS) == make(name, DIMS, {name: defaults(cls)})
    assert defaults(T5) == {
        "per_layer": (),
        "layers": ":",
        "buckets": 32,
        "max_distance": None,
        "std": 0.02,
    }


# A user's own file

OWN = """
import dataclasses
import itertools
from pe_jax.encoding import Encoding

@dataclasses.dataclass(frozen=True)
class Mine(Encoding):
    slope: float = 2.0

    def relative_bias(self, params, n):
        return -self.slope * n[None]

class Bare(Encoding):
    slope: float = 2.0
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def test_a_file_of_ones_own_is_a_member_like_any(own):
    spec = f"rope+{own}:Mine(slope=3.0)+{own}:Mine[::2]"
    assert [m.id for m in parse(spec)] == ["rope", "Mine", "Mine_2"]
    _, mine, again = make(spec, DIMS, {"Mine_2": {"slope": 5.0}})
    assert (mine.slope, again.slope, again.layers) == (3.0, 5.0, "::2")
    assert float(mine.relative_bias({}, jnp.array([2]))[0, 0]) == -6
    assert make(spec, DIMS)[1] == mine  # the file is imported once
    before = sources(spec)
    assert list(before) == [str(own)] and sources("rope+t5") == {}
    own.write_text(OWN.replace("2.0", "4.0"))
    assert sources(spec) != before
    assert make(f"{own}:Mine", DIMS)[0].slope == 4.0  # edited between two cells of a notebook


def test_a_file_of_ones_own_may_have_spaces_in_its_path(tmp_path):
    path = tmp_path / "my dir" / "my file.py"
    path.parent.mkdir()
    path.write_text(OWN)
    spec = f"{path}:Mine(slope=3.0)[::2] + rope"
    mine, rope = make(spec, DIMS)
    assert (mine.slope, mine.layers, rope) == (3.0, "::2", RoPE(DIMS))
    assert str(parse(spec)) == f"{path}:Mine(slope=3.0)[::2]+rope"
    assert list(sources(spec)) == [str(path)]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (OWN, "Thine", "has no encoding 'Thine'; it has Mine, Bare"),
        (OWN, "Bare", "lacks the line @dataclasses.dataclass"),
        (OWN, "dataclasses", "has no encoding 'dataclasses'"),
        ("x = 3", "Mine", "it has none"),
        ("import nowhere_to_be_found", "Mine", "does not import: ModuleNotFoundError: No module"),
        ("def f(:", "Mine", "does not import: SyntaxError"),
        (OWN.replace("relative_bias", "bais"), "Mine", "does not import: TypeError.*did you mean"),
        (OWN.replace("(frozen=True)", ""), "Mine", r"line 6\); write @dataclasses.dataclass\(f"),
        ("def f():\n    return y\nf()", "Mine", r"does not import: NameError: .* \(line 2\)$"),
    ],
)
def test_what_is_wrong_with_a_file_of_ones_own_is_said(tmp_path, text, name, message):
    path = tmp_path / "own.py"
    path.write_text(text)
    for _ in range(2):  # a failed import leaves nothing behind
        with pytest.raises(ValueError, match=message):
            parse(f"{path}:{name}")


def test_files_of_two_folders_import_those_beside_them(tmp_path):
    before, slopes, specs = list(sys.path), {"a": 1.5, "b": 2.5}, []
    for folder, slope in slopes.items():
        (tmp_path / folder).mkdir()
        own = tmp_path / folder / "own.py"
        own.write_text(f"import random, slopes\n{OWN.replace('2.0', 'slopes.first()')}")
        first = "from deeper import down\ndef first(): return down.SLOPE\n"
        own.with_name("slopes.py").write_text(first)
        (package := own.with_name("deeper")).mkdir()
        (package / "__init__.py").write_text("from . import down\n")
        (package / "down.py").write_text(f"SLOPE = {slope}\n")
        own.with_name("random.py").write_text("raise ImportError('not the one of Python')\n")
        specs.append(f"{own}:Mine")
    assert [make(spec, DIMS)[0].slope for spec in specs] == [1.5, 2.5]
    assert sys.path == before
    names = {"own.py", "slopes.py", "__init__.py", "down.py"}
    for spec, folder in zip(specs, slopes, strict=True):
        assert {Path(file).name for file in sources(spec)} == names
        assert {Path(file).relative_to(tmp_path).parts[0] for file in sources(spec)} == {folder}


@pytest.mark.parametrize(
    ("line", "helper"),
    [
        ("import slopes", "real/slopes.py"),  # beside the file that a link names
        ("import importlib; slopes = importlib.import_module('slopes')", "real/slopes.py"),
        ("import sys; sys.path.insert(0, 'lib'); import slopes", "lib/slopes.py"),
        ("import slopes", "here/slopes.py"),  # first on Python's path, as with python -m
        ("from space import slopes", "here/space/slopes.py"),
    ],
)
def test_what_a_file_imports_is_part_of_its_identity(tmp_path, monkeypatch, line, helper):
    for name in ("real", "link", "lib", "here/space"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "real/own.py").write_text(f"{line}\n{OWN.replace('2.0', 'slopes.SLOPE')}")
    (tmp_path / "real/slopes.py").write_text("SLOPE = 0.5\n")
    (tmp_path / "link/own.py").symlink_to("../real/own.py")
    (tmp_path / helper).write_text("SLOPE = 1.5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("here")
    monkeypatch.delitem(sys.modules, "slopes", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # for the import by this test alone
    imported = importlib.import_module("slopes") if helper == "here/slopes.py" else None
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert make("link/own.py:Mine", DIMS)[0].slope == 1.5
    known = sources("link/own.py:Mine")
    assert list(known) == ["link/own.py", helper]
    (tmp_path / helper).write_text("SLOPE = 2.5\n")  # of the same size in the same second
    assert sources("link/own.py:Mine") != known
    assert make("link/own.py:Mine", DIMS)[0].slope == 2.5
    assert not imported or sys.modules["slopes"] is imported and imported.SLOPE == 1.5


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ValueError, match="no file"):
        parse(f"{tmp_path}/none.py:Mine")


# Families and swaps


def test_no_encoding_of_the_table_subclasses_another():
    for cls, other in itertools.permutations(ENCODINGS.values(), 2):
        assert not issubclass(cls, other)
    for cls in ENCODINGS.values():
        assert (cls.family is None) == (cls is NoPE)
    rotary = {name for name, cls in ENCODINGS.items() if issubclass(cls, Turned)}
    family = {name for name, cls in ENCODINGS.items() if cls.family == "RoPE"}
    assert {"rope"} <= rotary == family - {"drope"}  # which is RoPE taken away
    with pytest.raises(TypeError, match="abstract"):
        Turned(DIMS)


def test_a_class_of_ones_own_is_of_the_family_of_what_it_subclasses():
    class Mine(T5):
        pass

    class Other(Encoding):
        pass

    assert kin(Mine, T5) and replaces(Mine, T5) and not replaces(T5, Mine)
    assert kin(Other, Other) and not kin(Mine, Other) and not kin(NoPE, NoPE)
    assert kin(PI, XPos) and replaces(PI, RoPE) and not replaces(PI, XPos)
    assert kin(Hierarchical, Learned) and replaces(Hierarchical, Learned)
    assert replaces(XPos, XPos) and not replaces(RoPE, XPos)


def test_a_swap_keeps_the_fields_that_both_have_and_it_does_not_set():
    (kept,) = swap(make("rope(base=7.0)[::2]", DIMS), "partial_rope(rotary_pct=0.5)")
    assert kept == make("partial_rope(base=7.0,rotary_pct=0.5)[::2]", DIMS)[0]
    (kept,) = swap(make("learned(std=0.1)[-1:]", DIMS), "hierarchical(alpha=0.3)")
    assert kept == make("hierarchical(alpha=0.3,std=0.1)[-1:]", DIMS)[0]
    (kept,) = swap(make("xpos(gamma=0.3)", DIMS), "xpos(base=5.0)")
    assert (kept.gamma, kept.base) == (0.3, 5.0)


def test_a_swap_takes_the_place_of_the_plain_one_of_its_family(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Slow(Rotary):
        factor: float = 2.0

        def _frequencies(self):
            return super()._frequencies() / self.factor

    monkeypatch.setitem(ENCODINGS, "slow", Slow)
    model = make("t5+rope+learned", DIMS)
    assert [type(e) for e in swap(model, "slow")] == [T5, Slow, Learned]
    assert swap(model, "rope(base=7.0)")[1].base == 7
    assert [type(e) for e in model] == [T5, RoPE, Learned]
    with pytest.raises(ValueError, match="could replace 2 members"):
        swap(make("rope[::2]+rope[1::2]", DIMS), "slow")


def test_of_two_a_swap_takes_the_place_in_its_layers_or_where_no_window_is():
    model = make("rope(base=9.0)[1,2,4,5]+rope(base=7.0)[::3]+window(window=4)[::3]", DIMS)
    far, near, window = model
    yarn = make("yarn(base=9.0)[1,2,4,5]", DIMS)[0]
    assert swap(model, "yarn") == (yarn, near, window)
    assert swap(model, "yarn[::3]") == (far, make("yarn(base=7.0)[::3]", DIMS)[0], window)
    assert swap(model, "yarn[2::3]+ntk[::3]")[1] == make("ntk(base=7.0)[::3]", DIMS)[0]
    with pytest.raises(ValueError, match=r"name layers of one of them, as in \[1\]"):
        swap(model, "yarn[2:]")


def test_beside_windows_in_some_layers_a_swap_acts_in_the_others():
    model = make("rope+window(window=4)[::3]", DIMS)
    rope, window = model
    assert swap(model, "window(window=9)") == (*model, *make("window(window=9)[1,2,4,5]", DIMS))
    assert swap(model, "alibi")[2] == make("alibi[1,2,4,5]", DIMS)[0]
    assert swap(model, "yarn") == (
        make("rope[0,3]", DIMS)[0],
        window,
        make("yarn[1,2,4,5]", DIMS)[0],
    )
    assert swap(make("rope", DIMS), "window[0]+yarn")[0] == make("yarn", DIMS)[0]
    everywhere = make("rope+window(window=4)", DIMS)
    assert swap(everywhere, "window(window=9)")[1] == make("window(window=9)", DIMS)[0]


def test_a_swap_in_some_layers_leaves_the_others_as_they_were():
    model = make("t5+rope(base=7.0)", DIMS)
    assert swap(model, "yarn[1:]") == make("t5+rope(base=7.0)[0]+yarn(base=7.0)[1:]", DIMS)
    assert swap(model, "yarn[:4,4,5]") == make("t5+yarn(base=7.0)[:4,4,5]", DIMS)
    assert swap(model, "yarn[0]+ntk[1:]") == make("t5+ntk(base=7.0)[1:]+yarn(base=7.0)[0]", DIMS)
    assert swap(model, "yarn[::2]")[1] == make("rope(base=7.0)[1,3,5]", DIMS)[0]
    with pytest.raises(ValueError, match="share the parameters of Learned"):
        swap(make("learned", DIMS), "hierarchical[-1:]")


def test_a_swap_of_another_kind_is_appended_if_it_needs_no_parameters():
    model = make("rope", DIMS)
    assert swap(model, "window(window=5)") == (*model, *make("window(window=5)", DIMS))
    assert swap(make("nope", DIMS), "rope") == make("nope+rope", DIMS)
    with pytest.raises(ValueError, match=r"needs parameters \(table\)"):
        swap(model, "t5")
