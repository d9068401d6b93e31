"""The label and the id of a run, and the size of its model."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping
from typing import Any

from pe_jax import contract
from pe_jax.data import tokenizer
from pe_jax.encoding import Encoding, mixes
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import learned
from pe_jax.record import Parameters
from pe_jax.runs.config import GONE, Checked, users_files
from pe_jax.runs.init_from import InitFrom
from pe_jax.specs.parse import make
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.tasks import section as tasks
from pe_jax.training.step import model_size

ADDED = {"rotary_pct": 1.0, "mscale_all_dim": 0.0, "truncate": True}
ADDED |= {"masked_head": False, "special": ()}
"""Later fields of encodings and of `lm`, left out of the id at the value that earlier releases
imply."""


def label(checked: Checked, encodings: tuple[Encoding, ...], init_from: InitFrom | None) -> str:
    """The spec, with the memory of training and the label of the checkpoint it starts from; of a
    checkpoint that is scored as it is, the checkpoint's name.
    """
    lm, train = checked.sections["lm"], checked.sections["train"]
    name = str(checked.members)
    if lm.memory:
        name = f"{name} trained with memory {lm.memory}"
    if init_from is None:
        return name
    if not train.steps and encodings == make(init_from.spec, encodings[0].dims):
        return init_from.record.id
    return f"{name} from {init_from.record.label}"


def run_id(name: str, checked: Checked, init_from: InitFrom | None) -> str:
    """The label as a file name, "-" and the first 8 digits of the SHA-256 of everything that
    decides what one seed learns.
    """
    left_out = "remat", "scan", "curriculum", "loss"
    train = {n: v for n, v in vars(checked.sections["train"]).items() if n not in left_out}
    train |= GONE["train"]  # as in earlier releases, so that their runs are known
    if init_from:
        train["init_from"] = init_from.identity
    section = checked.members.section()
    pe = {name: _known(values) for name, values in section.items() if name != "spec"}
    identity = {
        "pe": pe | {"spec": section["spec"]},
        "lm": _known(vars(checked.sections["lm"])),
        "train": train,
        "vmap_seeds": True,  # as in earlier releases, so that their runs are known
        **_of_data(checked),
    }
    file = re.sub(r"[^A-Za-z0-9._+-]+", "_", name.rpartition("/")[2]).strip("_")[:60]
    return f"{file}-{sha256(canonical(identity))[:8]}"


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: v for name, v in fields.items() if name not in ADDED or v != ADDED[name]}


def _of_data(checked: Checked) -> Mapping[str, Any]:
    config = checked.config
    files = {"sources": users_files(config)}
    data = {name: value for name, value in config["data"].items() if name != "store"}
    if not checked.task.reads_text:
        task, curriculum = tasks.identity(config["task"]), config["train"]["curriculum"]
        drawn = {"task": task, "curriculum": curriculum, **files}
        return drawn | ({"loss": "all"} if config["train"]["loss"] == "all" else {})
    if config["task"]["name"] != "text":
        files["task"] = tasks.identity(config["task"])
    if data["source"].startswith("documents:"):
        with contextlib.suppress(OSError, ValueError):  # trained models serve where it has gone
            files["sources"] |= contract.sources(data["source"].removeprefix("documents:"))
    if data["tokenizer"] == config["train"]["init_from"]:  # the model's own, wherever it lies
        return {"data": data | {"tokenizer": "own"}, **files}
    files["sources"] |= tokenizer.sources(data["tokenizer"])
    return {"data": data, **files}


@functools.cache  # a sweep of a thousand learning rates has one model
def parameters(lm: LmConfig, encodings: tuple[Encoding, ...]) -> Parameters:
    """How many numbers one seed learns."""
    encoding = sum(map(learned, encodings))
    model = model_size(lm, tuple(filter(mixes, encodings)))
    return Parameters(total=model + encoding, encoding=encoding)
