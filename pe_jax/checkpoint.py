"""Checkpoints by Orbax, with a digest of every array: a damaged one is set aside and the one before it taken.

Orbax commits a step atomically, so a kill or a full disk leaves the older steps whole. But it restores a flipped bit
without a word, and does not fall back; the digests and the fallback are here.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

KEPT = 2


def digests(state: Any) -> dict[str, str]:
    """SHA-256 of each array of a tree, by its path: dtype, shape and bytes."""
    return {name: _digest(array) for name, array in _flat(state).items()}


class Checkpoints:
    """The checkpoints of one training: `save`, and `restore` of the newest whole one."""

    def __init__(self, folder: Path):
        logging.getLogger("absl").setLevel(logging.ERROR)
        self.folder = folder.absolute()
        options = ocp.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=False)
        self.manager = ocp.CheckpointManager(self.folder, options=options)

    def save(self, step: int, state: Any, note: dict[str, Any]) -> None:
        """Writes the state, synchronously; `note` is JSON that `restore` gives back."""
        arrays = _flat(jax.device_get(state))
        meta = {"note": note, "digests": {name: _digest(a) for name, a in arrays.items()}}
        self.manager.save(
            step, args=ocp.args.Composite(state=ocp.args.StandardSave(arrays), meta=ocp.args.JsonSave(meta))
        )

    def restore(
        self, like: Any, warn: Callable[[str], None]
    ) -> tuple[int, Any, dict[str, Any]] | None:
        """(step, state, note) of the newest whole checkpoint, shaped as `like`; None if there is none."""
        for step in sorted(self.manager.all_steps(), reverse=True):
            try:
                return step, *self._read(step, like)
            except Exception as error:  # Orbax raises many types at damage; every one means the same
                aside = self.folder / f"corrupt-{step}"
                warn(f"the checkpoint of step {step} is damaged ({_first_line(error)}): set aside as {aside.name}")
                (self.folder / str(step)).rename(_free(aside))
                self.manager.reload()
        return None

    def _read(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), _flat(like))
        args = ocp.args.Composite(state=ocp.args.StandardRestore(shapes), meta=ocp.args.JsonRestore())
        stored = self.manager.restore(step, args=args)
        arrays, meta = stored["state"], stored["meta"]
        for name, digest in meta["digests"].items():
            if _digest(arrays[name]) != digest:
                raise ValueError(f"the bytes of {name} are not those that were written")
        leaves = [arrays[name] for name in _flat(like)]
        return jax.tree.unflatten(jax.tree.structure(like), leaves), meta["note"]


def _flat(state: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _digest(array: Any) -> str:
    array = np.asarray(array)
    header = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _free(path: Path) -> Path:
    names = [path, *(path.with_name(f"{path.name}-{i}") for i in range(2, 1000))]
    return next(p for p in names if not p.exists())
