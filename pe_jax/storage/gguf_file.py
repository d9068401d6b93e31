"""A Llama in llama.cpp's format GGUF, as HuggingFace would describe and store it.

The conversion to GGUF stores rotary pairs as neighbours: the rows of each head of queries and keys
are permuted, which is undone here. Quantised tensors are dequantised by the package `gguf`.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax.storage import hashes

FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
"""{name of a GGUF field behind "llama.": name of the field of a config.json}."""

TENSORS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""{name of a layer's tensor behind "blk.i.": its name in HuggingFace's Llama}."""

DIGITS = {"smollm": True, "gpt-2": False}
"""{way of splitting text that can be read: whether each digit is a token of its own}."""


def read(path: Path) -> GgufFile:
    """The file, which is read once as long as it does not change."""
    return _read(path, hashes.stamp(path))


class GgufFile:
    """A GGUF file: its description, its tensors and its tokenizer in HuggingFace's terms.

    ValueError for what is no GGUF file, another architecture and a field that is not understood.
    """

    def __init__(self, path: Path):
        self.library = library()
        try:
            reader = self.library.GGUFReader(path)
        except (ValueError, IndexError, KeyError) as error:
            raise ValueError(f"{path} is no whole GGUF file: {error}") from error
        self.fields = reader.fields
        if (kind := self._value("general.architecture")) != "llama":
            raise ValueError(f"{path} is of the architecture {kind!r}: of GGUF, llama can be read")
        self.tensors = {_named(tensor.name): tensor for tensor in reader.tensors}
        self.config = self._config(path)

    def _config(self, path: Path) -> dict[str, Any]:
        own = {name.removeprefix("llama.") for name in self.fields if name.startswith("llama.")}
        head = self._value("llama.rope.dimension_count")
        if left := sorted(own - FIELDS.keys() - {"rope.dimension_count"}):
            names = ", ".join(f"llama.{name}={self._value(f'llama.{name}')!r}" for name in left)
            raise ValueError(f"{path} has fields that are not understood: {names}")
        config = {
            theirs: self._value(f"llama.{name}") for name, theirs in FIELDS.items() if name in own
        }
        size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        if head not in (None, size):
            raise ValueError(f"{path} turns {head} of {size} components of a head: not supported")
        tied = "lm_head.weight" not in self.tensors
        return config | {"model_type": "llama", "tie_word_embeddings": tied}

    def read(self, name: str) -> np.ndarray:
        """The tensor of a HuggingFace name, float32."""
        tensor = self.tensors[name]
        values = self.library.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            which = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
            heads = self.config.get(which, self.config["num_attention_heads"])
            pairs = values.reshape(heads, -1, 2, values.shape[-1])
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        return values

    def tokenizer(self) -> str:
        """The text of a tokenizer.json. ValueError unless it is a byte-level BPE whose splitting of
        text is known.
        """
        kind, split = self._value("tokenizer.ggml.model"), self._value("tokenizer.ggml.pre")
        if kind != "gpt2" or split not in DIGITS:
            raise ValueError(
                f"a GGUF file's tokenizer of the kind {kind!r} with the splitting {split!r} cannot "
                f"be read; known is gpt2 with {' or '.join(DIGITS)}"
            )
        tokens = self._value("tokenizer.ggml.tokens")
        kinds = self._value("tokenizer.ggml.token_type")
        special = [i for i, kind in enumerate(kinds) if kind == self.library.TokenType.CONTROL]
        steps = [{"type": "Digits", "individual_digits": True}] if DIGITS[split] else []
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
        return json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [_added(i, tokens[i]) for i in special],
                "normalizer": None,
                "pre_tokenizer": {
                    "type": "Sequence",
                    "pretokenizers": [*steps, byte_level | {"use_regex": True}],
                },
                "post_processor": None,
                "decoder": byte_level | {"use_regex": True},
                "model": {
                    "type": "BPE",
                    "vocab": {token: i for i, token in enumerate(tokens)},
                    "merges": [m.split(" ", 1) for m in self._value("tokenizer.ggml.merges")],
                },
            }
        )

    def _value(self, name: str) -> Any:
        """A field's value; None where it is missing."""
        return self.fields[name].contents() if name in self.fields else None


@functools.lru_cache(maxsize=2)
def _read(path: Path, stamp: hashes.Stamp) -> GgufFile:
    return GgufFile(path)


def _named(name: str) -> str:
    """A tensor's name in HuggingFace's Llama; one that is not known stays as it is."""
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    stem, _, kind = name.rpartition(".")
    if stem in top:
        return f"{top[stem]}.{kind}"
    layer, _, part = stem.removeprefix("blk.").partition(".")
    return f"model.layers.{layer}.{TENSORS[part]}.{kind}" if part in TENSORS else name


def _added(i: int, token: str) -> dict[str, Any]:
    """A special token, which is found in a text before all else."""
    return {
        "id": i,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def library() -> Any:
    """The module `gguf`; ValueError, with what to install, where it is missing."""
    try:
        import gguf
    except ImportError:
        raise ValueError(
            "gguf:PATH needs the library gguf: pip install 'pe_jax[pretrained]'"
        ) from None
    return gguf
