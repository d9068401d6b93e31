"""What is asked of a pretrained model: which text, lengths and swaps, and what they are scored on.

Of text, the scored tokens are those of the metric same_targets: the last ones before places that
are spread over all documents, the same at every length and with every swap. Of passkeys
(evaluation/passkeys.py), every place is a number hidden at a depth of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pe_jax import record
from pe_jax.compose.parse import parse, sources
from pe_jax.data import tokenizer
from pe_jax.data.corpus import SPLITS
from pe_jax.data.load import load
from pe_jax.evaluation import passkeys
from pe_jax.evaluation.by_place import Score, of_text
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Pass, plan
from pe_jax.evaluation.passkeys import Passkeys
from pe_jax.evaluation.windows import windows
from pe_jax.pretrained.load import Pretrained
from pe_jax.runs import checks
from pe_jax.runs.run import run_id
from pe_jax.storage.hashes import sha256
from pe_jax.tasks.passkey import FILLER, INTRODUCTION, NEEDLE, QUESTION
from pe_jax.training.session import Session

PASSKEY = "passkey"
"""The source that is no text: numbers hidden in filler text."""


class Extension(NamedTuple):
    """What is asked of a pretrained model."""

    model: Pretrained
    source: str
    """The text, as data.source names it, or PASSKEY."""
    eval: EvalConfig
    """Resolved. `targets` over `last` are the places."""
    passes: tuple[Pass, ...]
    """The model as it is and with each swap, at each length."""

    @classmethod
    def of(
        cls,
        model: Pretrained,
        source: str,
        lengths: Sequence[int],
        swaps: Sequence[str],
        places: int,
        last: int,
    ) -> Extension:
        """ValueError for lengths and swaps that are not possible with the model."""
        checks.users_hooks(parse(model.spec), swaps, model.members[0].dims, model.lm)
        last = 1 if source == PASSKEY else last
        asked = EvalConfig(
            lengths=tuple(lengths),
            swaps=tuple(swaps),
            targets=places * last,
            last=last,
            batch_tokens=1,  # one window at a time
        )
        metric = "exact_match" if source == PASSKEY else "same_targets"
        config = dataclasses.replace(asked.resolved(model.length), metrics=(metric,))
        return cls(model, source, config, plan(model.members, config))

    @property
    def metric(self) -> str:
        """The one that is computed."""
        return self.eval.metrics[0]

    @property
    def places(self) -> int:
        """How many places are scored."""
        return self.eval.targets // (self.eval.last or 1)

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 by name of each file of the model and of the user's own swaps."""
        return self.model.files | sources(*self.eval.swaps)

    def folder(self, workdir: Path) -> Path:
        """The folder of these scores: more lengths within the longest, or more swaps of the
        package, are scored beside those that are there.
        """
        fixed = [self.files, self.source, self.places, self.eval.last, max(self.eval.lengths)]
        return workdir / run_id(self.model.name, {"extend": fixed, "weights": self.model.weights})

    def material(self) -> Material:
        """ValueError or OSError where the text cannot be read or is too short, or a length is too
        short for a passkey.
        """
        return (_passkeys if self.source == PASSKEY else _text)(self)


class Material(NamedTuple):
    """What the model is scored on."""

    about: record.Corpus
    """What records hold of it."""
    scorer: Callable[[Session], Score]
    bytes: dict[int, int]
    """Those of the scored tokens, by length; none of passkeys."""
    depths: np.ndarray | None
    """float [places]: of passkeys, where in the filler each is hidden."""


def _text(asked: Extension) -> Material:
    """The documents of all splits: of none of them it is known that the model was not trained on
    it.
    """
    model = asked.model
    tokens = tokenizer.cut(load(asked.source, ""), model.tokenizer)
    documents = [document for split in SPLITS for document in tokens.splits[split]]
    sizes = model.tokenizer.sizes
    cuts = {
        length: windows(documents, asked.metric, length, asked.eval, sizes)
        for length in asked.eval.lengths
    }
    return Material(
        tokens.about,
        lambda session: of_text(model.graphdef, model.params, cuts, session),
        {length: cut.bytes for length, cut in cuts.items()},
        None,
    )


def _passkeys(asked: Extension) -> Material:
    model, places = asked.model, asked.places
    keys = {length: Passkeys.of(model.tokenizer, length, places) for length in asked.eval.lengths}
    text = (INTRODUCTION + FILLER + NEEDLE + QUESTION).decode()
    return Material(
        record.Corpus(source=PASSKEY, hash=sha256(text)),
        lambda session: passkeys.scorer(model.graphdef, model.params, keys, session),
        {},
        keys[asked.eval.lengths[0]].depths,
    )
