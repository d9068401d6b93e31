"""Text cut into tokens: its bytes, or the tokens of a byte-level BPE.

`bytes` is the default. `bpe:N` trains a byte-level BPE of N tokens (Sennrich et al., 2016,
arXiv:1508.07909, on bytes) on the training split. `file:PATH` reads a tokenizer.json, `hf:DIR` and
`gguf:PATH` that of a pretrained model; a relative path begins at the working directory, `~` and
environment variables in it are expanded.

Every tokenizer is lossless: the bytes of a document's tokens, joined, are the document, which
`encode` checks. So tokens stand for a known number of bytes, and scores in bits per byte can be
compared between tokenizers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pe_jax import record
from pe_jax.data import bpe
from pe_jax.data.corpus import Corpus
from pe_jax.errors import nearest
from pe_jax.storage import gguf_file, hashes
from pe_jax.storage.paths import existing, expanded

FORMS = {
    "bytes": "the bytes of the text",
    "bpe": "bpe:N, a byte-level BPE of N tokens trained on the training split",
    "file": "file:PATH, a byte-level BPE in a tokenizer.json",
    "hf": "hf:DIR, that of a pretrained model's folder",
    "gguf": "gguf:PATH, that of a model in llama.cpp's format",
}
IN_FILES = ("file", "hf", "gguf")


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """A vocabulary, and how text is cut into its tokens."""

    spec: str
    """As it was given: bytes, bpe:N, file:PATH, hf:DIR or gguf:PATH."""
    pieces: tuple[bytes, ...] = dataclasses.field(repr=False)
    """The bytes of each token, by its id."""
    json: str | None = dataclasses.field(default=None, repr=False)
    """The text of its tokenizer.json; None for bytes and for a task's symbols."""

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Bytes of each token: int32 [V]."""
        return np.array([len(piece) for piece in self.pieces], np.int32)

    def encode(self, documents: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The tokens of each document (uint8 [n], UTF-8) in the smallest unsigned dtype that holds
        the vocabulary. ValueError where the bytes of the tokens are not those of the document.
        """
        if self.spec == record.SYMBOLS:
            return tuple(self._numbers(document.tobytes().decode()) for document in documents)
        if self.json is None:
            return tuple(documents)
        out = bpe.encode(self.json, documents, np.min_scalar_type(len(self.pieces) - 1))
        for document, tokens in zip(documents, out, strict=True):
            if self.decode(tokens) != document.tobytes():
                raise ValueError(f"the tokenizer {self.spec} {self._lossy(document)}")
        return tuple(out)

    def _lossy(self, document: np.ndarray) -> bpe.Unfit:
        """The error for a document that differs from the bytes of its tokens."""
        known = {piece[0] for piece in self.pieces if len(piece) == 1}
        if lacking := sorted({*document.tobytes()} - known):
            named = ", ".join(f"0x{byte:02x}" for byte in lacking[:5])
            return bpe.Unfit.lossy(
                f"it has no token for {len(lacking)} bytes of this text, as {named}"
            )
        return bpe.Unfit.lossy("it changes this text")

    def _numbers(self, text: str) -> np.ndarray:
        """The tokens of a text that lists their numbers, as in "0 1 1"."""
        words = text.split()
        if not all(word.isdecimal() and int(word) < len(self.pieces) for word in words):
            raise ValueError(
                f"the tokens of this model are numbers below {len(self.pieces)}, as in '0 1 1', "
                f"got {text!r}"
            )
        return np.array(words, np.int32)

    def decode(self, tokens: np.ndarray) -> bytes:
        """The bytes of consecutive tokens; they may begin or end inside a character. Ids beyond the
        vocabulary, which a model of a larger lm.vocab may draw, stand for no bytes.
        """
        size = len(self.pieces)
        return b"".join([self.pieces[token] for token in tokens.tolist() if token < size])

    def as_json(self) -> str | None:
        """The text of its tokenizer.json; of bytes that of a BPE without merges; None for a task's
        symbols, which no text becomes.
        """
        if self.spec == record.SYMBOLS:
            return None
        return bpe.of_bytes() if self.json is None else self.json

    def describe(self) -> record.Vocabulary:
        """The identity of this tokenizer, for records."""
        digest = None if self.json is None else hashes.sha256(self.json)
        return record.Vocabulary(spec=self.spec, vocabulary=len(self.pieces), sha256=digest)


BYTES = Tokenizer("bytes", tuple(bytes([byte]) for byte in range(256)))


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """A corpus in tokens, which training and evaluation read."""

    splits: Mapping[str, tuple[np.ndarray, ...]]
    """The documents of each split: the ids of their tokens, [n]."""
    tokenizer: Tokenizer
    about: record.CorpusRecord
    """What records hold of its text."""


def tokenize(corpus: Corpus, spec: str, trained_on: Corpus | None = None) -> Tokens:
    """The corpus in the tokens that `spec` names, in one of FORMS, as `cut` gives it.

    Raises ValueError for an unknown spec, without the library, for too little text to train N
    tokens, and for a tokenizer that would lose, change or add a byte; FileNotFoundError for a path
    that is not there.
    """
    tokenizer = BYTES
    kind, rest = _parse(spec)
    if kind == "bpe":
        texts = (document.tobytes().decode() for document in corpus.splits["train"])
        tokenizer = byte_level(spec, bpe.trained(int(rest), texts, corpus.hash))
    elif kind in IN_FILES:
        tokenizer = named(spec)
    return cut(corpus, tokenizer, trained_on)


def cut(corpus: Corpus, tokenizer: Tokenizer, trained_on: Corpus | None = None) -> Tokens:
    """The corpus in the tokens of `tokenizer`, with its overlap with the training text of
    `trained_on`. ValueError where it would lose or add a byte.
    """
    splits = {name: tokenizer.encode(split) for name, split in corpus.splits.items()}
    return Tokens(splits, tokenizer, corpus.describe(trained_on))


def symbols(count: int) -> Tokenizer:
    """The tokens of a task that draws its samples, printed as their numbers."""
    return Tokenizer(record.SYMBOLS, tuple(f"{number} ".encode() for number in range(count)))


def no_text(task: str, identity: str, count: int) -> Tokens:
    """What a task that draws its samples reads: no text. `identity` tells it from any other, and
    `count` is the number of its tokens.
    """
    about = record.CorpusRecord(source=task, hash=hashes.sha256(identity))
    return Tokens({"train": (), "valid": (), "test": ()}, symbols(count), about)


def vocabulary(spec: str) -> int:
    """The number of tokens of the tokenizer that `spec` names, known without any text. Raises as
    `tokenize` does.
    """
    kind, rest = _parse(spec)
    if kind in IN_FILES:
        return len(named(spec).pieces)
    return int(rest) if kind == "bpe" else len(BYTES.pieces)


def kept(folder: Path, about: record.Vocabulary) -> Tokenizer:
    """The tokenizer of the run in `folder`, whose record says `about` it."""
    if about.spec == BYTES.spec:
        return BYTES
    if about.spec == record.SYMBOLS:
        return symbols(about.vocabulary)
    return byte_level(about.spec, _read(folder / "tokenizer.json"))


def sources(spec: str) -> dict[str, str]:
    """{path: SHA-256} of the tokenizer.json in the file or folder that `spec` names, if any. It is
    part of a run's id.
    """
    kind, path = _parse(spec)
    return {path: hashes.sha256(_text(kind, path))} if kind in IN_FILES else {}


def _parse(spec: str) -> tuple[str, str]:
    """("bytes", ""), ("bpe", N), or one of IN_FILES with a path."""
    kind, _, rest = spec.partition(":")
    if spec == "bytes" or kind in IN_FILES and rest:
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
    raise ValueError(f"unknown data.tokenizer {spec!r}{nearest(kind, FORMS)} Known: {known}.")


def named(spec: str) -> Tokenizer:
    """The tokenizer of file:PATH, hf:DIR or gguf:PATH."""
    return byte_level(spec, _text(*_parse(spec)))


def byte_level(spec: str, json: str) -> Tokenizer:
    """The tokenizer of a tokenizer.json; ValueError if it is not a lossless byte-level BPE."""
    try:
        return Tokenizer(spec, bpe.pieces(json), json)
    except bpe.Unfit as error:
        raise ValueError(f"the tokenizer {spec} {error}") from error


def _text(kind: str, path: str) -> str:
    """The text of the tokenizer.json of a spec, one of IN_FILES."""
    place = Path(expanded(path, "data.tokenizer"))
    if kind == "gguf":
        return gguf_file.read(existing(place, "model")).tokenizer()
    return _read(existing(place, "model") / "tokenizer.json" if kind == "hf" else place)


def _read(place: Path) -> str:
    """The text of a tokenizer.json; FileNotFoundError with similar names in its folder, ValueError
    for what is not UTF-8.
    """
    try:
        return existing(place, "tokenizer").read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{place} is no tokenizer.json: {error}") from error
