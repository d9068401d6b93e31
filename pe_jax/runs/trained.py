"""A trained model of one seed, from the folder of its run, finished or not."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from pe_jax.data import tokenizer
from pe_jax.encoding import Encoding
from pe_jax.model import generate
from pe_jax.reason import divergence
from pe_jax.record import Begun, Row
from pe_jax.runs import folder as folders
from pe_jax.runs import layout
from pe_jax.runs.again import evaluate_again
from pe_jax.runs.run import Run
from pe_jax.spec.swap import swap
from pe_jax.storage import records
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.training.step import State, init, structure


@dataclasses.dataclass(frozen=True)
class Trained:
    """The model of one seed of a run: nnx.merge(graphdef, params) is its LM.

    >>> model = Trained.of("runs/mine/rope-1a2b3c4d")
    >>> model.evaluate(lengths=(64, 4096))
    >>> model.logits(model.encode("def f("))
    """

    folder: Path
    run: Run
    seed: int
    step: int
    """How many training steps its checkpoint had behind it."""
    graphdef: nnx.GraphDef
    params: Any
    """The tree of parameters, without the axis of seeds."""
    tokenizer: tokenizer.Tokenizer

    @classmethod
    def of(
        cls,
        folder: str | Path,
        seed: int | None = None,
        warn: Callable[[str], None] = lambda message: None,
    ) -> Trained:
        """From the newest whole checkpoint of the run in `folder`, or in its only subfolder; of a
        seed that diverged, the newest from before. `seed` None: the first of its seeds. `warn` is
        told of checkpoints that are damaged, which are set aside, and of a seed that diverged.

        ValueError or Refused if there is no such run, seed or checkpoint.
        """
        folder, begun = find_run(Path(folder))
        folders.check_sources(folder, begun)
        run = Run.of(begun.config)
        groups = (*folders.groups(folder, run), *layout.trained_groups(folder))
        every = sorted({seed for group in groups for seed in group})
        seed = run.run.seeds[0] if seed is None else seed
        group = next((seeds for seeds in groups if seed in seeds), None)
        if group is None:
            known = ", ".join(map(str, every))
            raise ValueError(f"{folder} has no model of seed {seed}; its seeds are {known}")
        step, state = _restored(folder, run, group, seed, warn)
        params = jax.tree.map(lambda a: a[group.index(seed)], state["params"])
        graphdef, _ = structure(run.lm, run.encodings)
        tokens = tokenizer.kept(folder, begun.tokenizer)
        return cls(folder, run, seed, step, graphdef, params, tokens)

    def encode(self, text: str | bytes) -> Int[np.ndarray, "L"]:
        """The ids of the tokens of a text, int32; `tokenizer.decode` gives the bytes of ids."""
        data = text.encode() if isinstance(text, str) else text
        (tokens,) = self.tokenizer.encode([np.frombuffer(data, np.uint8)])
        return tokens.astype(np.int32)

    def logits(self, tokens: ArrayLike, swap: str = "") -> Float[np.ndarray, "..."]:
        """float32 [L, V] of tokens [L], or [B, L, V] of [B, L]: those of the token after each.

        `swap` is a spec that takes the place of encodings, as in eval.swaps. Random positions are
        those of evaluation. ValueError if the encodings cannot serve L positions.
        """
        tokens = np.asarray(tokens, np.int32)
        rows = tokens.reshape(-1, tokens.shape[-1])
        length = rows.shape[1]
        encodings = tuple(e.at(length) for e in self.encodings(swap))
        limit = min((n for e in encodings if (n := e.limit()) is not None), default=length)
        if limit < length:
            raise ValueError(f"{self.run.label} serves {limit} positions, got {length} tokens")
        logits = _logits(self.params, rows, graphdef=self.graphdef, encodings=encodings)
        return np.asarray(logits).reshape(*tokens.shape, -1)

    def stream(
        self,
        prompt: str | bytes,
        tokens: int,
        sampling: generate.Sampling = generate.Sampling(),  # noqa: B008
        seed: int = 0,
        swap: str = "",
    ) -> Iterator[Int[np.ndarray, "T"]]:
        """The ids of the `tokens` tokens that follow the prompt, piece by piece as they are
        decoded. See model/generate.py.
        """
        start = self.encode(prompt)[None]
        pieces = generate.generate(
            self.graphdef, self.params, self.encodings(swap), start, tokens, sampling, seed
        )
        return (piece[0] for piece in pieces)

    def generate(self, prompt: str | bytes, tokens: int, **options: Any) -> str:
        """The text of the tokens that follow the prompt; options as in `stream`. Bytes that are no
        UTF-8 become U+FFFD.
        """
        ids = np.concatenate([*self.stream(prompt, tokens, **options)])
        return self.tokenizer.decode(ids).decode("utf-8", errors="replace")

    def evaluate(self, **changes: Any) -> tuple[Row, ...]:
        """The scores of this seed, with these fields of section `eval` changed, as in
        evaluate(lengths=(64, 4096), swaps=()). What is not known yet is computed, and kept in the
        run's folder. ValueError or Refused unless the run has finished.
        """
        return evaluate_again(self.folder, changes, seeds=(self.seed,)).rows

    def encodings(self, swapped_in: str = "") -> tuple[Encoding, ...]:
        """Its encodings, or those with a spec swapped in."""
        return swap(self.run.encodings, swapped_in) if swapped_in else self.run.encodings


def _restored(
    folder: Path, run: Run, group: tuple[int, ...], seed: int, warn: Callable[[str], None]
) -> tuple[int, State]:
    """(step, training state) of the newest whole checkpoint of the program of `group` from before
    `seed` diverged. ValueError if there is none.
    """
    path = layout.checkpoints(folder, group)
    like = jax.eval_shape(lambda: init(run.lm, run.encodings, run.train, group))
    if not (path.is_dir() and (newest := Checkpoints(path).restore(like, warn))):
        raise ValueError(f"{folder} has no checkpoint of seed {seed} yet: train it first")
    step, state, _ = newest
    if (end := int(state["diverged"][group.index(seed)])) < 0:
        return step, state
    told = divergence({seed: end})
    if not (before := Checkpoints(path).restore(like, warn, before=end)):
        raise ValueError(f"{folder} has no model: {told}, and no checkpoint is from before")
    step, state, _ = before
    warn(f"{told}: this is its model after {step} steps, the newest checkpoint from before")
    return step, state


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"))
def _logits(params, tokens, *, graphdef: nnx.GraphDef, encodings: tuple[Encoding, ...]):
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(np.arange(len(tokens)))
    model = nnx.merge(graphdef, params, copy=True)
    return model(tokens, encodings=encodings, key=keys)[0]


def find_run(folder: Path) -> tuple[Path, Begun]:
    """The folder of the run, which is `folder` or its only subfolder, or with several train.rates
    that of the chosen one, and its config.json. ValueError if there is no run, or several.
    """
    folder = layout.of_one_rate(folder)
    if begun := records.read(Begun, folder / "config.json"):
        return folder, begun
    runs = sorted(
        {path.parent for name in ("config", "result") for path in folder.glob(f"*/{name}.json")}
    )
    if len(runs) == 1:
        return find_run(runs[0])
    if not runs:
        raise ValueError(f"no run in {folder}: it has no config.json, nor has a folder in it")
    names = ", ".join(path.name for path in runs)
    raise ValueError(f"{folder} holds {len(runs)} runs: give one of {names} in it")
