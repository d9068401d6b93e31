"""Tokens of a text: its bytes, or those of a byte-level BPE, whose bytes are counted exactly.

`bytes` is the default. `bpe:N` trains a byte-level BPE of N tokens (Sennrich et al., 2016,
arXiv:1508.07909, on bytes) on the training split. `file:PATH` reads a tokenizer.json; PATH begins
at the working directory, `~` and environment variables in it are expanded.

Every tokenizer is lossless: the pieces of a document's tokens, joined, are its bytes, nothing
added or changed. Encoding checks this, so the bytes of any run of tokens are known, and bits per
byte compare tokenizers.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax import atomic, bpe, hashes, text
from pe_jax.paths import expanded

FORMS = {
    "bytes": "the bytes of the text",
    "bpe": "bpe:N, a byte-level BPE of N tokens trained on the training split",
    "file": "file:PATH, a byte-level BPE in a tokenizer.json",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """A vocabulary, and how a text is cut into it; `json` is its tokenizer.json, None for bytes."""

    spec: str
    pieces: tuple[bytes, ...]
    """The bytes of each token, by its id."""
    json: str | None = None

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Bytes of each token: int32 [V]."""
        return np.array([len(piece) for piece in self.pieces], np.int32)

    def encode(self, documents: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The tokens of each document, uint8 [n] of UTF-8, in the smallest dtype.

        ValueError where the tokens are not the document byte by byte.
        """
        if self.json is None:
            return tuple(documents)
        out = bpe.encode(self.json, documents, np.min_scalar_type(len(self.pieces) - 1))
        for document, tokens in zip(documents, out, strict=True):
            if self.decode(tokens) != document.tobytes():
                wrong = bpe.Unfit.lossy("it changes this text")
                raise ValueError(f"data.tokenizer={self.spec} {wrong}")
        return tuple(out)

    def decode(self, tokens: np.ndarray) -> bytes:
        """The bytes of any run of tokens; they may begin or end inside a character.

        What only a larger lm.vocab has is no text.
        """
        size = len(self.pieces)
        return b"".join([self.pieces[token] for token in tokens.tolist() if token < size])

    def describe(self) -> dict[str, Any]:
        """JSON-able: spec, vocabulary, and the sha256 of its tokenizer.json, None for bytes."""
        digest = None if self.json is None else hashes.sha256(self.json)
        return {"spec": self.spec, "vocabulary": len(self.pieces), "sha256": digest}


BYTES = Tokenizer("bytes", tuple(bytes([byte]) for byte in range(256)))


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """A corpus in tokens; `about` is what text.Corpus.describe says of its text."""

    splits: Mapping[str, tuple[np.ndarray, ...]]
    tokenizer: Tokenizer
    about: dict[str, Any]


def tokenize(corpus: text.Corpus, spec: str) -> Tokens:
    """The corpus in the tokens that `spec` names: bytes, bpe:N or file:PATH.

    Raises ValueError for an unknown spec, without the library, for too little text to train N
    tokens, and for a tokenizer that would lose, change or add a byte; FileNotFoundError for a path
    that is not there.
    """
    about, tokenizer = corpus.describe(), BYTES
    kind, rest = _parse(spec)
    if kind == "bpe":
        texts = (document.tobytes().decode() for document in corpus.splits["train"])
        tokenizer = _byte_level(spec, bpe.trained(int(rest), texts, about["hash"]))
    elif kind == "file":
        tokenizer = _byte_level(spec, _named(rest))
    splits = {name: tokenizer.encode(split) for name, split in corpus.splits.items()}
    return Tokens(splits, tokenizer, about)


def vocabulary(spec: str) -> int:
    """How many tokens there are, known without any text. Raises as `tokenize` does."""
    kind, rest = _parse(spec)
    if kind == "file":
        return len(_byte_level(spec, _named(rest)).pieces)
    return int(rest) if kind == "bpe" else len(BYTES.pieces)


def kept(folder: Path) -> Tokenizer:
    """The tokenizer of a run, from its folder."""
    about = atomic.read(folder / "config.json") or {}
    spec = about.get("tokenizer", BYTES.describe())["spec"]
    if spec == BYTES.spec:
        return BYTES
    return _byte_level(spec, _read(folder / "tokenizer.json"))


def sources(spec: str) -> dict[str, str]:
    """{path: sha256} of the file that `spec` names, which is part of what identifies a run."""
    kind, path = _parse(spec)
    return {path: hashes.sha256(_named(path))} if kind == "file" else {}


def _parse(spec: str) -> tuple[str, str]:
    """("bytes", ""), ("bpe", N) or ("file", PATH)."""
    kind, _, rest = spec.partition(":")
    if spec == "bytes" or kind == "file" and rest:
        return kind, rest
    if kind == "bpe":
        if not rest.isdecimal() or int(rest) <= len(BYTES.pieces):
            raise ValueError(
                "data.tokenizer=bpe:N needs N of at least 257, the 256 bytes and a merge, "
                f"as bpe:4096, got {spec!r}"
            )
        return kind, rest
    known = "; ".join(f"{form} ({meaning})" for form, meaning in FORMS.items())
    if spec and Path(spec).expanduser().exists():
        raise ValueError(f"unknown data.tokenizer {spec!r}: for a path write file:{spec}")
    near = difflib.get_close_matches(kind, FORMS, 1)
    nearest = f", nearest: {near[0]}" if near else ""
    raise ValueError(f"unknown data.tokenizer {spec!r}{nearest}; known: {known}")


def _byte_level(spec: str, json: str) -> Tokenizer:
    try:
        return Tokenizer(spec, bpe.pieces(json), json)
    except bpe.Unfit as error:
        raise ValueError(f"data.tokenizer={spec} {error}") from error


def _named(path: str) -> str:
    """The tokenizer.json of file:PATH."""
    return _read(Path(expanded(path, "data.tokenizer")))


def _read(place: Path) -> str:
    try:
        return place.read_text("utf-8")
    except FileNotFoundError:
        names = os.listdir(place.parent) if place.parent.is_dir() else []
        near = difflib.get_close_matches(place.name, names, 3)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise FileNotFoundError(f"no tokenizer {place}{hint}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"data.tokenizer=file:{place} is no tokenizer.json: {error}") from error
