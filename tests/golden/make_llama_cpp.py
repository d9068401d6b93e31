"""Makes pretrained/gguf*/llama_cpp.npz: what llama.cpp predicts with each scaling that it serves,
from the models of make_pretrained.py, for tests/pretrained/test_families.py.

    pip install xllamacpp==2026.10.11549 gguf==0.19.0
    python tests/golden/make_llama_cpp.py

Weights and cache are float32, without fused attention: llama.cpp rounds what it multiplies with
quantised weights to 8 bits, and in fused attention to float16.
"""

import tempfile
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

ROOT = Path(__file__).parent / "pretrained"
TRAINED, LENGTHS = 32, (16, 32, 64, 120)
SCALING, ORIGINAL = "rope.scaling.", "rope.scaling.original_context_length"
FORMS = {  # the fields that convert_hf_to_gguf.py writes for each swap
    "rope": {},
    "rope(base=8000.0)": {"rope.freq_base": 8000.0},
    "pi(factor=4.0)": {f"{SCALING}type": "linear", f"{SCALING}factor": 4.0},
    "yarn(factor=4.0)": {f"{SCALING}type": "yarn", f"{SCALING}factor": 4.0, ORIGINAL: TRAINED},
}
OF = {int: "UINT32", float: "FLOAT32", str: "STRING"}


def write(source, path, given):
    read = gguf.GGUFReader(source)
    kind = read.fields["general.architecture"].contents()
    given = {f"{kind}.{name}": of for name, of in {"context_length": 4 * TRAINED, **given}.items()}
    writer = gguf.GGUFWriter(path, kind)
    for name, field in read.fields.items():
        if not name.startswith(("GGUF.", "general.")) and name not in given:
            writer.add_key_value(name, field.contents(), field.types[0], *field.types[1:][-1:])
    for name, value in given.items():
        writer.add_key_value(name, value, gguf.GGUFValueType[OF[type(value)]])
    for tensor in read.tensors:
        weights = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def predicted(path, tokens, vocab):
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = path, 4 * TRAINED, 1
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server, out = xllamacpp.Server(params), np.empty((len(LENGTHS), vocab), np.float32)
    for row, length in zip(out, LENGTHS, strict=True):
        asked = {"prompt": tokens[:length].tolist(), "max_tokens": 1, "logprobs": vocab, "seed": 0}
        # A token that is no whole character comes without probabilities: another is drawn.
        while not (done := server.handle_completions(asked)["choices"][0]["logprobs"]):
            asked["seed"] += 1
        for one in done["content"][0]["top_logprobs"]:
            row[one["id"]] = one["logprob"]
    return out


for folder in (ROOT / "gguf", ROOT / "gguf_gemma3"):
    vocab, made = np.load(folder / "logits.npz")["logits"].shape[-1], {}
    tokens = np.random.default_rng(0).integers(7, vocab, max(LENGTHS))
    with tempfile.TemporaryDirectory() as scratch:
        for swap, given in FORMS.items():
            write(folder / "model.gguf", f"{scratch}/model.gguf", given)
            made[swap] = predicted(f"{scratch}/model.gguf", tokens, vocab)
    np.savez_compressed(folder / "llama_cpp.npz", tokens=tokens, **made)
