"""Reads a pretrained model, its weights included."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax.compose.parse import parse
from pe_jax.data import tokenizer
from pe_jax.errors import nearest
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.model.text_model import TextModel
from pe_jax.pretrained.source import Source, Tensors
from pe_jax.pretrained.tensors import BUFFERS, parameters
from pe_jax.training.step import structure


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Pretrained(TextModel):
    """A pretrained model; its name is that of its folder or file."""

    source: str
    weights: str
    """The dtype of its parameters."""
    lm: LmConfig
    spec: str
    """Its encodings, as specs are written: "rope(base=100000.0)"."""
    length: int
    """Tokens for which it was trained."""
    files: dict[str, str]
    """SHA-256 of each file that it was read from, by name."""

    def __repr__(self) -> str:
        return (
            f"Pretrained {self.name}: {self.spec}, {self.size:,} parameters in {self.weights}, "
            f"trained at length {self.length}\n  {self.source}"
        )


def load(source: str, weights: str = "float32", activations: str = "float32") -> Pretrained:
    """The model of "hf:DIR" or "gguf:PATH", its parameters stored in the dtype `weights` and
    computed with in `activations`.

    ValueError for a model that is not understood, whole or readable, for weights that are not
    finite and for a tokenizer with more tokens than the model has, FileNotFoundError for a file
    that is not there, with the names of similar ones.
    """
    there = Source.of(source)
    about = there.about
    config = dataclasses.replace(about.lm, dtype=activations)
    tokens = tokenizer.named(source)
    if len(tokens.pieces) > config.vocab:
        raise ValueError(
            f"the tokenizer of {source} has {len(tokens.pieces)} tokens and its model embeds "
            f"{config.vocab} (vocab_size): give the tokenizer.json that the model was trained with"
        )
    encodings = parse(about.spec).encodings(config.dims(about.length))
    with there.tensors() as tensors:  # first, so that no model of too many layers is made
        found = _parameters(there, tensors, DTYPES[weights])
    graphdef, shapes = structure(config, encodings)
    return Pretrained(
        source=source,
        name=there.name,
        weights=weights,
        lm=config,
        spec=about.spec,
        length=about.length,
        members=encodings,
        graphdef=graphdef,
        params=jax.tree.map_with_path(lambda path, like: _placed(found, path, like), shapes),
        tokenizer=tokens,
        files=there.digests,
    )


def _parameters(there: Source, tensors: Tensors, dtype: Any) -> dict[str, jax.Array]:
    """All parameters by their names, as in "blocks/0/query/kernel". ValueError for a tensor that is
    missing or not understood.
    """
    used: set[str] = set()

    def read(name: str) -> jax.Array:
        if name not in tensors.names:
            raise ValueError(f"{there.text} lacks the tensor {name}{nearest(name, tensors.names)}")
        used.add(name)
        array = jnp.asarray(tensors.read(name), dtype)
        if not jnp.isfinite(array).all():
            raise ValueError(
                f"{there.text} has NaN or infinity in the tensor {name}: the file is damaged, or "
                "training diverged"
            )
        return array

    found = parameters(there.about.family, there.about.lm, read)
    if left := sorted(name for name in tensors.names - used if not name.endswith(BUFFERS)):
        raise ValueError(f"{there.text} has tensors that are not understood: {', '.join(left[:5])}")
    return found


def _placed(found: dict[str, Any], path: Any, like: jax.ShapeDtypeStruct) -> Any:
    """The parameter of a path in the model's tree."""
    name = "/".join(str(key.key) for key in path)
    if found[name].shape != like.shape:
        raise ValueError(
            f"the tensor of {name} has the shape {found[name].shape}; by the model's description "
            f"it is {like.shape}"
        )
    return found[name]
