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


def read(
    data: DataConfig,
    train: TrainConfig,
    evaluation: EvalConfig,
    seed: int,
    init_from: InitFrom | None,
) -> Text:
    """The texts of a run on text. Refused if one of them is too short."""
    try:
        corpus = load(data.source, data.data_dir)
        seen = corpus if train.steps else None  # else nothing is trained on any of it
        tokens = tokenizer.tokenize(corpus, data.tokenizer, seen)
        if init_from:
            init_from.check_tokens(tokens.tokenizer)
        if train.steps:  # ValueError if the text is shorter than a batch
            batches.Batches(tokens.splits["train"], train.length, train.batch, seed)
        scored = tokens
        if evaluation.source:
            other = load(evaluation.source, data.data_dir)
            scored = _in_tokens(other, tokens.tokenizer, seen, evaluation)
        return Text(tokens, scored, _windows(scored, evaluation))
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error


def read_scored(
    data: DataConfig,
    train: TrainConfig,
    evaluation: EvalConfig,
    tokens_of: tokenizer.Tokenizer,
    trained_on: str,
) -> Text:
    """The text that is scored, in the tokens of training; Refused if it is too short. Its overlap
    with the training text, whose hash is `trained_on`, is measured if that is there.
    """
    try:
        corpus = load(evaluation.source or data.source, data.data_dir)
        seen = corpus
        if evaluation.source:
            seen = _unchanged(data, trained_on)
        scored = _in_tokens(corpus, tokens_of, seen if train.steps else None, evaluation)
        return Text(scored, scored, _windows(scored, evaluation))
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error


def of_samples(task: Task, section: dict[str, Any]) -> Text:
    """The text of a task that draws its samples: none, with a hash of the task."""
    identity = canonical([section, contract.sources(section["name"])])
    tokens = tokenizer.no_text(tasks.described(section), identity, task.vocab())
    return Text(tokens, tokens, {})


def _in_tokens(
    corpus: Corpus, tokens_of: tokenizer.Tokenizer, seen: Corpus | None, evaluation: EvalConfig
) -> tokenizer.Tokens:
    compared = SPLITS if evaluation.source and evaluation.split == "all" else HELD_OUT
    return tokenizer.cut(corpus, tokens_of, seen, compared)


def _windows(text: tokenizer.Tokens, evaluation: EvalConfig) -> dict[tuple[str, int], Windows]:
    splits = SPLITS if evaluation.split == "all" else (evaluation.split,)
    documents = [document for split in splits for document in text.splits[split]]
    return cuts_of(documents, evaluation, text.tokenizer)


def _unchanged(data: DataConfig, hash: str) -> Corpus | None:
    # the text of training, unless it is gone or has changed since
    try:
        corpus = load(data.source, data.data_dir)
    except (ValueError, OSError):
        return None
    return corpus if corpus.hash == hash else None
