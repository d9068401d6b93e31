"""A Llama or a Gemma 3 in llama.cpp's format GGUF, as HuggingFace would describe and store it.

The conversion to GGUF stores rotary pairs of a Llama as neighbours: the rows of each head of
queries and keys are permuted, which is undone here, as is the 1 that it adds to the norms of a
Gemma. Quantised tensors are dequantised by the package `gguf`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax.storage import hashes

FAMILIES = {"llama": "llama", "gemma3": "gemma3_text"}
"""{architecture: model_type of its config.json}."""

FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
    "vocab_size": "vocab_size",
}
"""{name of a GGUF field behind "llama." or "gemma3.": name of the field of a config.json}."""

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

OF_GEMMA3 = {
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
"""The same of a Gemma 3, where it differs."""

SPACE = "\u2581"
"""What stands for a space in the tokens of SentencePiece."""

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
        self.kind = self._value("general.architecture")
        if self.kind not in FAMILIES:
            raise ValueError(
                f"{path} is of the architecture {self.kind!r}: of GGUF, {' and '.join(FAMILIES)} "
                "can be read"
            )
        parts = TENSORS | (OF_GEMMA3 if self.kind == "gemma3" else {})
        self.tensors = {_named(tensor.name, parts): tensor for tensor in reader.tensors}
        self.config = self._config(path)

    def _config(self, path: Path) -> dict[str, Any]:
        start = f"{self.kind}."
        own = {name.removeprefix(start) for name in self.fields if name.startswith(start)}
        sizes = {"rope.dimension_count", "attention.value_length"}
        if left := sorted(own - FIELDS.keys() - sizes):
            names = ", ".join(f"{start}{name}={self._value(start + name)!r}" for name in left)
            raise ValueError(f"{path} has fields that are not understood: {names}")
        config = {
            theirs: self._value(start + name) for name, theirs in FIELDS.items() if name in own
        }
        needed = ("embedding_length", "attention.head_count")
        if lacking := [start + name for name in needed if name not in own]:
            raise ValueError(f"{path} lacks {' and '.join(lacking)}")
        size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        for name in sorted(sizes & own):
            if (other := self._value(start + name)) != size:
                raise ValueError(f"{path} has heads of {size} and {name}={other}: not supported")
        if "vocab_size" not in config and (
            embedding := self.tensors.get("model.embed_tokens.weight")
        ):
            config["vocab_size"] = int(embedding.shape[1])
        tied = "lm_head.weight" not in self.tensors
        config |= {"model_type": FAMILIES[self.kind], "tie_word_embeddings": tied}
        return config | ({"query_pre_attn_scalar": size} if self.kind == "gemma3" else {})

    def read(self, name: str) -> np.ndarray:
        """The tensor of a HuggingFace name, float32."""
        tensor = self.tensors[name]
        values = self.library.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if self.kind == "gemma3":
            return values - 1 if name.endswith("norm.weight") else values
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            which = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
            heads = self.config.get(which, self.config["num_attention_heads"])
            pairs = values.reshape(heads, -1, 2, values.shape[-1])
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        return values

    @functools.cached_property
    def tokenizer(self) -> str:
        """The text of a tokenizer.json. ValueError unless it is a byte-level BPE whose splitting of
        text is known, or one of SentencePiece that puts no space before a text.
        """
        kind, split = self._value("tokenizer.ggml.model"), self._value("tokenizer.ggml.pre")
        tokens, kinds = map(self._needed, ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type"))
        if kind == "gpt2" and split in DIGITS:
            made = self._byte_level(tokens, DIGITS[split])
        elif kind == "llama" and self._value("tokenizer.ggml.add_space_prefix") is False:
            made = self._sentencepiece(tokens, kinds)
        else:
            raise ValueError(
                f"a GGUF file's tokenizer of the kind {kind!r} with the splitting {split!r} cannot "
                f"be read; known are gpt2 with {' or '.join(DIGITS)}, and llama without "
                "add_space_prefix"
            )
        of_kind = self.library.TokenType
        added = {of_kind.CONTROL: True, of_kind.USER_DEFINED: False}
        bos, begins = (
            self._value(f"tokenizer.ggml.{n}") for n in ("bos_token_id", "add_bos_token")
        )
        begins = kind == "llama" if begins is None else begins  # as llama.cpp takes it
        if begins and bos is None:
            raise ValueError("a GGUF file with add_bos_token lacks tokenizer.ggml.bos_token_id")
        return json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [
                    _added(i, tokens[i], added[kind])
                    for i, kind in enumerate(kinds)
                    if kind in added
                ],
                "normalizer": made["normalizer"],
                "pre_tokenizer": made["pre_tokenizer"],
                "post_processor": _before_all(bos, tokens[bos]) if begins else None,
                "decoder": made["decoder"],
                "model": made["model"],
            }
        )

    def _byte_level(self, tokens: Sequence[str], digits: bool) -> dict[str, Any]:
        """The parts of a byte-level BPE, with each digit as a token of its own or not."""
        steps = [{"type": "Digits", "individual_digits": True}] if digits else []
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
        return {
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [*steps, byte_level | {"use_regex": True}],
            },
            "decoder": byte_level | {"use_regex": True},
            "model": {
                "type": "BPE",
                "vocab": {token: i for i, token in enumerate(tokens)},
                "merges": [m.split(" ", 1) for m in self._needed("tokenizer.ggml.merges")],
            },
        }

    def _sentencepiece(self, tokens: Sequence[str], kinds: Sequence[int]) -> dict[str, Any]:
        """The parts of a BPE of SentencePiece, which has scores in place of merges: of all pairs of
        neighbours it joins the one whose whole has the highest score.
        """
        scores = self._needed("tokenizer.ggml.scores")
        vocab = {token: i for i, token in enumerate(tokens)}
        usual = {tokens[i] for i, kind in enumerate(kinds) if kind == self.library.TokenType.NORMAL}
        best_first = sorted(usual, key=lambda token: (-scores[vocab[token]], vocab[token]))
        return {
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
            "pre_tokenizer": None,
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                ],
            },
            "model": {
                "type": "BPE",
                "byte_fallback": True,
                "vocab": vocab,
                "merges": [
                    [token[:cut], token[cut:]]
                    for token in best_first
                    for cut in range(1, len(token))
                    if token[:cut] in usual and token[cut:] in usual
                ],
            },
        }

    def _value(self, name: str) -> Any:
        """A field's value; None where it is missing."""
        return self.fields[name].contents() if name in self.fields else None

    def _needed(self, name: str) -> Any:
        """A field's value; ValueError where it is missing."""
        if (value := self._value(name)) is None:
            raise ValueError(f"the GGUF file lacks {name}")
        return value


@functools.lru_cache(maxsize=2)
def _read(path: Path, stamp: hashes.Stamp) -> GgufFile:
    return GgufFile(path)


def _named(name: str, parts: Mapping[str, str]) -> str:
    """A tensor's name at HuggingFace, those of a layer by `parts`; one that is not known stays as
    it is.
    """
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    stem, _, kind = name.rpartition(".")
    if stem in top:
        return f"{top[stem]}.{kind}"
    layer, _, part = stem.removeprefix("blk.").partition(".")
    return f"model.layers.{layer}.{parts[part]}.{kind}" if part in parts else name


def _added(i: int, token: str, special: bool) -> dict[str, Any]:
    """A token that is found in a text before all else."""
    return {
        "id": i,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _before_all(i: int, token: str) -> dict[str, Any]:
    """The last step of a tokenizer that puts a token before every text."""
    return {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": token, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}},
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
