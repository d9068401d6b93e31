"""Makes pretrained/: small models with random weights as HuggingFace's libraries store them, with
their logits of random tokens, for tests/pretrained/test_families.py.

In an environment with the pinned packages below, which the project itself does not need:

    pip install torch==2.13.0 transformers==5.23.0 tokenizers==0.23.3 gguf==0.19.0 accelerate
    python tests/golden/make_pretrained.py

Nothing of pe_jax is imported. `modernbert` was made by transformers 5.24.0.
"""

import importlib.metadata
import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM

PINNED = {"torch": "2.13.0", "transformers": "5.23.0", "gguf": "0.19.0", "tokenizers": "0.23.3"}
ROOT = Path(__file__).parent / "pretrained"
VOCAB, TOKENS = 257, 40
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
SHARED = SHAPE | {"num_key_value_heads": 2}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LOCAL = {"rope_type": "default", "rope_theta": 100.0}
LINEAR = {"rope_type": "linear", "rope_theta": 5000.0, "factor": 3.0}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 5000.0, "factor": 2.0}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 5000.0,
    "factor": 2.0,
    "short_factor": [1.0, 1.1],
    "long_factor": [1.5, 2.5],
    "original_max_position_embeddings": 16,
}
HALF = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
MODELS = {
    "llama": ("LlamaConfig", SHARED | {"rope_parameters": LLAMA3}),
    "llama_tied": (
        "LlamaConfig",
        SHARED
        | {"tie_word_embeddings": True, "head_dim": 6, "attention_bias": True, "mlp_bias": True},
    ),
    "llama_linear": ("LlamaConfig", SHARED | {"rope_parameters": LINEAR}),
    "llama_dynamic": ("LlamaConfig", SHARED | {"rope_parameters": DYNAMIC}),
    "llama_longrope": ("LlamaConfig", SHARED | {"rope_parameters": LONGROPE}),
    "mistral": ("MistralConfig", SHARED | {"sliding_window": 9, "rms_norm_eps": 1e-5}),
    "qwen2": ("Qwen2Config", SHARED | {"rope_parameters": YARN}),
    "qwen3": ("Qwen3Config", SHARED | {"head_dim": 8, "tie_word_embeddings": True}),
    "gemma3": (
        "Gemma3TextConfig",
        SHARED
        | {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 9}
        | {"layer_types": ["sliding_attention", "full_attention"]}
        | {"rope_parameters": {"full_attention": YARN, "sliding_attention": LOCAL}},
    ),
    "gpt_neox": ("GPTNeoXConfig", SHAPE | {"rope_parameters": HALF}),
    "gpt_neox_serial": (
        "GPTNeoXConfig",
        SHAPE | {"rope_parameters": HALF, "use_parallel_residual": False, "hidden_act": "gelu_new"},
    ),
    "modernbert": (
        "ModernBertConfig",
        SHAPE
        | {"num_hidden_layers": 4, "vocab_size": VOCAB + 3, "local_attention": 8}
        | {"cls_token_id": VOCAB, "sep_token_id": VOCAB + 1, "pad_token_id": 0}
        | {"bos_token_id": None, "eos_token_id": None}
        | {"rope_parameters": {"full_attention": YARN, "sliding_attention": LOCAL}},
    ),
}


def main():
    for package, version in PINNED.items():
        found = importlib.metadata.version(package)
        assert found.split("+")[0] == version, f"{package} is {found}, pinned is {version}"
    shutil.rmtree(ROOT, ignore_errors=True)
    for name, (kind, fields) in MODELS.items():
        torch.manual_seed(len(name))
        config, encoder = getattr(transformers, kind)(**fields), name == "modernbert"
        of_tokens = transformers.AutoModelForMaskedLM if encoder else AutoModelForCausalLM
        model = of_tokens.from_config(config, dtype=torch.float32).eval()
        randomised(model)
        folder = ROOT / name
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        tokenizer(encoder).save(str(folder / "tokenizer.json"))
        logits(model, folder)
    for name, write in {"gguf": write_llama, "gguf_gemma3": write_gemma3}.items():
        torch.manual_seed(0)
        folder = ROOT / name
        folder.mkdir(parents=True)
        write(folder / "model.gguf")
        read = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file="model.gguf", dtype=torch.float32
        )
        logits(read.eval(), folder)
    cut_text(ROOT / "gguf_gemma3")


def randomised(model):
    """Every parameter drawn, so that no bias is 0 and no norm 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = "norm" in name and name.endswith("weight")
            parameter.copy_(float(norm) + 0.3 * torch.randn_like(parameter))


def logits(model, folder):
    tokens = torch.randint(VOCAB, (2, TOKENS))
    with torch.no_grad():
        out = model(tokens).logits
    np.savez_compressed(
        folder / "logits.npz", tokens=tokens.numpy().astype(np.int32), logits=out.numpy()
    )


def tokenizer(encoder=False):
    """The 256 bytes and one merge; of an encoder with [CLS] before and [SEP] after a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {character: i for i, character in enumerate(alphabet)} | {"th": 256}
    out = tokenizers.Tokenizer(models.BPE(vocab, [("t", "h")]))
    out.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.decoder = decoders.ByteLevel()
    if encoder:
        special = ["[CLS]", "[SEP]", "[MASK]"]
        out.add_special_tokens(special)
        ids = [(token, out.token_to_id(token)) for token in special]
        around = {"single": "[CLS] $A [SEP]", "special_tokens": ids}
        out.post_processor = processors.TemplateProcessing(**around)
    return out


def write_llama(path):
    """A Llama as llama.cpp's conversion writes it. Matrices are quantised to 8 bits."""
    writer = gguf.GGUFWriter(path, "llama")
    model, heads, shared, hidden = 64, 4, 2, 96
    writer.add_block_count(2)
    writer.add_context_length(32)
    writer.add_embedding_length(model)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1000.0)
    writer.add_rope_dimension_count(model // heads)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    vocab = tokenizer().get_vocab()
    writer.add_token_list(sorted(vocab, key=vocab.get))
    writer.add_token_types([1] * VOCAB)
    writer.add_token_merges(["t h"])
    key_size = shared * model // heads
    shapes = {
        "attn_q": (model, model),
        "attn_k": (key_size, model),
        "attn_v": (key_size, model),
        "attn_output": (model, model),
        "ffn_gate": (hidden, model),
        "ffn_up": (hidden, model),
        "ffn_down": (model, hidden),
    }
    add(writer, "token_embd.weight", (VOCAB, model))
    add(writer, "output_norm.weight", (model,))
    for layer in range(2):
        for name, shape in shapes.items():
            add(writer, f"blk.{layer}.{name}.weight", shape)
        for name in ("attn_norm", "ffn_norm"):
            add(writer, f"blk.{layer}.{name}.weight", (model,))
    close(writer)


def write_gemma3(path):
    """A Gemma 3 of six layers, of which the last has no window, with a tokenizer of SentencePiece:
    special tokens, the bytes, and pieces that it joins by their scores, the highest first.
    """
    writer = gguf.GGUFWriter(path, "gemma3")
    model, heads, shared, head, hidden = 32, 1, 1, 256, 64  # transformers takes 256 for the scale
    writer.add_block_count(6)
    writer.add_context_length(32)
    writer.add_embedding_length(model)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1000.0)
    writer.add_sliding_window(9)
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "\n", "\n\n", "  "]
    letters = [*"\u2581aehnopst"]
    joined = ["\u2581t", "he", "\u2581a", "th", "\u2581the", "an", "\u2581an", "pat", "at", "pa"]
    single = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = [*special, *single, *joined, *letters]
    kinds = [3] * 4 + [4] * 3 + [6] * 256 + [1] * (len(joined) + len(letters))
    scores = [-1000.0] * 7 + [0.0] * 256 + [-float(i) for i in range(len(joined) + len(letters))]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_scores(scores)
    writer.add_bos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    shapes = {
        "attn_q": (heads * head, model),
        "attn_k": (shared * head, model),
        "attn_v": (shared * head, model),
        "attn_output": (model, heads * head),
        "ffn_gate": (hidden, model),
        "ffn_up": (hidden, model),
        "ffn_down": (model, hidden),
    }
    norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    add(writer, "token_embd.weight", (len(tokens), model))
    add(writer, "output_norm.weight", (model,))
    for layer in range(6):
        for name, shape in shapes.items():
            add(writer, f"blk.{layer}.{name}.weight", shape)
        for name in norms:
            add(writer, f"blk.{layer}.{name}.weight", (model,))
        for name in ("attn_q_norm", "attn_k_norm"):
            add(writer, f"blk.{layer}.{name}.weight", (head,))
    close(writer)


TEXT = "the  path\n\n\nand then the patent, an \u00e9t\u00e9 at 12"


def cut_text(folder):
    """The tokens of a text by transformers, which makes a tokenizer of the scores."""
    cut = transformers.AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
    (folder / "tokens.json").write_text(json.dumps({"text": TEXT, "tokens": cut(TEXT).input_ids}))


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add(writer, name, shape):
    values = 0.3 * torch.randn(shape).numpy()
    if len(shape) == 1:
        writer.add_tensor(name, 1 + values)
    else:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)


if __name__ == "__main__":
    main()
