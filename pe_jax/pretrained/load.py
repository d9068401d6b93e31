"""Reads a pretrained model: hf:DIR, a folder with config.json, *.safetensors and tokenizer.json, or
gguf:PATH, a Llama in llama.cpp's format.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from pe_jax.data import tokenizer
from pe_jax.encoding import Encoding
from pe_jax.errors import nearest
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.pretrained.config import Described, described
from pe_jax.pretrained.gguf_file import GgufFile
from pe_jax.pretrained.tensors import BUFFERS, parameters
from pe_jax.spec.parse import parse
from pe_jax.storage import hashes
from pe_jax.storage.paths import expanded
from pe_jax.training.step import structure


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """nnx.merge(graphdef, params) is its LM."""

    source: str
    name: str
    """That of its folder or file."""
    weights: str
    """The dtype of its parameters."""
    lm: LmConfig
    spec: str
    """Its encodings, as specs are written: "rope(base=100000.0)"."""
    length: int
    """Tokens for which it was trained."""
    encodings: tuple[Encoding, ...]
    graphdef: nnx.GraphDef
    params: Any
    tokenizer: tokenizer.Tokenizer
    files: dict[str, str]
    """SHA-256 of each file that it was read from, by name."""


def load(source: str, weights: str = "float32", activations: str = "float32") -> Pretrained:
    """The model of "hf:DIR" or "gguf:PATH", its parameters stored in the dtype `weights` and
    computed with in `activations`.

    ValueError for a model that is not understood, whole or readable, FileNotFoundError for a file
    that is not there, with the names of similar ones.
    """
    kind, _, rest = source.partition(":")
    if kind not in ("hf", "gguf") or not rest:
        raise ValueError(f"a pretrained model is hf:DIR or gguf:PATH, got {source!r}")
    place = Path(expanded(rest, "the path of a model"))
    if not place.exists():
        near = place.parent.iterdir() if place.parent.is_dir() else ()
        names = [path.name for path in near]
        raise FileNotFoundError(f"no model {place}{nearest(place.name, names, 3)}")
    with (_gguf if kind == "gguf" else _huggingface)(place) as opened:
        about, names, read, tokens, files = opened
        config = dataclasses.replace(about.lm, dtype=activations)
        encodings = parse(about.spec).encodings(config.dims(about.length))
        graphdef, shapes = structure(config, encodings)
        used: set[str] = set()

        def used_and_read(name: str) -> jax.Array:
            if name not in names:
                raise ValueError(f"{place} lacks the tensor {name}{nearest(name, names)}")
            used.add(name)
            return jnp.asarray(read(name), DTYPES[weights])

        found = parameters(about.family, config, used_and_read)
        if left := sorted(n for n in names - used if not n.endswith(BUFFERS)):
            raise ValueError(f"{place} has tensors that are not understood: {', '.join(left[:5])}")
        params = jax.tree.map_with_path(lambda path, like: _placed(found, path, like), shapes)
        vocabulary = tokenizer.byte_level(source, tokens)
    return Pretrained(
        source=source,
        name=place.stem if kind == "gguf" else place.resolve().name,
        weights=weights,
        lm=config,
        spec=about.spec,
        length=about.length,
        encodings=encodings,
        graphdef=graphdef,
        params=params,
        tokenizer=vocabulary,
        files=files,
    )


def _placed(found: dict[str, Any], path: Any, like: jax.ShapeDtypeStruct) -> Any:
    """The parameter of a path in the model's tree."""
    name = "/".join(str(key.key) for key in path)
    if found[name].shape != like.shape:
        raise ValueError(
            f"the tensor of {name} has the shape {found[name].shape}; by the model's description "
            f"it is {like.shape}"
        )
    return found[name]


Opened = tuple[Described, set[str], Callable[[str], Any], str, dict[str, str]]
"""The description, the names of its tensors, which reads one, tokenizer.json, digests of files."""


@contextlib.contextmanager
def _gguf(place: Path) -> Iterator[Opened]:
    file = GgufFile(place)
    digests = {place.name: hashes.sha256_of_file(place)}
    yield described(file.config), {*file.tensors}, file.read, file.tokenizer(), digests


@contextlib.contextmanager
def _huggingface(folder: Path) -> Iterator[Opened]:
    texts = {name: _text(folder, name) for name in ("config.json", "tokenizer.json")}
    try:
        config = json.loads(texts["config.json"])
    except json.JSONDecodeError as error:
        raise ValueError(f"{folder / 'config.json'} is no JSON: {error}") from error
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise FileNotFoundError(f"no *.safetensors in {folder}, which hold the weights of a model")
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_safetensors(path)) for path in paths]
        of = {name: file for file in files for name in file.keys()}  # noqa: SIM118, no dict
        digests = {path.name: hashes.sha256_of_file(path) for path in paths}
        digests |= {name: hashes.sha256(text) for name, text in texts.items()}
        yield (
            described(config),
            {*of},
            lambda name: of[name].get_tensor(name),
            texts["tokenizer.json"],
            digests,
        )


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"no {name} in {folder}: a folder as HuggingFace's save_pretrained writes it has "
            "config.json, *.safetensors and tokenizer.json"
        ) from None


def _safetensors(path: Path) -> Any:
    """An open file of tensors; ValueError where it is damaged or the library is missing."""
    try:
        import safetensors
    except ImportError:
        raise ValueError(
            "hf:DIR needs the library safetensors: pip install 'pe_jax[pretrained]'"
        ) from None
    try:
        return safetensors.safe_open(path, framework="flax")
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"{path} is no whole safetensors file: {error}") from error
