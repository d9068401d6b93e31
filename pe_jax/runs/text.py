"""The text of training and the text that is scored, with its windows."""

from __future__ import annotations

from typing import Any, NamedTuple

from pe_jax import contract
from pe_jax.data import batches, tokenizer
from pe_jax.data.corpus import SPLITS, Corpus
from pe_jax.data.load import load
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import cuts_of
from pe_jax.evaluation.windows import Windows
from pe_jax.record import HELD_OUT
from pe_jax.runs.config import DataConfig
from pe_jax.runs.init_from import InitFrom
from pe_jax.storage.hashes import canonical
from pe_jax.task import Task
from pe_jax.tasks import section as tasks
from pe_jax.training.config import TrainConfig


class Text(NamedTuple):
    """The text of training, the text that is scored, and its windows by metric and length; a task
    that draws its samples has none.
    """

    trained: tokenizer.Tokens
    scored: tokenizer.Tokens
    windows: dict[tuple[str, int], Windows]
    sources: dict[str, str] = {}
    """As of `Run.sources`, before it was read."""


def read(
    data: DataConfig,
    train: TrainConfig,
    evaluation: EvalConfig,
    init_from: InitFrom | None,
    trained_on: str = "",
) -> Text:
    """The texts of a run on text. Refused if one of them is too short. `trained_on` is the hash of
    the training text of a finished run: with eval.source that text may be gone, and the overlap
    with it is measured if it is there.
    """
    try:
        corpus = other = load(evaluation.source or data.source, data.data_dir, data.store)
        if evaluation.source and trained_on:
            corpus = _unchanged(data, trained_on)
        elif evaluation.source:
            corpus = load(data.source, data.data_dir, data.store)
        elif trained_on not in ("", corpus.hash):
            raise Refused(
                f"{data.source} has changed since the run was trained on it: name the text that is "
                "to be scored by eval.source"
            )
        seen = corpus if train.steps else None  # else nothing is trained on any of it
        tokens = tokenizer.tokenize(corpus or other, data.tokenizer, seen)
        if init_from:
            init_from.check_tokens(tokens.tokenizer)
        if train.steps and corpus:
            batches.checked(tokens.splits["train"], train.length)
        scored, splits = tokens, SPLITS if evaluation.split == "all" else (evaluation.split,)
        if evaluation.source:
            compared = SPLITS if evaluation.split == "all" else HELD_OUT
            scored = tokenizer.cut(other, tokens.tokenizer, seen, compared)
        windows = cuts_of(scored.documents(splits), evaluation, tokens.tokenizer)
        return Text(tokens, scored, windows)
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error


def of_samples(task: Task, section: dict[str, Any]) -> Text:
    """The text of a task that draws its samples: none, with a hash of the task."""
    identity = canonical([tasks.identity(section), contract.sources(section["name"])])
    tokens = tokenizer.no_text(tasks.described(section), identity, task.vocab())
    return Text(tokens, tokens, {})


def _unchanged(data: DataConfig, hash: str) -> Corpus | None:
    # the text of training, unless it is gone or has changed since
    try:
        corpus = load(data.source, data.data_dir, data.store)
    except (ValueError, OSError):
        return None
    return corpus if corpus.hash == hash else None
