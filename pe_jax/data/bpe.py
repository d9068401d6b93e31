"""Byte-level BPE by HuggingFace's library `tokenizers`, which is an optional dependency.

A tokenizer is the text of its tokenizer.json. A trained one is cached in $XDG_CACHE_HOME/pe_jax
(or ~/.cache/pe_jax), one file for each corpus, number of tokens and version of the library.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax.storage import atomic, hashes


class Unfit(ValueError):
    """A tokenizer that cannot be used. The message lacks its subject, as in "is no tokenizer.json":
    who catches the error puts the name of the tokenizer before it.
    """

    @classmethod
    def lossy(cls, reason: str) -> Unfit:
        """The error for a tokenizer that does not keep every byte of a text, with the reason."""
        return cls(
            f"is not lossless: {reason}; bits per byte need a byte-level BPE that neither changes "
            "a text nor adds to it, as bpe:N trains"
        )


def trained(size: int, texts: Iterable[str], corpus: str) -> str:
    """A BPE of `size` tokens, trained on the texts or taken from the cache.

    `corpus` is the hash of the corpus that the texts are part of. The first 256 tokens are bytes;
    a pair that occurs only once in the texts is not merged. ValueError where they have too few
    pairs for `size` tokens.
    """
    version = library().__version__
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(root, "pe_jax", f"bpe-{size}-{hashes.sha256(f'{corpus} {version}')[:16]}")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        digest, _, cached = path.read_text("utf-8").partition("\n")
        if digest == hashes.sha256(cached):
            return cached
    made = _train(size, texts)
    with contextlib.suppress(OSError):  # the cache is a convenience: do without where it fails
        atomic.write(path, f"{hashes.sha256(made)}\n{made}")
    return made


def _train(size: int, texts: Iterable[str]) -> str:
    model = _byte_level()
    trainer = library().trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, initial_alphabet=[*ALPHABET], show_progress=False
    )
    model.train_from_iterator(texts, trainer)
    if model.get_vocab_size() < size:
        raise ValueError(
            f"data.tokenizer=bpe:{size}: the training split has no pairs left to merge at "
            f"{model.get_vocab_size()} tokens; ask for fewer, or give more text"
        )
    return model.to_str()


def of_bytes() -> str:
    """The tokenizer.json of the 256 bytes, each a token with its value as id."""
    return _byte_level(ALPHABET, []).to_str()


def _byte_level(*vocabulary_and_merges: Any) -> Any:
    """The library's Tokenizer of a byte-level BPE, by default without any token."""
    tokenizers = library()
    model = tokenizers.Tokenizer(tokenizers.models.BPE(*vocabulary_and_merges))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    return model


def encode(text: str, documents: Sequence[np.ndarray], dtype: np.dtype) -> list[np.ndarray]:
    """The tokens of each document (uint8 [n], UTF-8) by the tokenizer.json `text`.

    The library needs some 100 bytes of memory for each byte of text, so long documents are encoded
    in parts. They are cut only where the tokenizer's own first step, a plain ByteLevel, always
    cuts, so the tokens are those of the whole document.
    """
    model = load(text)
    first = model.pre_tokenizer
    plain = isinstance(first, library().pre_tokenizers.ByteLevel) and first.use_regex
    size = PART if plain and not model.get_added_tokens_decoder() else sys.maxsize
    out: list[list[np.ndarray]] = [[] for _ in documents]
    for group in _groups(documents, size):
        encoded = model.encode_batch_fast([part for _, part in group], add_special_tokens=False)
        for (i, _), tokens in zip(group, encoded, strict=True):
            out[i].append(np.array(tokens.ids, dtype))
    return [np.concatenate(parts) for parts in out]


def _groups(documents: Sequence[np.ndarray], size: int) -> Iterator[list[tuple[int, str]]]:
    """(number of the document, part of it) in order, in groups of at least GROUP bytes; the last
    one may be smaller.
    """
    group, held = [], 0  # bytes in the group
    for i, document in enumerate(documents):
        for part in _parts(document.tobytes(), size):
            group.append((i, part.decode()))
            held += len(part)
            if held >= GROUP:
                yield group
                group, held = [], 0
    yield group


def _parts(text: bytes, size: int) -> Iterator[bytes]:
    """The text in parts of at least `size` bytes that end where a line does; the last part is what
    is left.
    """
    start = 0
    while end := _LINE_END.search(text, start + size):
        yield text[start : end.end()]
        start = end.end()
    yield text[start:]


def load(text: str) -> Any:
    """The library's Tokenizer of a tokenizer.json, without the padding and truncation that the file
    may ask for. Raises Unfit for other text.
    """
    tokenizers = library()
    try:
        model = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library has no narrower class
        raise Unfit(f"is no tokenizer.json: {error}") from error
    model.no_padding()
    model.no_truncation()
    return model


def pieces(text: str) -> tuple[bytes, ...]:
    """The bytes of each token of a tokenizer.json, by its id; b"" where an id is not in use.

    Raises Unfit unless it is a lossless byte-level BPE.
    """
    model = load(text)
    vocab = model.get_vocab(with_added_tokens=False)
    added = {i: token.content for i, token in model.get_added_tokens_decoder().items()}
    own = {i: token for token, i in vocab.items() if i not in added}
    size = 1 + max([*own, *added])
    if size > LARGEST:
        raise Unfit(f"has a token with the id {size - 1}: ids up to {LARGEST - 1} are read")
    parts = json.loads(model.to_str())
    first = parts["pre_tokenizer"] or {}  # one step, or a sequence of steps
    steps = [s for s in first.get("pretokenizers", [first]) if s.get("type") == "ByteLevel"]
    for wrong, reason in (
        (parts["model"]["type"] != "BPE", f"it is a {parts['model']['type']}, no BPE"),
        (parts["model"].get("dropout"), "it drops merges at random (dropout)"),
        (parts["normalizer"], "it changes the text first (normalizer)"),
        (not steps, "its pre_tokenizer is not ByteLevel"),
        (any(s["add_prefix_space"] for s in steps), "it adds a space (add_prefix_space)"),
        (not all(ALPHABET.keys() >= set(t) for t in own.values()), "not all tokens are bytes"),
    ):
        if wrong:
            raise Unfit.lossy(reason)
    out = [b""] * size
    for i, token in own.items():
        out[i] = bytes(ALPHABET[character] for character in token)
    for i, content in added.items():
        out[i] = content.encode()
    return tuple(out)


def _alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for, as GPT-2 defined it.

    Bytes that are visible characters of Latin-1 stand for themselves; the others, in order, are
    U+0100 and on.
    """
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printed)
    return {chr(b): b for b in printed} | {chr(0x100 + i): b for i, b in enumerate(others)}


ALPHABET = _alphabet()
LARGEST = 2**24
"""The most ids of a tokenizer."""
PART = 2**18
"""The least size of a part of a document, in bytes."""
GROUP = 2**22
"""The least size of the parts that are encoded at once, in bytes."""
# GPT-2's pattern never has a visible character and the newline after it in one match, and looks
# ahead only: it cuts here whatever the text before and after is.
_LINE_END = re.compile(rb"[!-~](?=\n)")


def library() -> Any:
    """The module `tokenizers`; ValueError, with what to install, where it is missing."""
    try:
        import tokenizers
    except ImportError:
        raise ValueError(
            "a tokenizer other than bytes needs the library tokenizers: "
            "pip install 'pe_jax[tokenizers]'"
        ) from None
    return tokenizers
