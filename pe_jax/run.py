"""One run: its config in sections, each with its defaults, and everything about it checked."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Mapping
from typing import Any

import jax

from pe_jax import data, memory, mesh, text, tokenizer, train
from pe_jax.advice import advice
from pe_jax.encoding import Encoding, active
from pe_jax.errors import Refused
from pe_jax.evaluate import plan
from pe_jax.hashes import sha256
from pe_jax.lm_config import LmConfig
from pe_jax.parameters import init_params
from pe_jax.protocol import EvalConfig, windows
from pe_jax.record import canonical
from pe_jax.spec import label, make, parse, sources
from pe_jax.trackers import TRACKERS
from pe_jax.warm_start import WarmStart


@dataclasses.dataclass(frozen=True)
class DataConfig:
    source: str = "stdlib"
    """stdlib, files:PATH or tfds:NAME[:SPLIT] (text.py)."""
    data_dir: str = ""
    """Of files: where a relative PATH begins; "": the working directory. Of tfds: the data_dir of
    TFDS; "": TFDS's own, TFDS_DATA_DIR or ~/tensorflow_datasets."""
    tokenizer: str = "bytes"
    """bytes, bpe:N or file:PATH (tokenizer.py)."""


@dataclasses.dataclass(frozen=True)
class RunConfig:
    seeds: tuple[int, ...] = (0, 1, 2)
    vmap_seeds: bool = True
    """All seeds in one program. False: one after another, bit-equal to runs of one seed."""
    mesh: str = ""
    """Devices for seeds and data, such as "seed:3,data:2" (mesh.py); "": one device."""

    def __post_init__(self):
        mesh.parse(self.mesh)
        fine = all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in self.seeds)
        if not self.seeds or not fine or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(
                f"run.seeds must be different integers in 0 .. 2**32 - 1, got {self.seeds}"
            )


@dataclasses.dataclass(frozen=True)
class LogConfig:
    """What does not change a run's numbers, and is not part of its identity."""

    checkpoint_seconds: float = 60.0
    tensorboard: bool = False
    wandb: bool = False

    @property
    def trackers(self) -> tuple[str, ...]:
        """The names of those that are asked for."""
        return tuple(name for name in TRACKERS if getattr(self, name))


@dataclasses.dataclass(frozen=True)
class Run:
    """A config with everything checked that can be checked without reading text."""

    config: dict[str, Any]
    label: str
    id: str
    encodings: tuple[Encoding, ...]
    lm: LmConfig
    train: train.TrainConfig
    eval: EvalConfig
    data: DataConfig
    run: RunConfig
    log: LogConfig
    start: WarmStart | None = None
    advice: tuple[str, ...] = ()
    """What is doubtful about its encodings (advice.py)."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """From a plain dictionary with the sections pe, lm, train, eval, data, run, log."""
        sections = {
            "lm": LmConfig,
            "train": train.TrainConfig,
            "eval": EvalConfig,
            "data": DataConfig,
            "run": RunConfig,
            "log": LogConfig,
        }
        _known("the config", config, ["pe", *sections])
        parts = {
            name: _section(name, kind, config.get(name, {})) for name, kind in sections.items()
        }
        spec = config.get("pe", {}).get("spec")
        if not spec:
            raise ValueError(
                "the config has no pe.spec, which names the encodings; see configs/base.py"
            )
        members = {id: _tuples(fields) for id, fields in config["pe"].items() if id != "spec"}
        if parts["lm"].vocab < 256:
            raise ValueError(
                f"lm.vocab must be at least 256, since text is bytes, got {parts['lm'].vocab}"
            )
        if not parts["lm"].causal:
            raise ValueError(
                "lm.causal=False would let a language model see what it predicts; use True"
            )
        tokens = parts["data"].tokenizer
        vocab = max(parts["lm"].vocab, tokenizer.vocabulary(tokens))
        parts["lm"] = dataclasses.replace(parts["lm"], vocab=vocab)
        dims = parts["lm"].dims(parts["train"].length)
        parts["eval"] = parts["eval"].resolved(dims.train_len, parts["lm"].memory)
        mesh.check(
            parts["run"].mesh,
            len(parts["run"].seeds) if parts["run"].vmap_seeds else 1,
            parts["train"].batch,
        )
        encodings = make(spec, dims, members)
        for encoding in encodings:
            active(encoding, 0)  # raises for layers that are no slice, or none of the model's
        if parts["lm"].memory:
            memory.check(encodings, parts["lm"].memory, dims.train_len)
        list(plan(encodings, parts["eval"], dims.train_len))
        name = label(spec, members)
        if parts["lm"].memory:
            name = f"{name} trained with memory {parts['lm'].memory}"
        files = sources("+".join((spec, *parts["eval"].swaps))) | tokenizer.sources(tokens)
        start = None
        if parts["train"].init_from:
            start = WarmStart.of(parts["train"], parts["lm"], spec, encodings, parts["run"].seeds)
            name = f"{name} from {start.label}"
        doubts = advice(encodings, [member.id for member in parse(spec)])
        id = run_id(name, _identity(config, files, start))
        return cls(dict(config), name, id, encodings, **parts, start=start, advice=tuple(doubts))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Seeds that train in one program."""
        seeds = self.run.seeds
        return (seeds,) if self.run.vmap_seeds else tuple((seed,) for seed in seeds)

    def parameters(self) -> dict[str, int]:
        """{"total", "encoding"}: how many numbers one seed learns."""
        _, shapes = train.structure(self.lm, self.encodings)
        sizes = {name: sum(a.size for a in jax.tree.leaves(part)) for name, part in shapes.items()}
        own = sizes.pop("shared", 0) + sizes.pop("owned", 0)
        for e in self.encodings:
            draw = functools.partial(init_params, e)
            shared, owned = jax.eval_shape(draw, jax.random.key(0))
            parts = (shared, *owned.values())
            own -= sum(part[name].size for part in parts for name in e.fixed if name in part)
        return {"total": sum(sizes.values()) + own, "encoding": own}

    def load(self) -> tokenizer.Tokens:
        """The corpus in tokens; Refused if it lacks what training and evaluation ask for."""
        try:
            corpus = text.load(self.data.source, self.data.data_dir)
            return self._checked(tokenizer.tokenize(corpus, self.data.tokenizer))
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error

    def _checked(self, corpus: tokenizer.Tokens) -> tokenizer.Tokens:
        if self.start:
            self.start.check(corpus.tokenizer)
        data.batches(corpus.splits["train"], self.train.length, self.train.batch, self.run.seeds[0])
        for metric in self.eval.metrics:
            for length in self.eval.lengths:
                windows(corpus.splits[self.eval.split], metric, length, self.eval)
        return corpus


def run_id(label: str, identity: Mapping[str, Any]) -> str:
    """A readable name and the hash of all that decides a run's numbers."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", label.rpartition("/")[2]).strip("_")[:60]
    return f"{name}-{sha256(canonical(identity))[:8]}"


def _identity(config: Mapping[str, Any], files: dict[str, str], start: WarmStart | None):
    """What a run's id is made of: its config but for what changes no number, and its files."""
    identity = {k: v for k, v in config.items() if k != "log"} | {"sources": files}
    identity["run"] = {k: v for k, v in config.get("run", {}).items() if k != "mesh"}
    if start:  # what the parent is, wherever it lies
        identity["train"] = config["train"] | {"init_from": start.identity}
    return identity


def _section(name: str, kind: type, values: Mapping[str, Any]):
    """A config section as its dataclass; lists become tuples."""
    _known(f"config.{name}", values, [f.name for f in dataclasses.fields(kind)])
    return kind(**_tuples(values))


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a section, lists (JSON's) as tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}


def _known(where: str, given: Mapping[str, Any], names: list[str]) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{where} has no {name!r}{hint} It has {', '.join(names)}.")
