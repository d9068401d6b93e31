"""A Llama or a Gemma 3 in llama.cpp's format GGUF, under the names of HuggingFace's.

The conversion to GGUF stores rotary pairs of a Llama as neighbours, that is, it permutes the rows
of each head of queries and keys, and adds 1 to the norms of a Gemma. Both are undone here.
Quantised tensors are dequantised by the package `gguf`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from pe_jax.errors import libraries
from pe_jax.fields import Count, Positive, check_value
from pe_jax.storage import hashes

FAMILIES = {"llama": "llama", "gemma3": "gemma3_text"}
"""{architecture: model_type of its config.json}."""

FIELDS = {
    "block_count": ("num_hidden_layers", Count, True),
    "context_length": ("max_position_embeddings", Count, True),
    "embedding_length": ("hidden_size", Count, True),
    "feed_forward_length": ("intermediate_size", Count, True),
    "attention.head_count": ("num_attention_heads", Count, True),
    "attention.head_count_kv": ("num_key_value_heads", Count, False),
    "attention.key_length": ("head_dim", Count, False),
    "attention.sliding_window": ("sliding_window", Count, False),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", Positive, True),
    "rope.freq_base": ("rope_theta", Positive, False),
    "rope.freq_base_swa": ("rope_local_base_freq", Positive, False),
    "vocab_size": ("vocab_size", Count, False),
}
"""{field behind "llama." or "gemma3.": (its name in a config.json, its annotation, whether it is
required)}.
"""

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

GGML = "tokenizer.ggml."
SPACE = "\u2581"
"""A space in the tokens of SentencePiece."""

DIGITS = {"smollm": True, "gpt-2": False}
"""{readable way of splitting text: whether each digit is a token of its own}."""

LONGEST = 2**20  # entries of a list; the largest vocabularies have a third of it


def read(path: Path) -> GgufFile:
    """The file; it is read once until it changes."""
    return _read(path, hashes.stamp(path))


@functools.lru_cache(maxsize=2)
def _read(path: Path, stamp: hashes.Stamp) -> GgufFile:
    return GgufFile(path)


class GgufFile:
    """A GGUF file: its description, its tensors and its tokenizer in HuggingFace's terms.

    ValueError for what is no GGUF file, another architecture and a field that is not understood.
    """

    def __init__(self, path: Path):
        self.library, self.tokenizers = libraries("gguf:PATH", "gguf", "tokenizers")
        self.path = path
        try:
            reader = _reader(self.library)(path)
        except (ValueError, IndexError, KeyError) as error:
            raise ValueError(f"{path} is no whole GGUF file: {error}") from error
        if reader.byte_order != "I":  # dequantisation would take its numbers for others
            raise ValueError(f"{path} has another byte order than this machine: convert it anew")
        self.fields = reader.fields
        self.kind = self._value("general.architecture", str)
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
            names = ", ".join(f"{start}{n}={self._value(start + n, Any)!r:.99}" for n in left)
            raise ValueError(f"{path} has fields that are not understood: {names}")
        config = {
            theirs: self._value(start + name, hint)
            for name, (theirs, hint, needed) in FIELDS.items()
            if needed or name in own
        }
        size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        for name in sorted(sizes & own):
            if (other := self._value(start + name, Count)) != size:
                raise ValueError(f"{path} has heads of {size} and {name}={other}: not supported")
        if embedding := self.tensors.get("model.embed_tokens.weight"):
            config.setdefault("vocab_size", int(embedding.shape[-1]))
        tied = "lm_head.weight" not in self.tensors
        config |= {"model_type": FAMILIES[self.kind], "tie_word_embeddings": tied}
        return config | ({"query_pre_attn_scalar": size} if self.kind == "gemma3" else {})

    @np.errstate(all="ignore")  # what is not finite is refused where it is read
    def read(self, name: str) -> np.ndarray:
        """The tensor of a HuggingFace name, float32."""
        tensor = self.tensors[name]
        try:
            values = self.library.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            if self.kind == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
                which = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
                heads = self.config.get(which, self.config["num_attention_heads"])
                pairs = values.reshape(heads, -1, 2, values.shape[-1])
                values = pairs.swapaxes(1, 2).reshape(values.shape)
        except (NotImplementedError, ValueError) as error:
            raise ValueError(f"{self.path}: the tensor {tensor.name}: {error}") from error
        return values - 1 if self.kind == "gemma3" and name.endswith("norm.weight") else values

    @functools.cached_property
    def tokenizer(self) -> str:
        """The text of a tokenizer.json. ValueError unless it is a byte-level BPE whose splitting of
        text is known, or one of SentencePiece that puts no space before a text.
        """
        library = self.tokenizers
        decoders, pre_tokenizers = library.decoders, library.pre_tokenizers
        kind, split = self._value(f"{GGML}model", str), self._value(f"{GGML}pre", str | None)
        tokens = self._entries("tokens", str)
        kinds = self._entries("token_type", int, len(tokens))
        vocab = {token: i for i, token in enumerate(tokens)}
        if kind == "gpt2" and split in DIGITS:
            merges = [tuple(merge.split(" ", 1)) for merge in self._entries("merges", str)]
            made = library.Tokenizer(library.models.BPE(vocab, merges))
            steps = [pre_tokenizers.Digits(individual_digits=True)] if DIGITS[split] else []
            steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False))
            made.pre_tokenizer = pre_tokenizers.Sequence(steps)
            made.decoder = decoders.ByteLevel()
        elif kind == "llama" and self._value(f"{GGML}add_space_prefix", bool | None) is False:
            merges = self._merges(tokens, kinds, vocab)
            made = library.Tokenizer(library.models.BPE(vocab, merges, byte_fallback=True))
            made.normalizer = library.normalizers.Replace(" ", SPACE)
            steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
            made.decoder = decoders.Sequence(steps)
        else:
            raise ValueError(
                f"{self.path} has a tokenizer of the kind {kind!r} with the splitting {split!r}; "
                f"known are gpt2 with {' or '.join(DIGITS)}, and llama without add_space_prefix"
            )
        of_kind = self.library.TokenType
        for wanted, special in ((of_kind.CONTROL, True), (of_kind.USER_DEFINED, False)):
            added = [token for token, kind in zip(tokens, kinds, strict=True) if kind == wanted]
            plain = [library.AddedToken(a, normalized=False, special=special) for a in added]
            (made.add_special_tokens if special else made.add_tokens)(plain)
        begins = self._value(f"{GGML}add_bos_token", bool | None)
        begins = kind == "llama" if begins is None else begins  # as llama.cpp takes it
        token: Any = Annotated[int, msgspec.Meta(ge=0, lt=len(tokens))]
        bos = self._value(f"{GGML}bos_token_id", token if begins else token | None)
        if begins:
            made.post_processor = library.processors.TemplateProcessing(
                single=[tokens[bos], "$A"], special_tokens=[(tokens[bos], bos)]
            )
        return made.to_str()

    def _merges(
        self, tokens: Sequence[str], kinds: Sequence[int], vocab: Mapping[str, int]
    ) -> list[tuple[str, str]]:
        # SentencePiece has scores instead: of all pairs of neighbours it joins the one whose whole
        # has the highest score.
        scores = self._entries("scores", float, len(tokens))
        usual = {tokens[i] for i, kind in enumerate(kinds) if kind == self.library.TokenType.NORMAL}
        best_first = sorted(usual, key=lambda token: (-scores[vocab[token]], vocab[token]))
        return [
            (token[:cut], token[cut:])
            for token in best_first
            for cut in range(1, len(token))
            if token[:cut] in usual and token[cut:] in usual
        ]

    def _value(self, name: str, hint: Any) -> Any:
        # A field's value, None where it is missing. ValueError unless it is as `hint` says.
        value = self.fields[name].contents() if name in self.fields else None
        check_value(value, hint, f"{self.path}: {name}")
        return value

    def _entries(self, name: str, hint: Any, length: int | None = None) -> list[Any]:
        values = self._value(f"{GGML}{name}", list)
        for value in values:
            check_value(value, hint, f"{self.path}: an entry of {GGML}{name}")
        if length not in (None, len(values)):
            raise ValueError(f"{self.path} has {len(values)} {GGML}{name} for {length} tokens")
        return values


def _reader(library: Any) -> Any:
    # The library's reader, which a list of a damaged length keeps busy without end

    class Reader(library.GGUFReader):
        def _get_field_parts(self, orig_offs: int, raw_type: Any) -> Any:
            if raw_type == library.GGUFValueType.ARRAY:
                kind, length = self._get(orig_offs, "u4,u8")[0]
                if kind == raw_type or length > LONGEST:
                    raise ValueError(f"a list of {length} entries of the type {kind}")
            return super()._get_field_parts(orig_offs, raw_type)

    return Reader


def _named(name: str, parts: Mapping[str, str]) -> str:
    # A tensor's name at HuggingFace, a layer's by `parts`; one that is not known is kept
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    stem, _, kind = name.rpartition(".")
    if stem in top:
        return f"{top[stem]}.{kind}"
    layer, _, part = stem.removeprefix("blk.").partition(".")
    return f"model.layers.{layer}.{parts[part]}.{kind}" if part in parts else name
