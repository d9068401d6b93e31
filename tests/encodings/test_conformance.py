"""The vectors of pe_jax/conformance: what they equal, and which faults the checker names."""

import functools
import itertools
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from reference_case import Case

from pe_jax.conformance import check
from pe_jax.conformance.check import diagnose, forms, load, values
from pe_jax.encoding import Dims
from pe_jax.encodings import ENCODINGS
from pe_jax.specs.parse import make

FOLDER = Path(check.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
ALONE = {"mrope", "axial", "layer_types"}
"""Vectors of what no spec is: positions of several axes, layers of two kinds."""
OF_SPECS = [name for name in NAMES if name not in ALONE]
WITHOUT_VECTORS = {"nope", "randomized", "shape", "pose", "cape"}
"""Nothing to compare, and positions drawn at random."""


def encoding_of(case):
    """The encoding with its learned parameters."""
    (e,) = make(case["spec"], Dims(**case["dims"], layers=1))
    names = jax.eval_shape(e.init, jax.random.key(0))
    return e, {name: np.array(case["parameters"][name]) for name in names}


def test_the_references_give_the_vectors():
    """In float64: files have 12 digits. The other outputs give these logits by `values`."""
    for name in OF_SPECS:
        case = load(name)
        e, params = encoding_of(case)
        L, H = len(case["positions"]), e.dims.heads
        q, k = (case.get(key, np.zeros((L, H, e.dims.head))) for key in "qk")
        x, tokens, pos = (
            np.zeros((L, e.dims.model)),
            np.array(case.get("tokens")),
            case["positions"],
        )
        inputs = Case(x, tokens, pos.astype(int), q, k, None, e.dims.causal)
        formula = functools.partial(reference.REFERENCES[case["spec"].partition("(")[0]], e, params)
        if "embedding" in case:
            want = {"embedding": formula(inputs)["embed"]}
        elif "tokens" in case:
            want = {"token_positions": np.array(*formula(inputs)["positions"](False))}
        elif "weights" in case:
            rows = formula(inputs._replace(v=np.repeat(np.eye(L)[:, None], H, 1)))["attend"]
            want = {
                "logits": reference.nope(e, {}, inputs)["attend"],
                "weights": rows.swapaxes(0, 1),
            }
        else:
            logits = formula(inputs)["attend"]
            want = {"logits": logits, "seen": 1 - np.isnan(logits[0])}
        for key in {*want} & {*case}:
            np.testing.assert_allclose(case[key], want[key], rtol=1e-9, atol=1e-11, err_msg=name)


def test_each_encoding_whose_values_are_fixed_has_a_file():
    fixed = set()
    for name, cls in ENCODINGS.items():
        e = cls(Dims(model=24, heads=3, head=8, layers=1, train_len=20))
        fixed |= set() if jax.eval_shape(e.init, jax.random.key(0)) else {name}
    with_files = {load(name)["spec"].partition("(")[0] for name in OF_SPECS}
    missing = fixed - with_files - WITHOUT_VECTORS
    assert not missing, f"add a file to pe_jax/conformance: {missing}"
    assert with_files - fixed == {"t5", "kerple_log", "kerple_power", "ssmax"}
    assert set(NAMES) <= set(re.findall(r"\w+", PAGE.partition("## Conventions")[0]))


def test_vectors_without_a_spec_are_those_of_their_formulas():
    """By loops over tokens, heads (layers) and pairs."""
    for name in ALONE:
        case = load(name)
        K, rows, given = case["dims"]["head"], case["positions"], case["parameters"]
        base = given.get("base", 10000.0)
        for key in "qk":
            x = case[key]
            out = x.copy()
            for i, h, c in itertools.product(range(x.shape[0]), range(x.shape[1]), range(K // 2)):
                if name == "mrope":
                    axis = np.searchsorted(np.cumsum(given["sections"]), c, side="right")
                    angle = rows[i, axis] * base ** (-2 * c / K)
                elif name == "axial":
                    axis, own = divmod(c, K // 4)
                    angle = rows[i, axis] * base ** (-4 * own / K)
                else:
                    far = (h + 1) % 4 == 0
                    angle = rows[i] * (1e6 if far else 1e4) ** (-2 * c / K) / (8 if far else 1)
                a, b = x[i, h, c], x[i, h, c + K // 2]
                out[i, h, c] = a * math.cos(angle) - b * math.sin(angle)
                out[i, h, c + K // 2] = a * math.sin(angle) + b * math.cos(angle)
            np.testing.assert_allclose(case[f"rotated_{key}"], out, rtol=1e-9, atol=1e-11)
        logits = np.einsum("ihc,jhc->hij", case["rotated_q"], case["rotated_k"]) / math.sqrt(K)
        seen = ~np.isnan(case["logits"])
        np.testing.assert_allclose(case["logits"][seen], logits[seen], rtol=1e-8, atol=1e-10)


def computed(case, e, params, pos):
    """The outputs of the case by the encoding's hooks."""
    H, L = e.dims.heads, len(pos)
    if "token_positions" in case:
        yield "token_positions", e.positions(jnp.array(case["tokens"]), pos, None, False)
    if "embedding" in case:
        yield "embedding", e.embed(params, jnp.zeros((L, e.dims.model)), pos, pos)
    if "rotated_q" in case:
        q, k = (jnp.array(case[name], jnp.float32) for name in "qk")
        turned = e.qk(params, q, k, pos, pos)
        in_part = 2 * e._frequencies().size < e.dims.head  # else the temperature is of `scale`
        factor = e._gain() if in_part else jnp.sqrt(jnp.mean(e.scale(params, pos)))
        yield "rotated_q", turned[0] * (1 if in_part else factor)
        yield "rotated_k", turned[1] * (1 if in_part else factor)
        yield "frequencies", e._frequencies()
        yield "attention_factor", factor
    if "bias" in case:
        yield "bias", e.relative_bias(params, (pos[:, None] - pos[None]).ravel()).reshape(H, L, L)
    if "query_scale" in case:
        yield "query_scale", e.scale(params, pos)


def test_the_encodings_give_the_vectors():
    """Within float32's error at position 4095; `test_encodings` compares attention."""
    for name in OF_SPECS:
        case = load(name)
        e, params = encoding_of(case)
        params = jax.tree.map(jnp.float32, params)
        pos = jnp.array(case["positions"], jnp.int32)
        outputs = jax.jit(lambda *given, case=case, e=e: dict(computed(case, e, *given)))
        for key, got in outputs(params, pos).items():
            assert diagnose(case, **{key: np.asarray(got)}) == "agrees", (name, key)
            if key in ("frequencies", "attention_factor"):
                np.testing.assert_allclose(got, case[key], rtol=1e-5, err_msg=name)


def test_every_fault_of_every_file_is_named():
    """Hidden keys have logits of -inf; what has no fault agrees, and is what the file holds."""
    for name in NAMES:
        case = load(name)
        for key, value in values(case).items():
            np.testing.assert_allclose(value, case[key], rtol=1e-6, atol=1e-7, err_msg=name)
        for faults, changes in forms(case, "halves"):
            if len(faults) < 2:
                got = {n: np.nan_to_num(a, nan=-np.inf) for n, a in values(case, **changes).items()}
                assert diagnose(case, **got) == ("".join(faults) or "agrees"), name


def yarn(case, base=10000.0, divided=False, temperature=True, dtype=np.float32, pairs=0, first=0):
    """YaRN as models have it, float32, by cosines and sines; `dtype` is that of the angles."""
    q, k, pos = (case[name].astype(np.float32) for name in ("q", "k", "positions"))
    K, L, s = q.shape[-1], case["parameters"]["length"], case["parameters"]["factor"]
    w = base ** (-np.arange(0, K, 2) / K)
    low, high = (
        K * math.log(L / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32, 1)
    )
    low, high = math.floor(low), math.ceil(high)
    slowed = np.clip((np.arange(K // 2) - low) / (high - low), 0, 1)
    w = w / s if divided else w / s * slowed + w * (1 - slowed)
    angle = ((pos + first).astype(dtype)[:, None] * w.astype(dtype)).astype(np.float32)
    factor = 0.1 * math.log(s) + 1 if temperature else 1
    halves, out = pairs != "interleaved", []
    for x in (q, k):
        a, b = np.split(x, 2, -1) if halves else (x[..., ::2], x[..., 1::2])
        z = factor * (a + 1j * b) * np.exp(1j * angle[:, None])
        out.append(np.stack([z.real, z.imag], -2 if halves else -1).reshape(x.shape))
    return out


PLANTED = {
    "agrees": {},
    "positions divided instead of frequencies": {"divided": True},
    "temperature forgotten": {"temperature": False},
    "base doubled": {"base": 20000.0},
    "upon NTK's base": {"base": 10000.0 * 4 ** (32 / 30)},
    "angles in float16": {"dtype": np.float16},
    "off by one: positions begin with 1": {"first": 1},
    "interleaved for halves": {"pairs": "interleaved"},
    "positions divided instead of frequencies and temperature forgotten": {
        "divided": True,
        "temperature": False,
    },
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_planted_in_yarn_is_named(fault):
    case = load("yarn")
    q, k = yarn(case, **PLANTED[fault])
    assert diagnose(case, rotated_q=q, rotated_k=k) == fault
    shift_cancels = "off by one" in fault or "interleaved" in fault
    if not shift_cancels:
        logits = np.einsum("ihk,jhk->hij", q, k) / math.sqrt(q.shape[-1])
        assert diagnose(case, logits=logits) == fault


def turned(case, frequencies, at=None, factor=1.0):
    """The case's queries and keys, the first components turned, `at` positions of the pairs."""
    n = np.shape(frequencies)[-1]
    angle = (case["positions"][:, None, None] if at is None else at[:, None, :]) * frequencies
    for x in (case["q"], case["k"]):
        a, b, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
        z = factor * (a + 1j * b) * np.exp(1j * angle)
        yield np.concatenate([z.real, z.imag, rest], -1)


def test_faults_planted_in_mla_in_layers_and_in_axes_are_named():
    mla, layers, axes = map(load, ("yarn_mla", "layer_types", "mrope"))
    one, all_dim = (c * math.log(4) + 1 for c in (0.1, 0.0707))
    q, k = turned(mla, mla["frequencies"], factor=one)
    assert diagnose(mla, rotated_q=q, rotated_k=k) == "ratio of the two mscales lost"
    logits = np.einsum("ihk,jhk->hij", *turned(mla, mla["frequencies"], factor=one / all_dim))
    assert diagnose(mla, logits=logits / 32**0.5).startswith("mscale squared lost")
    assert diagnose(mla, logits=logits / 32**0.5 * all_dim**2) == "agrees"
    w = np.array([[1e4], [1e4], [1e4], [1e6]]) ** (-np.arange(0, 32, 2) / 32)
    for slower, said in ((8, "scaling applied in window layers"), ([[1]] * 3 + [[8]], "agrees")):
        q, k = turned(layers, w / slower)
        assert diagnose(layers, rotated_q=q, rotated_k=k) == said
    for of, said in (([16, 0, 0], "1-D positions: time for all axes"), ([4, 6, 6], "agrees")):
        q, k = turned(axes, w[0], axes["positions"].repeat(of, 1))
        assert diagnose(axes, rotated_q=q, rotated_k=k) == said


def test_an_output_with_another_shape_or_name_is_refused():
    case = load("alibi")
    with pytest.raises(ValueError, match="shape"):
        diagnose(case, bias=case["bias"][0])
    with pytest.raises(ValueError, match="alibi has"):
        diagnose(case, rotated_q=case["q"])
    assert diagnose(case, bias=7 * case["bias"]).startswith("no known fault")
    q, k = yarn(load("yarn"), pairs="interleaved")
    assert diagnose(load("yarn"), pairs="interleaved", rotated_q=q, rotated_k=k) == "agrees"


def of_transformers(case):
    """Outputs by HuggingFace transformers: rotary_emb of Llama and GPT-NeoX, ALiBi of BLOOM, T5."""
    import torch
    from transformers import GPTNeoXConfig, LlamaConfig, T5Config
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
    from transformers.models.llama import modeling_llama as llama
    from transformers.models.t5.modeling_t5 import T5Attention

    name, given, pos = case["name"], case["parameters"], case["positions"].astype(int)
    H, K = case["dims"]["heads"], case["dims"]["head"]
    if "alibi" in name:
        by_key = build_alibi_tensor(torch.ones(1, 301), H, torch.float32)[:, 0].numpy()
        return {"bias": by_key[:, None, pos] - by_key[:, pos, None]}
    if "t5" in name:
        config = T5Config(d_model=H * K, d_kv=K, num_heads=H, is_decoder=case["dims"]["causal"])
        layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        layer.relative_attention_bias.weight.data = torch.tensor(given["table"]).float().T
        return {"bias": layer.compute_bias(301, 301)[0].detach().numpy()[:, pos][:, :, pos]}
    if name == "mrope":
        from transformers import Qwen2VLTextConfig
        from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl

        rope = {"rope_type": "default", "rope_theta": given["base"]}
        rope |= {"mrope_section": given["sections"]}
        heads = {"num_attention_heads": H, "num_key_value_heads": H}
        layer = qwen2_vl.Qwen2VLRotaryEmbedding(
            Qwen2VLTextConfig(hidden_size=H * K, rope_parameters=rope, **heads)
        )
        q, k = (torch.tensor(case[n]).float().permute(1, 0, 2)[None] for n in "qk")
        turns = layer(q, torch.tensor(pos).T[:, None])
        q, k = qwen2_vl.apply_rotary_pos_emb(q, k, *turns)
        return {"rotated_q": q[0].permute(1, 0, 2), "rotated_k": k[0].permute(1, 0, 2)}
    kinds = {"rope": "default", "partial_rope": "default", "pi": "linear", "dynamic_ntk": "dynamic"}
    kind = name if name in kinds else name.partition("_")[0]
    settings = {"rope_type": kinds.get(kind, kind), "rope_theta": given["base"]}
    settings |= {"truncate": given["truncate"]} if "truncate" in given else {}
    settings |= {"original_max_position_embeddings": 1024, "partial_rotary_factor": 1.0}
    for theirs, setting in (("factor", "factor"), ("partial_rotary_factor", "rotary_pct")):
        settings |= {theirs: given[setting]} if setting in given else {}
    if name == "llama3":
        settings |= {"low_freq_factor": given["low"], "high_freq_factor": given["high"]}
    if "mscale_all_dim" in given:
        settings |= {m: 10 * given[m] for m in ("mscale", "mscale_all_dim")}
    if kind == "longrope":
        settings |= {"long_factor": given["long"], "short_factor": given["short"]}
    model, config, embedding = (
        (gpt_neox, GPTNeoXConfig, gpt_neox.GPTNeoXRotaryEmbedding)
        if given.get("rotary_pct", 1.0) < 1
        else (llama, LlamaConfig, llama.LlamaRotaryEmbedding)
    )
    layer = embedding(
        config(
            hidden_size=H * K,
            num_attention_heads=H,
            max_position_embeddings=1024,
            rope_parameters=settings,
        )
    )
    q, k = (torch.tensor(case[n]).float().permute(1, 0, 2)[None] for n in "qk")
    cos, sin = layer(q, torch.tensor(pos)[None])
    turned = model.apply_rotary_pos_emb(q, k, cos, sin)
    rows_of = {f"rotated_{n}": x[0].permute(1, 0, 2) for n, x in zip("qk", turned, strict=True)}
    return rows_of | {"frequencies": layer.inv_freq, "attention_factor": layer.attention_scaling}


def of_x_transformers(case):
    """Outputs by x-transformers, whose pairs are interleaved."""
    import torch
    from x_transformers import x_transformers as theirs

    H, pos = case["dims"]["heads"], case["positions"].astype(int)
    if "alibi" in case["name"]:
        return {"bias": theirs.AlibiPositionalBias(H, H)(301, 301).numpy()[:, pos][:, :, pos]}
    xpos = case["name"] == "xpos"
    base = case["parameters"].get("scale_base", 512)
    layer = theirs.RotaryEmbedding(case["dims"]["head"], use_xpos=xpos, scale_base=base)
    angle, scale = layer.forward_from_seq_len(4096)
    q, k = (torch.tensor(case[name]).float().permute(1, 0, 2)[None] for name in "qk")
    q_scale, k_scale = (scale[..., pos, :], 1 / scale[..., pos, :]) if xpos else (1, 1)
    q = theirs.apply_rotary_pos_emb(q, angle[..., pos, :], q_scale)[0].permute(1, 0, 2)
    k = theirs.apply_rotary_pos_emb(k, angle[..., pos, :], k_scale)[0].permute(1, 0, 2)
    if xpos:  # their middle is that of the text
        return {"logits": torch.einsum("ihk,jhk->hij", q, k) / q.shape[-1] ** 0.5}
    return {"rotated_q": q, "rotated_k": k}


LIBRARIES = {"transformers": of_transformers, "x-transformers": of_x_transformers}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("library", LIBRARIES)
def test_other_libraries_agree_where_the_files_say_so(library):
    pytest.importorskip(library.replace("-", "_"), reason=f"needs {library} and torch")
    pairs = "interleaved" if library == "x-transformers" else "halves"
    versions = {name: load(name)["agrees_with"] for name in NAMES}
    agree = [n for n, of in versions.items() if any(v.startswith(library) for v in of)]
    assert len(agree) > 3
    for name in agree:
        outputs = LIBRARIES[library](load(name))
        got = {key: np.asarray(value) for key, value in outputs.items()}
        assert diagnose(load(name), pairs=pairs, **got) == "agrees", name


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_example_of_the_page_agrees(capsys):
    pytest.importorskip("transformers", reason="needs transformers and torch")
    (example,) = re.findall(r"```python\n(.+?)```", PAGE, re.S)
    exec(example.replace('"vectors"', repr(str(FOLDER))), {})
    assert capsys.readouterr().out == "agrees\n"


OWN = """
import numpy as np

def outputs(case):
    if case["name"] not in ("yarn", "ntk", "ntk_partial"):
        return None
    if case["name"] == "yarn":
        return case["faults"]["base doubled"]["frequencies"]
    given, K = case["parameters"], case["dims"]["head"]
    r = K  # by the head's width, whatever turns
    base = given["base"] * given["factor"] ** (r / (r - 2))
    return {"frequencies": (base ** (-np.arange(0, r, 2) / r))[: case["frequencies"].size]}

def test_own(conformance):
    case = conformance("pi")
    conformance.agrees(case, frequencies=case["frequencies"])
"""


def test_the_plugin_of_pytest_names_the_fault_of_each_case(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    shutil.copytree(FOLDER, tmp_path / "vectors")
    command = [sys.executable, "-m", "pytest", "-p", "vectors.plugin", "-p", "no:cacheprovider"]
    command += ["--pe-jax-conformance=own:outputs"]
    command += ["-k", "test_own or [yarn] or [ntk] or [ntk_partial] or [pi]"]
    env = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [*command, "-v", "own.py"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    for line in ("own.py::test_own PASSED", "[ntk] PASSED", "[pi] SKIPPED", "[yarn] FAILED"):
        assert line in done.stdout, done.stdout
    assert "yarn: base doubled" in done.stdout
    assert "ntk_partial: frequencies by the head's width" in done.stdout
    assert "2 failed, 2 passed, 1 skipped" in done.stdout
