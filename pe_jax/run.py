"""One run: a checked config, trained for all its seeds, evaluated, recorded. The same call goes on
after a kill.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pe_jax import data, memory, mesh, record, text, tokenizer, train
from pe_jax.checkpoint import digests
from pe_jax.encoding import Encoding, active
from pe_jax.encodings import label, make, sources
from pe_jax.evaluate import Evaluation, evaluate, plan
from pe_jax.fit import fit, stopping
from pe_jax.lm import LmConfig
from pe_jax.protocol import EvalConfig, windows
from pe_jax.trackers import TRACKERS, Trackers, require
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
        identity = {k: v for k, v in config.items() if k != "log"} | {"sources": files}
        identity["run"] = {k: v for k, v in config.get("run", {}).items() if k != "mesh"}
        start = None
        if parts["train"].init_from:
            start = WarmStart.of(parts["train"], parts["lm"], spec, encodings, parts["run"].seeds)
            name = f"{name} from {start.label}"
            # What the run is, wherever it lies.
            identity["train"] = identity["train"] | {"init_from": start.identity}
        return cls(
            dict(config), name, record.run_id(name, identity), encodings, **parts, start=start
        )

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Seeds that train in one program."""
        seeds = self.run.seeds
        return (seeds,) if self.run.vmap_seeds else tuple((seed,) for seed in seeds)

    def parameters(self) -> dict[str, int]:
        """{"total", "encoding"}: how many numbers one seed learns."""
        _, shapes = train.structure(self.lm, self.encodings)
        sizes = {name: sum(a.size for a in jax.tree.leaves(part)) for name, part in shapes.items()}
        return {
            "total": sum(sizes.values()),
            "encoding": sizes.get("shared", 0) + sizes.get("owned", 0),
        }

    def load(self) -> tokenizer.Tokens:
        """The corpus in tokens; Refused if it lacks what training and evaluation ask for."""
        try:
            corpus = text.load(self.data.source, self.data.data_dir)
            return self._checked(tokenizer.tokenize(corpus, self.data.tokenizer))
        except (ValueError, OSError) as error:
            raise record.Refused(str(error)) from error

    def _checked(self, corpus: tokenizer.Tokens) -> tokenizer.Tokens:
        if self.start:
            self.start.check(corpus.tokenizer)
        data.batches(corpus.splits["train"], self.train.length, self.train.batch, self.run.seeds[0])
        for metric in self.eval.metrics:
            for length in self.eval.lengths:
                windows(corpus.splits[self.eval.split], metric, length, self.eval)
        return corpus


def execute(
    run: Run,
    workdir: Path,
    command: str = "",
    say: Callable[[str], None] = lambda message: None,
    watch: Callable[[dict[str, Any]], None] = lambda line: None,
    begin: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The run's result; what `<workdir>/<run id>/` has of it already is not done again.

    `command` is what the record gives as reproducing it; `say` gets messages for people, `watch`
    every line of metrics.jsonl; `begin` is called when nothing stands in the way of a run. Raises
    Refused for what the user can mend, and Interrupted after a signal, with the state saved.
    """
    folder = workdir / run.id
    if done := record.read(folder / "result.json"):
        return done
    require(run.log.trackers)
    corpus = run.load()
    try:
        devices = mesh.make(run.run.mesh)
    except ValueError as error:
        raise record.Refused(str(error)) from error
    with record.locked(folder), stopping(say) as stop, contextlib.ExitStack() as closing:
        if done := record.read(folder / "result.json"):  # by a process that was faster
            return done
        about = _begin(run, folder, corpus, command, say)
        trackers = closing.enter_context(Trackers(run.log.trackers, folder, about, say))

        def follow(line: dict[str, Any]) -> None:
            trackers.watch(line)
            watch(line)

        metrics = record.Metrics(folder / "metrics.jsonl", follow)
        begin()
        states, seconds = [], 0.0
        for seeds in run.groups:
            state, note = fit(
                run.lm,
                run.encodings,
                run.train,
                seeds,
                corpus.splits["train"],
                folder / "checkpoints",
                metrics,
                stop,
                say,
                checkpoint_seconds=run.log.checkpoint_seconds,
                mesh=devices,
                start=run.start,
            )
            states.append(state)
            seconds += note["seconds"]
        begun = time.monotonic()
        found = _evaluated(run, states, corpus, metrics, stop, devices)
        evaluating = time.monotonic() - begun
        result = about | {
            "rows": found.rows,
            "curves": found.curves,
            "targets": found.targets,
            "target_bytes": found.target_bytes,
            "parameters": run.parameters(),
            "train": _training(run, record.read_lines(metrics.path)),
            "seconds": {"train": seconds, "evaluate": evaluating, "total": seconds + evaluating},
            "peak_memory_mib": record.peak_memory_mib(),
            "digests": {
                "-".join(map(str, seeds)): record.sha256(record.canonical(digests(state)))
                for seeds, state in zip(run.groups, states, strict=True)
            },
        }
        trackers.finish(result)
        record.write(folder / "result.json", record.canonical(result))
        return result


def _evaluated(
    run: Run, states, corpus: tokenizer.Tokens, metrics: record.Metrics, stop, devices
) -> Evaluation:
    def report(done: int, of: int) -> None:
        metrics.add(evaluated=done, of=of)
        stop(lambda: None)

    graphdef, _ = train.structure(run.lm, run.encodings)
    params = jax.tree.map(lambda *a: np.concatenate(a), *(state["params"] for state in states))
    diverged = np.concatenate([state["diverged"] for state in states]).tolist()
    documents = corpus.splits[run.eval.split]
    # XLA's CPU runs the blocks of attention one after another: a second core would be idle.
    threads = record.threads() if jax.default_backend() == "cpu" and not devices else 1
    return evaluate(
        graphdef,
        params,
        run.encodings,
        documents,
        run.eval,
        run.run.seeds,
        diverged,
        report,
        threads=threads,
        mesh=devices,
        sizes=corpus.tokenizer.sizes,
        segment=run.train.length,
    )


def _begin(run: Run, folder: Path, corpus: tokenizer.Tokens, command: str, say) -> dict[str, Any]:
    """Writes config.json (and tokenizer.json), or holds it against what the run was begun with."""
    about = {
        "id": run.id,
        "label": run.label,
        "command": command,
        "config": run.config,
        "seeds": list(run.run.seeds),
        "corpus": corpus.about,
        "tokenizer": corpus.tokenizer.describe(),
        "parent": run.start.about() if run.start else None,
        "started": record.now(),
        **record.environment(),
    }
    earlier = record.read(folder / "config.json")
    if earlier is None:
        if corpus.tokenizer.json is not None:
            record.write(folder / "tokenizer.json", corpus.tokenizer.json)
        if run.start:
            say(run.start.summary())
        record.write(folder / "config.json", record.canonical(about))
        return about
    if earlier["corpus"]["hash"] != about["corpus"]["hash"]:
        raise record.Refused(
            f"{folder} was begun on other text ({run.data.source} has changed since): "
            "delete the folder, or give another --workdir"
        )
    if earlier.get("tokenizer", about["tokenizer"]) != about["tokenizer"]:
        raise record.Refused(
            f"{folder} was begun with other tokens ({run.data.tokenizer} by another version of its "
            "library): delete the folder, or give another --workdir"
        )
    for part in ("versions", "device", "commit"):
        if earlier[part] != about[part]:
            say(
                f"{run.label}: {part} changed since the run was begun; "
                "its results are not bit-reproducible"
            )
    return about | {"started": earlier["started"]}


def _training(run: Run, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Final losses and speed, from metrics.jsonl; None where it has lost its lines."""
    lines = [line for line in lines if "loss" in line]
    ends = {tuple(line["seeds"]): line["loss"] for line in lines if line["step"] == run.train.steps}
    ms = statistics.median(line["ms_per_step"] for line in lines) if lines else None
    return {
        "length": run.train.length,
        "steps": run.train.steps,
        "loss": [x for seeds in run.groups for x in ends.get(seeds, [None] * len(seeds))],
        "ms_per_step": ms,
        "tokens_per_second": ms and run.train.batch * run.train.length / ms * 1e3,
    }


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
