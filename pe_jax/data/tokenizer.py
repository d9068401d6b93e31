"""Text cut into tokens: its bytes, or the tokens of a BPE of bytes or characters.

`bytes` is the default. `bpe:N` trains a byte-level BPE of N tokens (Sennrich et al., 2016,
arXiv:1508.07909, on bytes) on the training split. `file:PATH` reads a tokenizer.json, `hf:DIR` and
`gguf:PATH` that of a pretrained model; a relative path begins at the working directory, `~` and
environment variables in it are expanded.

Every tokenizer is lossless: the bytes of a document's tokens, joined, are the document, which
`encode` checks. So tokens stand for a known number of bytes, and scores in bits per byte can be
compared between tokenizers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pe_jax import record
from pe_jax.data.corpus import QUIET_SECONDS, SPLITS, Corpus
from pe_jax.data.documents import Documents, joined
from pe_jax.errors import concerning, libraries, nearest
from pe_jax.storage import atomic, gguf_file, hashes, locks
from pe_jax.storage.paths import cache, existing, expanded

FORMS = {
    "bytes": "the bytes of the text",
    "bpe": "bpe:N, a byte-level BPE of N tokens trained on the training split",
    "file": "file:PATH, a BPE in a tokenizer.json",
    "hf": "hf:DIR, that of a pretrained model's folder",
    "gguf": "gguf:PATH, that of a model in llama.cpp's format",
}
IN_FILES = ("file", "hf", "gguf")
LOG = logging.getLogger("pe_jax")


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """A vocabulary with its way to cut text into tokens."""

    spec: str
    """As it was given: bytes, bpe:N, file:PATH, hf:DIR or gguf:PATH."""
    pieces: tuple[bytes, ...] = dataclasses.field(repr=False)
    """The bytes of each token, by its id."""
    json: str | None = dataclasses.field(default=None, repr=False)
    """The text of its tokenizer.json; None for bytes and for a task's symbols."""
    bos: int | None = None
    """The token that its tokenizer.json puts before every text, as <bos> of Gemma; None
    where it puts none. `encode` leaves it out: it stands before windows, not documents."""
    eos: int | None = None
    """The token that an encoder's tokenizer.json puts after every text, as [SEP]."""
    mask: int | None = None
    """The token that an encoder reads where one is hidden, [MASK] or <mask>."""

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Bytes of each token: int32 [V]."""
        return np.array([len(piece) for piece in self.pieces], np.int32)

    @property
    def dtype(self) -> np.dtype:
        """The smallest unsigned dtype that holds its tokens."""
        return np.min_scalar_type(len(self.pieces) - 1)

    def encode(self, documents: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The tokens of each document (uint8 [n], UTF-8), in `dtype`. ValueError where the
        tokens have other bytes than the document.
        """
        return tuple(self.stream(documents))

    def stream(self, documents: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """As `encode`, one document after another."""
        if self.spec == record.SYMBOLS:
            yield from (self._numbers(document.tobytes().decode()) for document in documents)
        elif self.json is None:
            yield from documents
        else:
            model = _library_tokenizer(self.spec, self.json)
            encoded = _encoded(self.spec, model, documents, self.dtype)
            for document, tokens in zip(documents, encoded, strict=True):
                if self.decode(tokens) != document.tobytes():
                    raise _lossy(self.spec)
                yield tokens

    def framed(self, tokens: np.ndarray) -> np.ndarray:
        """The tokens of a text between `bos`, unless it begins with it as a chat does, and `eos`:
        int32.
        """
        before = [] if self.bos is None or self.bos in tokens[:1] else [self.bos]
        after = [] if self.eos is None or self.eos in tokens[-1:] else [self.eos]
        return np.concatenate([before, tokens, after]).astype(np.int32)

    # The tokens of a text that lists their numbers, as in "0 1 1".
    def _numbers(self, text: str) -> np.ndarray:
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
        return of_bytes() if self.json is None else self.json

    def describe(self) -> record.Vocabulary:
        """The identity of this tokenizer, for records."""
        digest = None if self.json is None else hashes.sha256(self.json)
        return record.Vocabulary(spec=self.spec, vocabulary=len(self.pieces), sha256=digest)


BYTES = Tokenizer("bytes", tuple(bytes([byte]) for byte in range(256)))


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """A corpus in tokens, which training and evaluation read."""

    splits: Mapping[str, Documents]
    """The documents of each split: the ids of their tokens."""
    tokenizer: Tokenizer
    about: record.CorpusRecord
    """What records hold of its text."""

    def documents(self, splits: Sequence[str]) -> Documents:
        """The documents of some splits."""
        return joined([self.splits[split] for split in splits])


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
        tokenizer = _of_json(spec, _trained(int(rest), texts, corpus))
    elif kind in IN_FILES:
        tokenizer = named(spec)
    return cut(corpus, tokenizer, trained_on)


def cut(
    corpus: Corpus,
    tokenizer: Tokenizer,
    trained_on: Corpus | None = None,
    compared: Iterable[str] = record.HELD_OUT,
) -> Tokens:
    """The corpus in the tokens of `tokenizer`, with the overlap of the `compared` splits with the
    training text of `trained_on`. ValueError where it would lose or add a byte.
    """
    splits = dict(corpus.splits)
    if tokenizer.json is not None:
        every = joined([splits[name] for name in SPLITS])
        if corpus.folder:
            every = _stored(every, tokenizer, corpus.folder)
        else:
            every = Documents.of(tokenizer.encode(every))
        ends = itertools.accumulate(len(splits[name]) for name in SPLITS)
        for name, end in zip(SPLITS, ends, strict=True):
            splits[name] = every.take(slice(end - len(splits[name]), end))
    return Tokens(splits, tokenizer, corpus.describe(trained_on, compared))


# The tokens of documents from the store: `tokens` of all, `sizes` of each, and tokens.json, which
# is written last. Where a kill left off at a document, the same call goes on.
def _stored(documents: Documents, tokenizer: Tokenizer, store: Path) -> Documents:
    version = _library().__version__
    folder = store / f"tokens-{hashes.sha256(f'{tokenizer.json} {version}')[:16]}"
    path, sizes = folder / "tokens", folder / "sizes"
    if not (folder / "tokens.json").exists():
        with locks.locked(folder, wait=True):
            if not (folder / "tokens.json").exists():
                LOG.info("the tokens of %s are written into %s, once", tokenizer.spec, folder)
                with concerning(path):
                    _go_on(documents, tokenizer, path, sizes)
                about = hashes.canonical({"tokenizer": tokenizer.spec})
                atomic.write(folder / "tokens.json", about)
    counts = np.fromfile(sizes, np.int64)
    return Documents.mapped(path, tokenizer.dtype, np.cumsum(counts) - counts, counts)


# Appends the tokens of the documents that the files lack. What a kill cut off is written anew.
def _go_on(documents: Documents, tokenizer: Tokenizer, path: Path, sizes: Path) -> None:
    with path.open("ab") as out, sizes.open("ab") as counts:
        ends = np.cumsum(np.fromfile(sizes, np.int64)) * tokenizer.dtype.itemsize
        whole = int(np.searchsorted(ends, out.tell(), side="right"))  # documents
        out.truncate(int(ends[whole - 1]) if whole else 0)
        counts.truncate(8 * whole)
        told = time.monotonic()
        for tokens in tokenizer.stream(documents.take(slice(whole, None))):
            out.write(tokens.data)
            counts.write(np.int64(tokens.size).tobytes())
            if time.monotonic() > told + QUIET_SECONDS:
                told = time.monotonic()
                LOG.info("%s: %s MB of tokens are written", path, f"{out.tell() / 1e6:,.0f}")


def symbols(count: int) -> Tokenizer:
    """The tokens of a task that draws its samples, printed as their numbers."""
    return Tokenizer(record.SYMBOLS, tuple(f"{number} ".encode() for number in range(count)))


def no_text(task: str, identity: str, count: int) -> Tokens:
    """The empty text of a task that draws its samples. `identity` tells the task from others, and
    `count` is the number of its tokens.
    """
    about = record.CorpusRecord(source=task, hash=hashes.sha256(identity))
    return Tokens(dict.fromkeys(SPLITS, Documents.of(())), symbols(count), about)


def vocabulary(spec: str) -> int:
    """The number of tokens of the tokenizer that `spec` names. Raises as `tokenize` does."""
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
    return _of_json(about.spec, _read_json(folder / "tokenizer.json"))


def sources(spec: str) -> dict[str, str]:
    """{path: SHA-256} of the tokenizer.json in the file or folder that `spec` names, if any. It is
    part of a run's id.
    """
    kind, path = _parse(spec)
    return {path: hashes.sha256(_json_of(kind, path))} if kind in IN_FILES else {}


# ("bytes", ""), ("bpe", N), or one of IN_FILES with a path.
def _parse(spec: str) -> tuple[str, str]:
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
    return _of_json(spec, _json_of(*_parse(spec)))


def _json_of(kind: str, path: str) -> str:
    place = Path(expanded(path, "data.tokenizer"))
    if kind == "gguf":
        file = gguf_file.read(existing(place, "model"))
        with _library_errors(f"gguf:{path}", "cannot be made"):
            return file.tokenizer
    if kind == "hf":
        return _embedded(existing(place, "model"))
    return _read_json(place)


# The text of a model's tokenizer.json without added tokens that its config.json gives no embedding,
# as that of images in Gemma 3 for text: these are cut as other characters are.
def _embedded(folder: Path) -> str:
    text = _read_json(folder / "tokenizer.json")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        size = json.loads((folder / "config.json").read_text("utf-8"))["vocab_size"]
        parts = json.loads(text)
        inside = [token for token in parts["added_tokens"] if token["id"] < size]
        if len(inside) < len(parts["added_tokens"]):
            return json.dumps(parts | {"added_tokens": inside})
    return text


def _read_json(place: Path) -> str:
    try:
        return existing(place, "tokenizer").read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{place} is no tokenizer.json: {error}") from error


# Byte-level BPE by HuggingFace's library `tokenizers`, an optional dependency
#
# A tokenizer is the text of its tokenizer.json. A trained one is kept in the corpus's folder of the
# store, of a small corpus in $XDG_CACHE_HOME/pe_jax (or ~/.cache/pe_jax): one file for each corpus,
# number of tokens and version of the library.


PART, GROUP = 2**18, 2**22  # bytes: the least part of a document; parts that are encoded at once
# GPT-2's pattern never has a visible character and the line end after it in one match, and looks
# ahead only: it cuts here whatever the text before and after is.
LINE_END = re.compile(rb"[!-~](?=\r?\n)")

# Normalizers of SentencePiece, and of Qwen and Pythia
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": gguf_file.SPACE}
NFC = {"type": "NFC"}
NESTED = re.compile(r"\([^()]*[+*|][^()]*\)[+*]")  # a repeated group, which may match for ever


# The tokenizer of a tokenizer.json with this text; a piece is b"" where an id is not in use.
# ValueError unless it is a BPE of bytes, or of characters as SentencePiece makes it, with "▁" for a
# space, and bytes for a character without a token. `encode` checks that nothing is lost.
@functools.lru_cache(maxsize=4)
def _of_json(spec: str, text: str) -> Tokenizer:
    with _library_errors(spec, "is no tokenizer.json"):
        normalizer, first = map(json.loads(text).get, ("normalizer", "pre_tokenizer"))
    if normalizer not in (None, NFC, SPACES) or NESTED.search(json.dumps(first)):
        raise _lossy(spec)  # before the library reads it, which may panic
    model = _library_tokenizer(spec, text)
    vocab = model.get_vocab(with_added_tokens=False)
    added = {i: token.content for i, token in model.get_added_tokens_decoder().items()}
    if (largest := max([*vocab.values(), *added])) >= 2**24:  # a wrong id would take all memory
        raise ValueError(f"{spec} has the id {largest}: ids up to {2**24 - 1} are read")
    parts = json.loads(model.to_str())
    if parts["model"]["type"] != "BPE" or parts["model"].get("dropout"):
        raise _lossy(spec)
    pieces = [b""] * (1 + largest)
    characters = parts["normalizer"] == SPACES
    try:
        for token, i in vocab.items():
            if characters:
                pieces[i] = _characters(token)
            elif i not in added:
                pieces[i] = bytes(ALPHABET[character] for character in token)
    except KeyError:  # these are no bytes
        raise _lossy(spec) from None
    for i, content in added.items():
        pieces[i] = _characters(content) if characters else content.encode()
    bos, eos = _around(spec, parts["post_processor"] or {}, len(pieces))
    mask = next((i for i, content in added.items() if content in ("[MASK]", "<mask>")), None)
    return Tokenizer(spec, tuple(pieces), text, bos, None if mask is None else eos, mask)


# The tokens that a post_processor puts before and after every text; ValueError for more before it.
def _around(spec: str, post: Any, size: int) -> tuple[int | None, int | None]:
    before, after = [], []
    for step in post.get("processors", [post]):  # a sequence of steps, or one
        before += [step["cls"][1]] if "cls" in step else []
        after += [step["sep"][1]] if "sep" in step else []
        side = before
        for piece in step.get("single", []):
            if "Sequence" in piece and piece["Sequence"]["id"] == "A":
                side = after
                continue
            (name,) = (part["id"] for part in piece.values())
            side += step["special_tokens"].get(name, {"ids": [name]})["ids"]
    if len(before) > 1 or any(i not in range(size) for i in before):
        raise ValueError(
            f"the tokenizer {spec} puts the tokens {before} before every text: one of its own "
            f"{size} tokens can stand there"
        )
    known = len(after) == 1 and after[0] in range(size)
    return before[0] if before else None, after[0] if known else None


# The bytes of a token of a BPE of characters, "<0x0A>" for one byte.
def _characters(token: str) -> bytes:
    if found := re.fullmatch("<0x([0-9A-F]{2})>", token):
        return bytes.fromhex(found[1])
    return token.replace(gguf_file.SPACE, " ").encode()


def _lossy(spec: str) -> ValueError:
    return ValueError(
        f"the tokenizer {spec} is not lossless, and bits per byte need the bytes of the text: take "
        "a BPE of bytes, or of characters with byte_fallback, that neither changes a text nor adds "
        "to it (normalizer, add_prefix_space, dropout), as bpe:N trains; some need text in NFC"
    )


def _library_tokenizer(spec: str, text: str) -> Any:
    tokenizers = _library()
    with _library_errors(spec, "is no tokenizer.json"):
        model = tokenizers.Tokenizer.from_str(text)
    model.no_padding()
    model.no_truncation()
    return model


# Errors of the library as ValueError; so are panics of its Rust, which are no Exception.
@contextlib.contextmanager
def _library_errors(spec: str, said: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ValueError(f"the tokenizer {spec} {said}: {error}") from error
        raise


# The tokens of each document (uint8 [n], UTF-8) by a Tokenizer of the library.
#
# The library needs some 100 bytes of memory for each byte of text, so long documents are encoded in
# parts. They are cut only where the tokenizer's own first step, a plain ByteLevel, always cuts, and
# in no added token, so the tokens are those of the whole document.
def _encoded(
    spec: str, model: Any, documents: Sequence[np.ndarray], dtype: np.dtype
) -> Iterator[np.ndarray]:
    first = model.pre_tokenizer
    plain = isinstance(first, _library().pre_tokenizers.ByteLevel) and first.use_regex
    added = model.get_added_tokens_decoder().values()
    across = any("\n" in token.content or token.lstrip or token.rstrip for token in added)
    size = PART if plain and not across else sys.maxsize
    texts = (document.tobytes() for document in documents)
    parts = ((len(part), i, part) for i, text in enumerate(texts) for part in _parts(text, size))
    ends = itertools.accumulate(parts, lambda before, part: (before[0] + part[0], *part[1:]))
    whole, number = list[np.ndarray](), 0  # the parts of the document with this number
    for _, group in itertools.groupby(ends, key=lambda part: part[0] // GROUP):
        of, strings = zip(*((i, part.decode()) for _, i, part in group), strict=True)
        with _library_errors(spec, "fails at this text"):
            encoded = model.encode_batch_fast(list(strings), add_special_tokens=False)
        for i, tokens in zip(of, encoded, strict=True):
            if i > number:
                yield np.concatenate(whole)
                whole, number = [], i
            whole.append(np.array(tokens.ids, dtype))
    if whole:
        yield np.concatenate(whole)


# The text in parts of at least `size` bytes that end where a line does; the last part is what is
# left.
def _parts(text: bytes, size: int) -> Iterator[bytes]:
    start = 0
    while end := LINE_END.search(text, start + size):
        yield text[start : end.end()]
        start = end.end()
    yield text[start:]


# A BPE of `size` tokens, trained on the texts or taken from the cache.
#
# The texts are part of `corpus`. The first 256 tokens are bytes; a pair that occurs only once in
# the texts is not merged. ValueError where they have too few pairs for `size` tokens.
def _trained(size: int, texts: Iterable[str], corpus: Corpus) -> str:
    version = _library().__version__
    name = f"bpe-{size}-{hashes.sha256(f'{corpus.hash} {version}')[:16]}.json"
    with contextlib.suppress(OSError):
        return ((corpus.folder or cache()) / name).read_text("utf-8")
    made = _train(size, texts)
    with contextlib.suppress(OSError):  # a convenience: do without where it fails
        atomic.write((corpus.folder or cache()) / name, made)
    return made


def _train(size: int, texts: Iterable[str]) -> str:
    model = _library_bpe({})
    trainer = _library().trainers.BpeTrainer(
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
    return _library_bpe(ALPHABET).to_str()


def _library_bpe(vocabulary: dict[str, int]) -> Any:
    tokenizers = _library()
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    return model


PRINTED = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTED]
ALPHABET = {chr(b): b for b in PRINTED} | {chr(0x100 + i): b for i, b in enumerate(OTHERS)}
"""The byte that each character of a byte-level vocabulary stands for, as GPT-2 defined it: visible
characters of Latin-1 stand for themselves, U+0100 and on for the other bytes, in order.
"""


def _library() -> Any:
    return libraries("a tokenizer other than bytes", "tokenizers")[0]
