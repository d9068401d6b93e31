"""A pretrained model on disk: hf:DIR, a folder with config.json, *.safetensors and tokenizer.json,
or gguf:PATH, a Llama or Gemma 3 in the format of llama.cpp. Weights are read later.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pe_jax.data import tokenizer
from pe_jax.errors import libraries
from pe_jax.model.config import LmConfig
from pe_jax.pretrained.config import Described, described
from pe_jax.storage import gguf_file, hashes
from pe_jax.storage.paths import existing, expanded

KINDS = ("hf", "gguf")


@dataclasses.dataclass(frozen=True)
class Source:
    """A pretrained model: its description and its files."""

    text: str
    """hf:DIR or gguf:PATH."""
    name: str
    """Of its folder or file."""
    about: Described
    files: tuple[Path, ...]
    """Weights; in a folder followed by config.json and tokenizer.json."""

    @classmethod
    def of(cls, text: str) -> Source:
        """ValueError for a model that is not understood, FileNotFoundError with similar names."""
        kind, _, rest = text.partition(":")
        if kind not in KINDS or not rest:
            raise ValueError(f"a pretrained model is hf:DIR or gguf:PATH, got {text!r}")
        more = f" Models are read from this disk, not downloaded: name yours as {kind}:PATH."
        more += " `hf download NAME --local-dir DIR` gets one for hf:DIR." if kind == "hf" else ""
        place = existing(Path(expanded(rest, "the path of a model")), "model", more)
        if kind == "gguf":
            return cls(text, place.stem, described(gguf_file.read(place).config), (place,))
        libraries("hf:DIR", "safetensors", "tokenizers")
        config, tokens = (_in(place, name) for name in ("config.json", "tokenizer.json"))
        weights, about = _weights(place), described(read_json(config))
        if others := sorted({*place.glob("model*.safetensors")} - {*weights}):
            raise ValueError(f"{others[0]} is no part of {weights[0].name}: leave one model there")
        if not about.lm.causal:
            about = dataclasses.replace(about, lm=_with_special(about.lm, text))
        return cls(text, place.resolve().name, about, (*weights, config, tokens))

    @contextlib.contextmanager
    def tensors(self) -> Iterator[tuple[frozenset[str], Callable[[str], Any]]]:
        """(names of tensors, a function that reads one)."""
        if self.text.startswith("gguf:"):
            file = gguf_file.read(self.files[0])
            yield frozenset(file.tensors), file.read
            return
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(_safetensors(path)) for path in self.files[:-2]]
            of = {name: file for file in files for name in file.keys()}  # noqa: SIM118, no dict
            yield frozenset(of), lambda name: _tensor(of[name], name)

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each file, by name. An unchanged file is read once for all runs."""
        return {path.name: _digest(path.absolute(), hashes.stamp(path)) for path in self.files}


# The shape of an encoder with the special tokens of its tokenizer.
def _with_special(lm: LmConfig, text: str) -> LmConfig:
    tokens = tokenizer.named(text)
    special = tokens.mask, tokens.bos, tokens.eos
    if None in special:
        raise ValueError(
            f"{text} is an encoder, whose tokenizer.json must have a token [MASK] or <mask>, and "
            "a post_processor that puts one token before and one after every text: give the one "
            "that it was trained with"
        )
    return dataclasses.replace(lm, special=special)


# Other dtypes belong to quantised weights, whose scales stand elsewhere.
def _tensor(file: Any, name: str) -> Any:
    if (kind := file.get_slice(name).get_dtype()) not in ("F64", "F32", "F16", "BF16"):
        raise ValueError(
            f"the tensor {name} is stored as {kind}; weights are F64, F32, F16 or BF16"
        )
    return file.get_tensor(name)


@functools.cache
def _digest(path: Path, stamp: hashes.Stamp) -> str:
    return hashes.sha256_of_file(path)


# As HuggingFace's libraries choose: model.safetensors, or the shards of an index; not other files,
# such as consolidated.safetensors.
def _weights(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file() or not index.is_file():
        return [_in(folder, "model.safetensors")]
    content = read_json(index)
    shards = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(shards, dict):
        raise ValueError(f"{index} lacks weight_map, the file of each tensor")
    return [_in(folder, name) for name in sorted({str(name) for name in shards.values()})]


def read_json(path: Path) -> Any:
    """The content of a JSON file; ValueError if it is not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None


def _in(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise FileNotFoundError(
            f"no {name} in {folder}: a folder as HuggingFace's save_pretrained writes it has "
            "config.json, tokenizer.json, and model.safetensors or an index of its parts"
        )
    return folder / name


def _safetensors(path: Path) -> Any:
    (safetensors,) = libraries("hf:DIR", "safetensors")
    try:
        return safetensors.safe_open(path, framework="flax")
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"{path} is no whole safetensors file: {error}") from error
