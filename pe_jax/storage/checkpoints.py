"""Checkpoints by Orbax, which commits a step atomically: a kill or a full disk leaves the older
steps whole. Where the newest is damaged, the one before it is restored.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from pe_jax.errors import Refused, first_line
from pe_jax.storage.hashes import canonical, sha256

LOG = logging.getLogger("pe_jax")
KEPT = 2  # the newest checkpoints, which stay in the folder
MACHINE = MemoryError, OSError, jax.errors.JaxRuntimeError  # these say nothing of a checkpoint
GONE = FileNotFoundError, NotADirectoryError, IsADirectoryError


class _Newest(ocp.checkpoint_managers.PreservationPolicy):
    # The KEPT newest checkpoints, and of each step in `before` the newest from before it

    before: Collection[int] = ()

    def should_preserve(self, checkpoints, *, context) -> list[bool]:
        steps = sorted(checkpoint.step for checkpoint in checkpoints)
        kept = {*steps[-KEPT:]}
        kept |= {max(older) for end in self.before if (older := [s for s in steps if s < end])}
        return [checkpoint.step in kept for checkpoint in checkpoints]


class Checkpoints:
    """The checkpoints of one training. `read_only`: of another run, which nothing changes."""

    def __init__(self, folder: Path, read_only: bool = False):
        self.folder, self.read_only = folder.absolute(), read_only
        self._policy = _Newest()

    @functools.cached_property
    def manager(self) -> ocp.CheckpointManager:
        """Refused where Orbax cannot read its own description of a step."""
        if not self.read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with _quiet():
                options = ocp.CheckpointManagerOptions(
                    preservation_policy=None if self.read_only else self._policy,
                    enable_async_checkpointing=False,
                    read_only=self.read_only,
                    create=False,
                )
                return ocp.CheckpointManager(self.folder, options=options)
        except ValueError as error:
            raise Refused(
                f"a _CHECKPOINT_METADATA in {self.folder} is damaged ({error}): delete this file, "
                "which need not be there, and give the same command again"
            ) from error

    @property
    def steps(self) -> list[int]:
        """The steps of its checkpoints, ascending, damaged ones among them."""
        return sorted(self.manager.all_steps())

    def save(
        self, step: int, state: Any, note: dict[str, Any], before: Collection[int] = ()
    ) -> None:
        """Writes the state, synchronously; `note` is JSON that `restore` gives back. Then the KEPT
        newest checkpoints stay and, for each step in `before`, the newest from before it. OSError
        if the disk is full.
        """
        manager, arrays = self.manager, flat(jax.device_get(state))
        for left in self.folder.glob("*.orbax-checkpoint-tmp*"):  # of a save that was killed
            shutil.rmtree(left, ignore_errors=True)
        meta = {"note": note, "kinds": kinds_of(arrays), "digests": digests(arrays)}
        meta["digest"] = sha256(canonical(meta))
        self._policy.before = before
        args = ocp.args.Composite(state=ocp.args.StandardSave(arrays), meta=ocp.args.JsonSave(meta))
        try:
            self._reserve(sum(array.nbytes for array in arrays.values()))
            with _quiet():
                manager.save(step, args=args)
        except (OSError, ValueError) as error:
            raise OSError(
                f"cannot write the checkpoint of step {step} in {self.folder} "
                f"({str(error)[-160:]}): make room, then the same command goes on"
            ) from error

    def _reserve(self, size: int) -> None:
        # Each thread of Orbax that meets a full disk prints a traceback: it is asked before.
        with tempfile.TemporaryFile(dir=self.folder) as file:
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(file.fileno(), 0, size)

    def restore(
        self, like: Any, before: int | None = None
    ) -> tuple[int, Any, dict[str, Any]] | None:
        """(step, state, note) of the newest whole checkpoint from before a step; None if there is
        none. Damaged ones are renamed to corrupt-<step>, with a warning.

        The state is a tree like `like`, whose leaves may be shapes; Refused if the checkpoint holds
        other arrays.
        """
        for step in reversed(self.steps):
            if before is not None and step >= before:
                continue
            try:
                return step, self.state(step, like), self._meta(step)["note"]
            except ValueError as error:
                aside = self.folder / f"corrupt-{step}"
                shutil.rmtree(aside, ignore_errors=True)
                (self.folder / str(step)).rename(aside)
                LOG.warning("%s: set aside as %s", str(error).rpartition(":")[0], aside.name)
                with _quiet():
                    self.manager.reload()
        return None

    def state(self, step: int, like: Any) -> Any:
        """The state of a checkpoint, a tree like `like`, whose leaves may be shapes. ValueError if
        the checkpoint is not there or damaged, Refused if it holds other arrays.
        """
        wanted, kinds = flat(like), self._meta(step)["kinds"]
        if kinds != kinds_of(wanted):
            raise OtherModel(
                f"{self.folder / str(step)} is the checkpoint of another model: "
                f"{difference(kinds, kinds_of(wanted))}; take another folder"
            )
        arrays = self.load(step)
        return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])

    def describe(self, step: int) -> tuple[dict[str, jax.ShapeDtypeStruct], dict[str, str]]:
        """(shapes, digests) of a checkpoint's arrays, by name, without reading them. ValueError if
        it is not there or damaged.
        """
        meta = self._meta(step)
        return {name: shape_of(kind) for name, kind in meta["kinds"].items()}, meta["digests"]

    def load(self, step: int) -> dict[str, Any]:
        """Every array of a checkpoint, by name; ValueError as of `describe`."""
        shapes, written = self.describe(step)
        arrays = self._item(step, "state", ocp.args.StandardRestore(shapes))
        for name, digest in written.items():
            if digest_of(arrays[name]) != digest:
                raise self._damaged(step, f"the bytes of {name} are not those that were written")
        return arrays

    def _meta(self, step: int) -> dict[str, Any]:
        meta = self._item(step, "meta", ocp.args.JsonRestore())
        written = meta.pop("digest", None)  # earlier releases have written none
        if written not in (None, sha256(canonical(meta))):
            raise self._damaged(step, "its description is not as it was written")
        return meta

    def _item(self, step: int, part: str, how: Any) -> Any:
        try:
            with _quiet():
                return self.manager.restore(step, args=ocp.args.Composite(**{part: how}))[part]
        except Exception as error:  # of many types
            if isinstance(error, MACHINE) and not isinstance(error, GONE):
                raise
            raise self._damaged(step, first_line(error) or type(error).__name__) from error

    def _damaged(self, step: int, why: str) -> ValueError:
        return ValueError(
            f"the checkpoint of step {step} in {self.folder} is damaged or gone ({why}): run it "
            "again, in another folder"
        )


class OtherModel(Refused):
    """A checkpoint holds arrays of other names, shapes or dtypes."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # Silences the logger of Orbax, which logs what it raises, too.
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


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
    dtype, _, shape = kind.partition("[")
    sizes = shape.rstrip("]")
    return jax.ShapeDtypeStruct(tuple(map(int, sizes.split(","))) if sizes else (), dtype)


def difference(stored: dict[str, str], wanted: dict[str, str]) -> str:
    """In words, the first array whose dtype or shape differs."""
    name = next(n for n in sorted({*stored, *wanted}) if stored.get(n) != wanted.get(n))
    return f"its {name} is {stored.get(name, 'missing')}, not {wanted.get(name, 'missing')}"


def digest_of(array: Any) -> str:
    """SHA-256 of the dtype, shape and bytes of an array."""
    array = np.asarray(array)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()
