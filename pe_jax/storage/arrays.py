"""The arrays of a tree by name: their dtypes and shapes as text, and their digests."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import jax
import numpy as np


def digests(state: Any) -> dict[str, str]:
    """SHA-256 of the dtype, shape and bytes of each array of a tree, by its path (see `flat`)."""
    return {name: digest_of(array) for name, array in flat(state).items()}


def flat(state: Any) -> dict[str, Any]:
    """The leaves of a tree by their paths, such as "params.blocks.0.up.kernel"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def kinds_of(arrays: dict[str, Any]) -> dict[str, str]:
    """Dtype and shape of each array as text, as in "float32[3, 64]"."""
    return {name: f"{a.dtype}{list(a.shape)}" for name, a in arrays.items()}


def shape_of(kind: str) -> jax.ShapeDtypeStruct:
    """The dtype and shape of such a text."""
    dtype, bracket, shape = kind.partition("[")
    return jax.ShapeDtypeStruct(tuple(json.loads(bracket + shape)), dtype)


def difference(stored: dict[str, str], wanted: dict[str, str]) -> str:
    """In words, the first array whose dtype or shape differs."""
    name = next(n for n in sorted({*stored, *wanted}) if stored.get(n) != wanted.get(n))
    return f"its {name} is {stored.get(name, 'missing')}, not {wanted.get(name, 'missing')}"


def digest_of(array: Any) -> str:
    """SHA-256 of the dtype, shape and bytes of an array."""
    array = np.asarray(array)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()
