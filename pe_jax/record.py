"""The schema of a run's JSON files: frozen dataclasses, read and written by storage/records.py; the
reasons why a score is missing, and the share of a scored split that occurs in the training text.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

VERSION = 6


HELD_OUT = {"test": "test", "valid": "validation"}  # the splits that are scored, in words
TOLD = 0.05  # shares of a split in the training text are reported from this one on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overlap:
    """How much of a split also stands in the training text, as data/overlap.py measures it."""

    share: float  # of its bytes, with case and white space folded
    error: float = 0.0  # of large text, half of the 95 % interval of the share; 0: all was compared
    copies: int = 0  # its documents that are equal to one of the training text
    document: str = ""  # a copy, or the one that shares the most; "": none shares any
    beside: str = ""  # the document of the training text with its copy, or with most of it first


class Reason(enum.Enum):
    """Why a value is not there."""

    BEYOND_POSITIONS = "beyond_positions"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_FINITE = "not_finite"
    NO_KEYS = "no_keys"
    NOT_EVALUATED = "not_evaluated"


SENTENCES = {
    Reason.BEYOND_POSITIONS: "beyond its {at} positions",
    Reason.DIVERGED: "diverged at step {at}",
    Reason.OUT_OF_MEMORY: "needs {at}, {free} are free",
    Reason.NOT_FINITE: "not finite",
    Reason.NO_KEYS: "no key token among the targets",
    Reason.NOT_EVALUATED: "not evaluated",
}


def sentence(reason: Reason, at: int | None, free: int | None) -> str:
    """The sentence of a reason, with the numbers that a Row has for it."""
    if reason is not Reason.OUT_OF_MEMORY:
        return SENTENCES[reason].format(at=at)
    if at is None or free is None:  # the device ran out of it in the middle of a pass
        return "out of memory"
    return SENTENCES[reason].format(at=in_bytes(at), free=in_bytes(free))


def in_bytes(number: int) -> str:
    """A number of bytes, as in "41.2 GB"."""
    units = (10**12, "TB"), (10**9, "GB"), (10**6, "MB")
    unit, name = next((unit for unit in units if number >= 0.9995 * unit[0]), units[-1])
    return f"{number / unit:.3g} {name}"


def divergence(steps: Mapping[int, int]) -> str:
    """{seed: step at which it diverged} in words, as in "seeds 0, 2: loss or gradient not finite
    from step 37 on"; "" for none.
    """
    by_step: dict[int, list[int]] = {}
    for seed, step in sorted(steps.items()):
        by_step.setdefault(step, []).append(seed)
    return "; ".join(
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}: "
        f"loss or gradient not finite from step {step} on"
        for step, seeds in by_step.items()
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """How a trained model is scored: as it was trained, or with the one field that is set. Its text
    is "" or that field, as in "yarn(factor=4.0)", "ignore=0.98" and "memory 64".
    """

    swap: str = ""  # the spec of the encodings swapped in
    variant: str = ""  # fields of the task other than in training
    memory: int = 0  # tokens of the segment memory

    def __str__(self) -> str:
        return self.swap or self.variant or (f"memory {self.memory}" if self.memory else "")

    def __bool__(self) -> bool:
        return self != AS_TRAINED


AS_TRAINED = Way()


@dataclasses.dataclass(frozen=True, order=True)
class Replica:
    """What a score is of: a seed of training; or, of a single model, a place of the text or a
    sample. Rows of the same way, metric and length have different replicas.
    """

    kind: Literal["seed", "place", "sample"]
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The score of one replica by one metric at one evaluation length."""

    replica: Replica
    way: Way = AS_TRAINED
    metric: str
    length: int  # tokens
    value: float | None  # in the unit of the metric; None where it was not computed
    reason: Reason | None = None  # why there is no value
    at: int | None = None  # the number in the reason's sentence: positions, step, bytes needed
    free: int | None = None  # the bytes that were free where too few were
    seconds: float | None = None  # of the pass over a place or sample; None if compilation is in it
    documents: tuple[float, ...] = ()  # of a seed, in nats: -ln p summed by document, to 1e-3

    @property
    def why(self) -> str:
        """The reason as a sentence, "" where there is a value."""
        return sentence(self.reason, self.at, self.free) if self.reason else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """A score by position in windows of `length` tokens, or by depth (`Task.depths`)."""

    replica: Replica
    way: Way = AS_TRAINED
    metric: str
    length: int
    position: tuple[float, ...]  # middles of bins, counted from 1; of depths, in [0, 1]
    value: tuple[float | None, ...]  # in the unit of the metric; None where a bin has no target


@dataclasses.dataclass(frozen=True, kw_only=True)
class Baseline:
    """What a method without a model scores on the samples of one length."""

    name: str  # one of the methods of evaluation/baselines.py
    metric: str
    length: int
    value: float
    way: Way = AS_TRAINED  # a variant of the task


@dataclasses.dataclass(frozen=True, kw_only=True)
class UsersMetric:
    """What a report says of a metric in a user's file (metric.py), without reading the file."""

    sentence: str
    unit: str
    better: Literal["lower", "higher"]
    samples: bool  # whether it scores drawn samples, or text
    percent: bool = True  # of samples: whether 100 is the best value
    logarithm: bool = False  # whether reports show the natural logarithm of the value
    sources: dict[str, str]  # SHA-256 of its file and of the files of the folder that it imports


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusRecord:
    """The text that a run read, and the hash that identifies it."""

    source: str  # as the config names it
    hash: str  # SHA-256 of its documents
    split: str = ""  # how it was split, as a sentence
    documents: dict[str, int] = dataclasses.field(default_factory=dict)  # how many, by split
    bytes: dict[str, int] = dataclasses.field(default_factory=dict)  # by split
    python: str | None = None  # the version whose standard library it is
    overlap: dict[str, Overlap] = dataclasses.field(default_factory=dict)  # by split

    def doubts(self, splits: Iterable[str] = HELD_OUT) -> tuple[str, ...]:
        """A sentence for each of these splits that has a copy of a training document, or shares at
        least TOLD with the training text. Less may be what many texts have, such as a licence.
        "all" stands for every split that was compared, with a sentence if the training text is
        scored.
        """
        whole = "all" in (splits := [*splits])
        own = whole and self.overlap and "train" not in self.overlap
        splits = [*self.overlap] if whole else splits
        overlaps = ((HELD_OUT.get(split, split), self.overlap.get(split)) for split in splits)
        whole_text = ("the training text is among the text that is scored",) if own else ()
        return whole_text + tuple(
            f"{100 * overlap.share:.3g}"
            + (f" ± {100 * overlap.error:.2g}" if overlap.error else "")
            + f" % of the {name} text also stands in the training text ("
            + (f"copies: {overlap.copies}, such as " if overlap.copies else "most of it: ")
            + f"{overlap.document} has that of {overlap.beside})"
            for name, overlap in overlaps
            if overlap and (overlap.copies or overlap.share >= TOLD)
        )


SYMBOLS = "symbols"  # the tokenizer of a task that draws its samples and reads no text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokenizer that a run used, and the hash that identifies it."""

    spec: str = "bytes"  # as the config names it; or SYMBOLS
    vocabulary: int = 256  # how many tokens it has
    sha256: str | None = None  # of its tokenizer.json; None for bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """What a run was computed on."""

    platform: str  # "cpu", "gpu" or "tpu"
    kind: str  # the model of the accelerator or of the processor
    count: int
    threads: int  # of XLA on the CPU
    xla_flags: str = ""
    precision: str = ""  # jax_default_matmul_precision; without it a GPU rounds float32 to TF32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process:
    """The code and the device that computed numbers; the defaults: unknown."""

    commit: str = "unknown"
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    device: Device | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parent:
    """The run, or the pretrained model, whose parameters a run started from."""

    id: str  # of a pretrained model the name of its folder or file
    parameters: str  # SHA-256 of the digests of its first program's parameters, or of its files
    label: str
    config: str  # hash of its config, or of its description
    commit: str
    new: tuple[str, ...] = ()  # names of the parameters that were not taken from it
    dropped: tuple[str, ...] = ()  # of earlier releases: names of its parameters without a place
    source: str = ""  # of a pretrained model: hf:DIR or gguf:PATH, as the config names it
    files: dict[str, str] = dataclasses.field(default_factory=dict)  # SHA-256 of each, by name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """How one seed's training went, at the steps after which validation text was scored."""

    seed: int
    step: tuple[int, ...]
    loss: tuple[float | None, ...]  # of training windows, nats a token, mean since the step before
    valid: tuple[float | None, ...]  # bits per byte at the training length; None: not finite


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What training was and cost."""

    length: int  # tokens of a window, or the longest length of samples
    steps: int
    tokens: int | None = None  # of a sample of that length; None: as many
    labels: int | None = None  # of samples: how many tokens a scored one may be
    loss: tuple[float | None, ...] = ()  # each seed's mean of the last jitted call, nats a token
    ms_per_step: float | None = None  # of one seed, the median of jitted calls
    tokens_per_second: float | None = None
    valid: tuple[float | None, ...] = ()  # each seed's bits per byte of validation text at the end
    progress: tuple[Progress, ...] = ()  # of each seed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried:
    """A learning rate that was tried, and its scores of validation text or samples at the training
    length, by which one is chosen.
    """

    rate: float
    valid: dict[int, float | None]  # bits per byte, or bits, by seed; None: not finite, or diverged
    run: str = ""  # the id of the run at this rate

    @property
    def mean(self) -> float:
        """The mean over seeds; infinity where a seed diverged. The lowest mean is chosen."""
        finite = [value for value in self.valid.values() if value is not None]
        return statistics.fmean(finite) if len(finite) == len(self.valid) else math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seconds:
    """The wall time of a run's parts."""

    train: float
    evaluate: float
    total: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameters:
    """How many numbers one seed learns, and how many of them belong to its encodings."""

    total: int
    encoding: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planned:
    """A run before it begins: queued.json."""

    label: str
    config: dict[str, Any]
    version: int = VERSION


@dataclasses.dataclass(frozen=True, kw_only=True)
class Begun(Planned, Process):
    """A run when it begins: config.json."""

    id: str
    seeds: tuple[int, ...]
    corpus: CorpusRecord
    tokenizer: Vocabulary = Vocabulary()
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of the users' files that its encodings and its task come from, by path."""
    parent: Parent | None = None
    advice: tuple[str, ...] = ()  # of earlier releases
    command: str = ""  # what reproduces it
    started: str = ""  # UTC, ISO 8601
    devices: tuple[Device, ...] = ()  # all in turn, of a run that went on on another


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Result(Begun):
    """The record of a finished run: result.json, and a line of runs.jsonl."""

    rows: tuple[Row, ...]
    train: Training
    curves: tuple[Curve, ...] = ()
    baselines: tuple[Baseline, ...] = ()  # of tasks whose samples are drawn
    metrics: dict[str, UsersMetric] = dataclasses.field(default_factory=dict)
    """Users' metrics of the rows, by their names there, path/to/file.py:NAME."""
    targets: dict[str, int] = dataclasses.field(default_factory=dict)  # scored tokens, by metric
    target_bytes: dict[str, dict[int, int]] = dataclasses.field(default_factory=dict)
    """Bytes of the scored tokens, by metric and length."""
    document_bytes: dict[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    """Bytes of the scored tokens of each document that has any, by metric."""
    parameters: Parameters | None = None
    seconds: Seconds | None = None
    peak_memory_mib: float | None = None
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of each program's final training state, by its seeds, as in "0-1-2"."""
    asked: str = ""  # digest of the evaluation and the files that were asked for
    rates: tuple[Tried, ...] = ()  # those that were tried, where `train.rates` names several
    scored: CorpusRecord | None = None  # the text that was scored; None: that of training
    scored_by: tuple[Process, ...] = ()  # of earlier releases
    converted: str = ""  # how a record of an earlier schema was brought into this one

    @property
    def diverged(self) -> dict[int, int]:
        """{seed: step at which it diverged}, without the seeds that did not. Places and samples are
        scores of one seed.
        """
        return {
            row.replica.number if row.replica.kind == "seed" else self.seeds[0]: row.at
            for row in self.rows
            if row.reason is Reason.DIVERGED and row.at is not None
        }

    def __repr__(self) -> str:
        size = f", {self.parameters.total:,} parameters" if self.parameters else ""
        return (
            f"Result {self.id}: {self.label}{size}, trained at length {self.train.length}, "
            f"seeds {few(self.seeds)}, {len(self.rows)} scores"
        )


def few(items: Sequence[Any]) -> str:
    """The items with commas; of more than eight the first two, the last and how many."""
    if len(items) > 8:
        return f"{items[0]}, {items[1]}, ..., {items[-1]} ({len(items)})"
    return ", ".join(map(str, items))


class Stage(enum.Enum):
    """How far a run has come."""

    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    DONE = "done"


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """How a run stands: state.json. RUNNING, and nobody holds its lock: its process was killed."""

    stage: Stage
    since: str  # UTC, ISO 8601
    reason: str = ""  # why it was stopped or has failed; done: which of its seeds diverged
