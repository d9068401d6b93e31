"""Checkpoints by Orbax, with a digest of every file and array: where the newest is damaged, the one
before it is restored. One that cannot be read for want of memory or by a fault of the disk is not
taken for damaged: OSError.

Orbax commits a step atomically, so a kill or a full disk leaves the older steps whole. But it does
not notice flipped bits, and does not fall back: both are added here. Digests of files are checked
first, since Orbax prints tracebacks where it reads a damaged file; they are in SHA256SUMS, which
`sha256sum --check` reads. Digests of arrays are taken in memory, before anything is written.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from pe_jax.errors import first_line
from pe_jax.storage import atomic
from pe_jax.storage.hashes import sha256_of_file
from pe_jax.storage.loggers import quiet

KEPT = 2  # the newest checkpoints, which stay in the folder


class _Newest(ocp.checkpoint_managers.PreservationPolicy):
    """The KEPT newest checkpoints, and of each step in `before` the newest from before it."""

    before: Collection[int] = ()

    def should_preserve(self, checkpoints, *, context) -> list[bool]:
        steps = sorted(checkpoint.step for checkpoint in checkpoints)
        kept = {*steps[-KEPT:]}
        kept |= {max(older) for end in self.before if (older := [s for s in steps if s < end])}
        return [checkpoint.step in kept for checkpoint in checkpoints]


class Checkpoints:
    """The checkpoints of one training: `save`, and `restore` of the newest whole one.

    `read_only` is for the checkpoints of another run: nothing in the folder is written or removed,
    and `restore`, which sets damaged ones aside, is not for it.
    """

    def __init__(self, folder: Path, read_only: bool = False):
        self.folder, self.read_only = folder.absolute(), read_only
        self._policy = _Newest()

    @functools.cached_property
    def manager(self) -> ocp.CheckpointManager:
        """Orbax, for this process alone: of several, one reads and writes for all. ValueError if
        the folder is damaged and may not be mended.
        """
        process = jax.process_index()
        with _quiet():
            options = ocp.CheckpointManagerOptions(
                preservation_policy=None if self.read_only else self._policy,
                enable_async_checkpointing=False,
                read_only=self.read_only,
                create=False,
                multiprocessing_options=ocp.options.MultiprocessingOptions(
                    primary_host=process,
                    active_processes={process},
                    barrier_sync_key_prefix=str(process),
                ),
            )
        if not self.read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
        with _quiet():
            try:
                return ocp.CheckpointManager(self.folder, options=options)
            except ValueError as error:
                if self.read_only:
                    raise ValueError(f"{self.folder} is damaged ({error})") from error
                for path in self.folder.glob("*/_CHECKPOINT_METADATA"):  # it need not be there
                    atomic.set_aside(path, f"{path.name}.damaged")
                return ocp.CheckpointManager(self.folder, options=options)

    @property
    def steps(self) -> list[int]:
        """The steps of its checkpoints, damaged ones among them."""
        return sorted(self.manager.all_steps())

    def save(
        self, step: int, state: Any, note: dict[str, Any], before: Collection[int] = ()
    ) -> None:
        """Writes the state, synchronously; `note` is JSON that `restore` gives back. What killed
        saves have left is removed, and so are all checkpoints but the KEPT newest and, of each step
        in `before`, the newest from before it. OSError if the disk is full.
        """
        manager = self.manager  # which makes the folder
        self._tidy()
        arrays = flat(jax.device_get(state))
        meta = {"note": note, "kinds": kinds_of(arrays), "digests": digests(arrays)}
        self._policy.before = before
        args = ocp.args.Composite(state=ocp.args.StandardSave(arrays), meta=ocp.args.JsonSave(meta))
        try:
            self._reserve(sum(array.nbytes for array in arrays.values()))
            with _quiet():
                manager.save(step, args=args)
            write_sums(self.folder / str(step))
        except (OSError, ValueError) as error:  # Orbax says ValueError, and why at the very end
            self._tidy()
            why = str(error).rpartition('": ')[2][-160:]
            raise OSError(
                f"cannot write the checkpoint of step {step} in {self.folder} ({why}): "
                "make room, then the same command goes on"
            ) from error

    def _tidy(self) -> None:
        """Removes what saves that did not come to their end have left."""
        for left in self.folder.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(left, ignore_errors=True)

    def _reserve(self, size: int) -> None:
        """OSError if the disk has no room for `size` bytes. Asked before Orbax begins, since each
        of its threads that fails prints a traceback.
        """
        with tempfile.TemporaryFile(dir=self.folder) as file:
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(file.fileno(), 0, size)

    def restore(
        self, like: Any, warn: Callable[[str], None], before: int | None = None
    ) -> tuple[int, Any, dict[str, Any]] | None:
        """(step, state, note) of the newest whole checkpoint from before a step; None if there is
        none. Damaged ones are renamed to corrupt-<step>, which `warn` is told.

        The state is a tree like `like`, whose leaves may be shapes; ValueError if the checkpoint
        holds other arrays.
        """
        for step in reversed(self.steps):
            if before is not None and step >= before:
                continue
            try:
                meta = self._meta(step)
                if meta["kinds"] == kinds_of(flat(like)):
                    return step, self._state(step, like, meta["digests"]), meta["note"]
            except Exception as error:  # many types; at damage every one means the same
                if _of_the_machine(error):
                    without = "or from the checkpoint before if this one is moved away"
                    raise self._unread(step, error, without) from error
                aside = atomic.set_aside(self.folder / str(step), f"corrupt-{step}")
                why = first_line(error) or type(error).__name__
                warn(f"the checkpoint of step {step} is damaged ({why}): set aside as {aside.name}")
                with _quiet():
                    self.manager.reload()
                continue
            raise self._of_another_model(step, meta["kinds"], like)
        return None

    def state(self, step: int, like: Any) -> Any:
        """The state of a checkpoint, a tree like `like`, whose leaves may be shapes. ValueError if
        the checkpoint is not there or damaged, or holds other arrays; OSError if it cannot be read.
        """
        shapes, digests = self.describe(step)
        if kinds_of(shapes) != kinds_of(flat(like)):
            raise self._of_another_model(step, kinds_of(shapes), like)
        with self._damage(step):
            return self._state(step, like, digests)

    def describe(self, step: int) -> tuple[dict[str, jax.ShapeDtypeStruct], dict[str, str]]:
        """(shapes, digests) of a checkpoint's arrays, by name, without reading them. ValueError if
        it is not there or damaged, OSError if it cannot be read.
        """
        with self._damage(step):
            meta = self._meta(step)
            return {name: shape_of(kind) for name, kind in meta["kinds"].items()}, meta["digests"]

    def load(self, step: int) -> dict[str, Any]:
        """Every array of a checkpoint, by name; errors as of `describe`."""
        shapes, digests = self.describe(step)
        with self._damage(step):
            return self._arrays(step, shapes, digests)

    def _of_another_model(self, step: int, kinds: dict[str, str], like: Any) -> ValueError:
        return ValueError(
            f"{self.folder / str(step)} is the checkpoint of another model: "
            f"{difference(kinds, kinds_of(flat(like)))}; take another folder"
        )

    @contextlib.contextmanager
    def _damage(self, step: int) -> Iterator[None]:
        """Whatever fails inside is raised as the ValueError that names the checkpoint."""
        try:
            yield
        except Exception as error:  # many types; at damage every one means the same
            if _of_the_machine(error):
                raise self._unread(step, error) from error
            raise ValueError(
                f"the checkpoint of step {step} in {self.folder} is damaged or gone "
                f"({first_line(error) or type(error).__name__}): run it again, in another folder"
            ) from error

    def _unread(self, step: int, error: Exception, *without: str) -> OSError:
        why = first_line(error) or type(error).__name__
        remedy = ", ".join(("the same command goes on once it can", *without))
        where = f"the checkpoint of step {step} in {self.folder}"
        return OSError(f"{where} cannot be read now ({why}): {remedy}")

    def _state(self, step: int, like: Any, digests: dict[str, str]) -> Any:
        # jax.tree.map would sort the names: blocks.10 stands before blocks.2.
        shapes = {n: jax.ShapeDtypeStruct(a.shape, a.dtype) for n, a in flat(like).items()}
        arrays = self._arrays(step, shapes, digests)
        return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in shapes])

    def _arrays(self, step: int, shapes: dict[str, Any], digests: dict[str, str]) -> dict[str, Any]:
        """The arrays of a checkpoint, by name; ValueError unless their digests are these."""
        arrays = self._item(step, "state", ocp.args.StandardRestore(shapes))
        for name, known in digests.items():
            if digest_of(arrays[name]) != known:
                raise ValueError(f"the bytes of {name} are not those that were written")
        return arrays

    def _meta(self, step: int) -> dict[str, Any]:
        """What a checkpoint holds besides its arrays."""
        return self._item(step, "meta", ocp.args.JsonRestore())

    def _item(self, step: int, part: str, how: Any) -> Any:
        """A part of a checkpoint, `state` or `meta`, read by these arguments of Orbax."""
        check_sums(self.folder / str(step), part)
        with _quiet():
            return self.manager.restore(step, args=ocp.args.Composite(**{part: how}))[part]


def _quiet():
    """Silences the logger of Orbax, which logs what it raises, too."""
    return quiet("absl", logging.CRITICAL)


SUMS = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """Writes the sums of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    lines = (f"{sha256_of_file(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    atomic.write(folder / SUMS, "".join(lines))


def check_sums(folder: Path, part: str) -> None:
    """ValueError, which names the file, if one below `<folder>/<part>` is missing or not as it was
    when the sums were written. Without sums nothing is checked: a kill may have come before they
    were written.
    """
    if not (folder / SUMS).exists():
        return
    for line in (folder / SUMS).read_text("utf-8").splitlines():
        known, _, name = line.partition("  ")
        path = folder / name
        if name.startswith(f"{part}/") and (not path.is_file() or sha256_of_file(path) != known):
            raise ValueError(f"{name} is not as it was written")


def digests(state: Any) -> dict[str, str]:
    """SHA-256 of the dtype, shape and bytes of each array of a tree, by its path (see `flat`)."""
    return {name: digest_of(array) for name, array in flat(state).items()}


def _of_the_machine(error: Exception) -> bool:
    """Whether an error says nothing of the checkpoint: no memory, or a disk that cannot be read."""
    of_path = FileNotFoundError | IsADirectoryError | NotADirectoryError
    of_disk = isinstance(error, OSError) and not isinstance(error, of_path)
    return of_disk or isinstance(error, MemoryError | jax.errors.JaxRuntimeError)


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
