"""Models of make_pretrained.py have transformers' logits; what is not understood is refused."""

import copy
import functools
import json
import math
import operator
import shutil
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from flax import nnx
from safetensors.numpy import load_file, save_file

from pe_jax.pretrained.config import NO_MATTER, described
from pe_jax.pretrained.load import load
from pe_jax.storage import gguf_file

GOLDEN = Path(__file__).parents[1] / "golden" / "pretrained"
ABSENT = object()
FAMILIES = sorted(path.name for path in GOLDEN.iterdir() if not path.name.startswith("gguf"))
CONFIG = json.loads((GOLDEN / "llama" / "config.json").read_text())


def logits(model, tokens):
    made = tuple(e.at(tokens.shape[1]) for e in model.members)

    @jax.jit  # operation by operation, hundreds of programs would be compiled
    def program(params, tokens):
        return nnx.merge(model.graphdef, params)(tokens, encodings=made)[0]

    return np.asarray(program(model.params, jnp.asarray(tokens)))


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_of_folders_are_those_of_transformers(name):
    model = load(f"hf:{GOLDEN / name}")
    golden = np.load(GOLDEN / name / "logits.npz")
    np.testing.assert_allclose(logits(model, golden["tokens"]), golden["logits"], atol=1e-4)
    assert golden["logits"].std() > 0.3


def test_logits_and_tokens_of_a_gguf_file_are_those_of_transformers():
    model = load(f"gguf:{GOLDEN / 'gguf' / 'model.gguf'}")
    golden = np.load(GOLDEN / "gguf" / "logits.npz")
    np.testing.assert_allclose(logits(model, golden["tokens"]), golden["logits"], atol=1e-4)
    text = np.frombuffer(b"the 12 paths", np.uint8)
    (tokens,) = model.tokenizer.encode([text])
    pieces = [model.tokenizer.pieces[token] for token in tokens]
    assert pieces == [b"th", b"e", b" ", b"1", b"2", b" ", b"p", b"a", b"th", b"s"]


@pytest.mark.parametrize("name", ["gguf", "gguf_gemma3"])
def test_a_fixed_scaling_is_what_llama_cpp_serves(name, subtests):
    model = load(f"gguf:{GOLDEN / name / 'model.gguf'}")
    golden = dict(np.load(GOLDEN / name / "llama_cpp.npz"))
    tokens, own = golden.pop("tokens"), golden["rope"]
    atol = 1e-4 if name == "gguf" else 5e-3  # llama.cpp's GELU is a table of float16
    for spec, served in golden.items():
        swapped = "" if spec == "rope" else f"{spec}[5]" if name == "gguf_gemma3" else spec
        with subtests.test(spec):
            ours = jax.nn.log_softmax(model.logits(tokens, swapped)[[15, 31, 63, 119]])
            np.testing.assert_allclose(ours, served, atol=atol)
        assert spec == "rope" or abs(served - own).min(0).max() > 10 * atol


def test_a_gguf_file_of_gemma_3_is_read_with_the_tokenizer_of_its_scores():
    model = load(f"gguf:{GOLDEN / 'gguf_gemma3' / 'model.gguf'}")
    golden = np.load(GOLDEN / "gguf_gemma3" / "logits.npz")
    np.testing.assert_allclose(logits(model, golden["tokens"]), golden["logits"], atol=1e-4)
    assert golden["logits"].std() > 0.3
    local = "rope[0:5]+window(window=9)[0:5]"
    assert model.spec == f"rope(base=1000.0)[5]+{local}" and model.tokenizer.bos == 2
    cut = json.loads((GOLDEN / "gguf_gemma3" / "tokens.json").read_text())
    tokens = model.encode(cut["text"])
    assert tokens.tolist() == cut["tokens"] and tokens[0] == 2
    assert model.decode(tokens) == "<bos>" + cut["text"]


def test_a_gguf_file_of_gemma_3_may_say_the_base_of_its_layers_with_a_window():
    """As newer conversions do."""
    file = copy.copy(gguf_file.read(GOLDEN / "gguf_gemma3" / "model.gguf"))
    file.fields = file.fields | {"gemma3.rope.freq_base_swa": file.fields["gemma3.rope.freq_base"]}
    spec = described(file._config(Path("model.gguf"))).spec
    assert str(spec) == "rope(base=1000.0)[5]+rope(base=1000.0)[0:5]+window(window=9)[0:5]"


@pytest.mark.parametrize("part", ["weights", "activations"])
def test_weights_and_activations_have_the_dtype_that_is_asked_for(part):
    model = load(f"hf:{GOLDEN / 'qwen3'}", **{part: "bfloat16"})
    found = {"weights": str(model.params["embedding"].dtype), "activations": model.lm.dtype}
    assert found == {"weights": "float32", "activations": "float32"} | {part: "bfloat16"}
    golden = np.load(GOLDEN / "qwen3" / "logits.npz")
    assert 1e-4 < np.abs(logits(model, golden["tokens"]) - golden["logits"]).mean() < 0.05


def test_the_fields_of_a_scaling_are_those_of_its_encoding():
    """beta_fast is where the ramp of YaRN begins to keep a frequency as it is."""
    scaling = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "attention_factor": 1.5}
    betas = {"beta_slow": 2.0, "beta_fast": 20.0, "original_max_position_embeddings": 16}
    (member,) = described(CONFIG | {"rope_parameters": scaling | betas}).spec
    wanted = {"base": 500.0, "factor": 4.0, "alpha": 2.0, "beta": 20.0, "length": 16}
    assert member.fields == wanted | {"attention_factor": 1.5}


def test_a_temperature_by_two_slopes_is_their_ratio():
    """As in transformers, where no family here multiplies logits by the second, too."""
    scaling = {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5}
    (member,) = described(CONFIG | {"rope_parameters": scaling}).spec
    ratio = (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1)
    assert member.fields["attention_factor"] == pytest.approx(ratio)


def test_fields_that_transformers_ignores_change_nothing():
    """Its dynamic NTK counts from max_position_embeddings alone."""
    dynamic = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 2.0}
    known = described(CONFIG | {"rope_parameters": dynamic})
    more = {"rope_parameters": dynamic | {"original_max_position_embeddings": 8}}
    more |= {"quantization_config": None, "_attn_implementation_autoset": True}
    more |= {"use_mrope": False, "unsloth_fixed": True}  # of Qwen2.5; of copies by Unsloth
    assert described(CONFIG | more) == known


def test_rope_scaling_of_a_gemma_3_acts_in_layers_without_a_window():
    config = json.loads((GOLDEN / "gemma3" / "config.json").read_text())
    own = {kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("sliding_attention",)}
    own |= {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}
    scaling = {"rope_type": "linear", "factor": 8.0}
    spec = described(config | {"rope_parameters": own, "rope_scaling": scaling}).spec
    assert str(spec).startswith("pi(factor=8.0,base=1000000.0)[1]+rope[0]+")


NO_NUMBERS = ("9)+{}:X(", "9", "true", True, [9], {"9": 9}, math.nan)


@pytest.mark.parametrize("name", FAMILIES)
def test_values_that_are_no_numbers_raise_with_their_names(name, tmp_path):
    """A path in a field imports no file of the model's folder."""
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'w')")
    config = json.loads((GOLDEN / name / "config.json").read_text())
    for path, value in leaves(config):
        if path[-1] in NO_MATTER or isinstance(value, str | None):
            continue
        for wrong in NO_NUMBERS:
            wrong = wrong.format(tmp_path / "code.py") if isinstance(wrong, str) else wrong
            if isinstance(value, list):
                wrong = [wrong, *value[1:]]
            if type(wrong) is not type(value) or isinstance(value, list | float):
                changed = copy.deepcopy(config)
                functools.reduce(operator.getitem, path[:-1], changed)[path[-1]] = wrong
                with pytest.raises(ValueError, match=path[-1]):
                    described(changed)
    assert not (tmp_path / "RAN").exists()


def leaves(fields, *path):
    """The names, from outside to inside, of each value that is no object; and the value."""
    for name, value in fields.items():
        inside = leaves(value, *path, name) if isinstance(value, dict) else [((*path, name), value)]
        yield from inside


LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
WRONG = {
    "family": ({"model_type": "lama"}, "model_type must be one of 'llama', .* got 'lama'"),
    "field": ({"logit_softcap": 30.0}, "not understood: logit_softcap=30.0"),
    "three positions": ({"use_mrope": True}, "use_mrope=True; only False or None can be read"),
    "activation": ({"hidden_act": "relu"}, "hidden_act='relu'; only 'silu' can be read"),
    "scaling": (
        {"rope_parameters": {"rope_type": "su"}},
        "rope_parameters.rope_type must be one of 'default', .*got 'su'",
    ),
    "scaling's field": (
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "ramp": 3}},
        "not understood: rope_parameters.ramp=3",
    ),
    "biases": ({"attention_bias": True}, "attention_bias=True and mlp_bias=False"),
    "missing": ({"vocab_size": None}, "lacks vocab_size"),
    "linear's factor": ({"rope_parameters": {"rope_type": "linear"}}, "lacks .*factor"),
    "longrope's length": (
        {"rope_parameters": LONGROPE | {"original_max_position_embeddings": 0}},
        "original_max_position_embeddings must be an integer of at least 1, got 0",
    ),
}


LLAMA3 = CONFIG["rope_parameters"]
YARN = {"rope_type": "yarn", "factor": 2.0}
AGAINST_ONE_ANOTHER = {
    "bounds": ({"rope_parameters": LLAMA3 | {"low_freq_factor": 9}}, "low is low_freq_factor"),
    "betas": (
        {"rope_parameters": YARN | {"beta_slow": 32}},
        "alpha is beta_slow, beta is beta_fast",
    ),
    "pairs": ({"rope_parameters": LONGROPE}, "long is long_factor"),
    "shared heads": ({"num_key_value_heads": 3}, "lm.kv_heads is num_key_value_heads"),
    "odd heads": ({"head_dim": 5}, "turns 5 of the 5 components of a head"),
    "a layer too few": ({"layer_types": ["full_attention"]}, "layer_types=.* and 2 layers"),
    "two lengths": (
        {"original_max_position_embeddings": 8},
        "original_max_position_embeddings=8 and rope_parameters.original_max_.*=16: leave one",
    ),
}
WRONG_NEOX = {
    "another base": ({"rope_theta": 5e5}, "rope_theta=500000.0; only 10000.0"),
    "another share": ({"partial_rotary_factor": 0.25}, "partial_rotary_factor=0.25; only 0.5"),
    "two shares": ({"rotary_pct": 0.25}, "partial_rotary_factor=0.5 and rotary_pct=0.25"),
    "width": ({"hidden_size": 18}, "lm.heads is num_attention_heads, lm.model is hidden_size"),
}
WRONG_GEMMA = {
    "scale": ({"query_pre_attn_scalar": 168}, "query_pre_attn_scalar=168 and heads of 8"),
    "cap": ({"final_logit_softcapping": 30.0}, "softcapping=30.0; only None can be read"),
    "a layer too many": (
        {"layer_types": ["full_attention", "sliding_attention"] * 2},
        "and 2 layers",
    ),
}


def test_unknown_descriptions_raise(subtests):
    gemma, neox = (
        json.loads((GOLDEN / name / "config.json").read_text()) for name in ("gemma3", "gpt_neox")
    )
    wrongs = (CONFIG, WRONG | AGAINST_ONE_ANOTHER), (gemma, WRONG_GEMMA), (neox, WRONG_NEOX)
    for config, wrong in wrongs:
        for case, (change, message) in wrong.items():
            with subtests.test(case=case), pytest.raises(ValueError, match=message):
                described(config | change)


def test_gemma_3_is_described_by_the_fields_of_transformers_4_too():
    newer = json.loads((GOLDEN / "gemma3" / "config.json").read_text())
    left_out = ("rope_parameters", "layer_types", "_sliding_window_pattern")
    older = {name: value for name, value in newer.items() if name not in left_out}
    scaling = dict(newer["rope_parameters"]["full_attention"])
    older |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}
    older |= {"rope_local_base_freq": 100.0, "sliding_window_pattern": 2}
    assert described(older) == described(newer)
    del older["rope_scaling"], older["rope_theta"], older["rope_local_base_freq"]
    plain = described(older | {"cache_implementation": "hybrid"})
    assert str(plain.spec) == "rope(base=1000000.0)[1]+rope[0]+window(window=9)[0]"


def test_added_tokens_without_an_embedding_are_no_tokens(tmp_path):
    """The tokenizer.json of Gemma 3 1B has one for images."""
    folder = Path(shutil.copytree(GOLDEN / "llama", tmp_path / "llama"))
    own = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    own.add_special_tokens(["<image>"])
    own.save(str(folder / "tokenizer.json"))
    model = load(f"hf:{folder}")
    assert len(model.tokenizer.pieces) == model.lm.vocab == 257
    assert model.decode(model.encode("an <image>")) == "an <image>"


def test_gguf_files_have_a_token_before_texts_by_default_of_their_kind():
    """Of SentencePiece llama.cpp takes it to have one, of other tokenizers none."""
    made = json.loads(with_field("gguf_gemma3", "tokenizer.ggml.add_bos_token", None).tokenizer)
    assert made["post_processor"]["special_tokens"]["<bos>"]["ids"] == [2]
    other = gguf_file.read(GOLDEN / "gguf" / "model.gguf")
    assert json.loads(other.tokenizer)["post_processor"] is None


def with_field(model, name, value):
    """The file with another value of a field; without the field where that is None."""
    out = copy.copy(gguf_file.read(GOLDEN / model / "model.gguf"))
    vars(out).pop("tokenizer", None)
    out.fields = out.fields | {name: types.SimpleNamespace(contents=lambda: value)}
    return out


WRONG_FIELDS = {
    "gguf": {
        "llama.attention.head_count": (0, [4, 4], "4"),
        "llama.embedding_length": (None, "64", 2.0),
        "llama.vocab_size": (-1, True),
        "llama.rope.freq_base": (0.0, np.nan),
        "tokenizer.ggml.pre": (["smollm"],),
        "tokenizer.ggml.tokens": (None, "th", ["a", 1]),
        "tokenizer.ggml.token_type": (1, [1] * 256, [1] * 258, [1] * 256 + ["1"]),
        "tokenizer.ggml.merges": (None, [1, 2]),
        "tokenizer.ggml.bos_token_id": (257, -1, "0"),
        "tokenizer.ggml.add_bos_token": ("false", 1),
    },
    "gguf_gemma3": {
        "tokenizer.ggml.bos_token_id": (None, 282),
        "tokenizer.ggml.scores": (None, [0.0], [np.nan] * 282),
    },
}


def test_invalid_fields_of_gguf_files_raise_with_their_names(subtests):
    for model, wrong in WRONG_FIELDS.items():
        for name, value in ((name, value) for name, values in wrong.items() for value in values):
            with (
                subtests.test(name=name, value=value),
                pytest.raises(ValueError, match=f"{model}/model.gguf.*{name}.*(got|for)"),
            ):
                file = with_field(model, name, value)
                file._config(file.path)
                file.tokenizer  # noqa: B018


def test_damaged_gguf_files_raise(tmp_path):
    raw = (GOLDEN / "gguf" / "model.gguf").read_bytes()
    path = tmp_path / "model.gguf"
    for size in (0, 100, 9000, len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises(ValueError, match="model.gguf is no whole GGUF file"):
            load(f"gguf:{path}")
    at = raw.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 4
    for damage in (b"\x09" + raw[at + 1 :], raw[at : at + 7] + b"\x01" + raw[at + 8 :]):
        path.write_bytes(raw[:at] + damage)  # a list of lists, and one of 2^24 entries
        with pytest.raises(ValueError, match="is no whole GGUF file: a list of"):
            load(f"gguf:{path}")
    at = raw.index(b"output_norm.weight") + len(b"output_norm.weight") + 12
    path.write_bytes(raw[:at] + b"\x1a" + raw[at + 1 :])
    with pytest.raises(ValueError, match="model.gguf.*output_norm.weight: .* I32 is not yet"):
        load(f"gguf:{path}")


def test_gemma_3_keeps_its_norms_in_float32():
    """It adds 1 to what it stores, which bfloat16 would round."""
    source = f"hf:{GOLDEN / 'gemma3'}"
    rounded, whole = (load(source, weights=w).params for w in ("bfloat16", "float32"))
    of_norm = [p["blocks"][0]["mlp_out_norm"]["scale"] for p in (rounded, whole)]
    assert of_norm[0].dtype == jnp.float32
    np.testing.assert_array_equal(*of_norm)


@pytest.mark.parametrize(
    ("family", "change", "spec"),
    [
        ("llama_tied", {"partial_rotary_factor": 0.5}, "rope"),
        (
            "qwen3",
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "rope",
        ),
        ("gpt_neox", {"rope_parameters": None, "hidden_size": 32}, "rope(rotary_pct=0.25)"),
        ("mistral", {"sliding_window": ABSENT}, "rope+window(window=4096)"),
        ("mistral", {"sliding_window": None}, "rope"),
        ("llama_tied", {"hidden_act": ABSENT, "is_llama_config": True}, "rope"),
    ],
)
def test_defaults_are_those_of_transformers(family, change, spec):
    config = json.loads((GOLDEN / family / "config.json").read_text()) | change
    config = {name: value for name, value in config.items() if value is not ABSENT}
    assert str(described(config).spec) == spec


def test_shapes_follow_from_the_description():
    config = json.loads((GOLDEN / "qwen3" / "config.json").read_text())
    assert described(config).lm.head == 8
    assert described(config | {"head_dim": None}).lm.head == 128
    config = json.loads((GOLDEN / "gpt_neox" / "config.json").read_text())
    names = {"gelu": "gelu_erf", "gelu_new": "gelu", "gelu_fast": "gelu", "relu": "relu"}
    for theirs, ours in names.items():
        assert described(config | {"hidden_act": theirs}).lm.activation == ours


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("text", ["[]", "null", "[" * 100_000, "\udcff"])
def test_descriptions_that_are_no_objects_raise(folder, text, name):
    (folder / name).write_text(text, "utf-8", "surrogateescape")
    with pytest.raises(
        ValueError, match=" (must be an object|is no JSON|is no tokenizer.json)"
    ) as error:
        load(f"hf:{folder}")
    assert len(str(error.value)) < 300


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(GOLDEN / "llama", tmp_path / "llama"))


def test_incomplete_models_raise(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match="no whole safetensors file"):
        load(f"hf:{folder}")
    weights.unlink()
    with pytest.raises(FileNotFoundError, match="no .*safetensors in"):
        load(f"hf:{folder}")
    with pytest.raises(FileNotFoundError, match="no model .*did you mean 'llama'"):
        load(f"hf:{folder.parent / 'lama'}")
    with pytest.raises(ValueError, match="is hf:DIR or gguf:PATH, got"):
        load(str(folder))
    with pytest.raises(ValueError, match="no whole GGUF file"):
        load(f"gguf:{folder / 'config.json'}")


def test_weights_that_contradict_the_description_raise(folder):
    def changed(**fields):
        (folder / "config.json").write_text(json.dumps(CONFIG | fields))
        return f"hf:{folder}"

    for layers in (3, 1000):  # the most that lm.layers may be
        with pytest.raises(ValueError, match="lacks the tensor model.layers.2"):
            load(changed(num_hidden_layers=layers))
    with pytest.raises(ValueError, match="tensors that are not understood: model.layers.1"):
        load(changed(num_hidden_layers=1))
    with pytest.raises(ValueError, match="mlp.down_proj.weight of the shape .* description"):
        load(changed(intermediate_size=32))


def test_a_tied_matrix_may_stand_there_twice_if_it_is_the_same(tmp_path):
    folder = Path(shutil.copytree(GOLDEN / "llama_tied", tmp_path / "tied"))
    tensors = load_file(folder / "model.safetensors")
    for head in (tensors["model.embed_tokens.weight"], tensors["model.embed_tokens.weight"] + 1):
        save_file(tensors | {"lm_head.weight": head}, folder / "model.safetensors")
        if head is tensors["model.embed_tokens.weight"]:
            load(f"hf:{folder}")
            continue
        with pytest.raises(ValueError, match="not understood: lm_head.weight"):
            load(f"hf:{folder}")


def test_weights_that_are_not_finite_raise(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"][0] = np.nan
    save_file(tensors, path)
    with pytest.raises(ValueError, match="NaN or infinity in the tensor model.norm.weight"):
        load(f"hf:{folder}")


def test_an_index_says_which_files_hold_the_weights(folder):
    golden = np.load(folder / "logits.npz")
    (folder / "consolidated.safetensors").write_bytes(b"of another library")
    load(f"hf:{folder}")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    model = load(f"hf:{folder}")
    np.testing.assert_allclose(logits(model, golden["tokens"]), golden["logits"], atol=1e-4)
    index.write_text(json.dumps({"weight_map": {"a": "model-00002-of-00002.safetensors"}}))
    with pytest.raises(FileNotFoundError, match="no model-00002-of-00002.safetensors in"):
        load(f"hf:{folder}")
    index.write_text("[]")
    with pytest.raises(ValueError, match="lacks weight_map"):
        load(f"hf:{folder}")


@pytest.mark.parametrize(
    ("id", "message"), [(300, "has 301 tokens and its model embeds 257"), (2**31 - 1, "ids up to")]
)
def test_a_tokenizer_has_no_more_tokens_than_its_model(folder, id, message):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["zz"] = id
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        load(f"hf:{folder}")


def test_a_ramp_that_is_not_rounded_is_refused_where_transformers_passes_over_it():
    gemma = json.loads((GOLDEN / "gemma3" / "config.json").read_text())
    parts = copy.deepcopy(gemma["rope_parameters"])
    parts["full_attention"] |= {"truncate": False}
    with pytest.raises(ValueError, match="full_attention.truncate=False; only True"):
        described(gemma | {"rope_parameters": parts})
    flat = {"rope_type": "yarn", "factor": 2.0, "truncate": False}
    assert "truncate=False" in str(described(CONFIG | {"rope_parameters": flat}).spec)


def test_a_legend_says_each_name_once():
    with pytest.raises(ValueError) as raised:
        described(CONFIG | {"rope_parameters": YARN | {"beta_slow": 32}})
    assert str(raised.value).count("beta is beta_fast") == 1
