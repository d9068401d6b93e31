"""How a model is trained: the section `train` of a config."""

from __future__ import annotations

import dataclasses
from typing import Literal

import optax

from pe_jax.fields import BelowOne, Count, Fraction, Natural, NotNegative, Positive, check
from pe_jax.model.lm import decayed


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Training by AdamW with a schedule of rates; gradients are clipped seed by seed."""

    steps: Natural = 350
    """Training steps; 0: the model of init_from is scored as it is."""
    length: Count = 64
    """L, the training length: the tokens that a window of text predicts, or the longest n of a
    task's samples."""
    curriculum: Literal["uniform", "fixed"] = "uniform"
    """The lengths n of drawn samples, one length a step: uniform, all up to L; fixed, L alone.
    Windows of text always have L."""
    loss: Literal["scored", "all"] = "scored"
    """Whose predictions the loss of drawn samples counts: of the scored tokens; or of all, each of
    which predicts the next (END after END behind a short answer) unless it has its own target."""
    batch: Count = 32
    """Windows or samples a step, for each seed."""
    rate: Positive = 9e-3
    """The highest learning rate."""
    rates: tuple[Positive, ...] = ()
    """Learning rates to try in place of `rate`, each in a run of its own. The one with the lowest
    validation score at the training length (bits per byte of text, bits per scored token of drawn
    samples) is evaluated; (): rate."""
    warmup: Natural = 50
    """Steps of linear warm-up, cut to steps / 10 if larger; a cosine decay follows."""
    final: Fraction = 0.1
    """What the learning rate falls to, after the last step, as a fraction of the highest."""
    decay: NotNegative = 0.1
    """Weight decay, on the kernels of dense layers and mixers alone."""
    clip: Positive = 1.0
    """The largest global norm of one seed's gradient."""
    beta1: BelowOne = 0.9
    """AdamW's decay of the mean of gradients."""
    beta2: BelowOne = 0.98
    """AdamW's decay of the mean of squared gradients."""
    steps_per_call: Count = 25
    """Steps in one jitted scan; metrics are kept for each call."""
    remat: bool = False
    """Rematerialisation (Chen et al., 2016, arXiv:1604.06174): of each layer the backward pass
    keeps the input, and of fused attention queries, keys, values and outputs; the rest is computed
    again. It takes less memory and more operations; XLA on a CPU undoes it. Results are the same
    but for rounding, so no run's id depends on it."""
    scan: bool = False
    """Whether eight or more consecutive layers in which the encodings act alike are a loop, whose
    program has the code of one layer and compiles faster, at the price of a copy of their
    parameters. Results are the same but for rounding, so no run's id depends on it."""
    init_from: str = ""
    """The model whose parameters training starts from: a finished run, <workdir>/<run id>, or a
    pretrained model, hf:DIR or gguf:PATH; "" is none (runs/init_from.py). A pretrained model also
    gives what section lm and data.tokenizer leave open."""

    def __post_init__(self):
        check(self, "train.")
        if len(set(self.rates)) < len(self.rates):
            raise ValueError(f"train.rates must be different, got {self.rates}")
        if not self.steps and not self.init_from:
            raise ValueError(
                "train.steps=0 trains nothing: name by train.init_from the model that is scored, "
                "or give train.steps"
            )
        if not self.steps and self.rates:
            raise ValueError(
                "train.rates are tried in training, and train.steps=0 trains nothing: leave them "
                "out"
            )

    def rates_by_step(self) -> optax.Schedule:
        """The rate at step 0, 1, ...: linear to `rate`, then by a cosine to `final * rate`."""
        warmup = min(self.warmup, self.steps // 10)
        return optax.warmup_cosine_decay_schedule(
            self.rate / max(1, warmup), self.rate, warmup, self.steps, self.rate * self.final
        )

    def optimizer(self) -> optax.GradientTransformation:
        """Of one seed: clipping, then AdamW."""
        return optax.chain(
            optax.clip_by_global_norm(self.clip),
            optax.adamw(
                self.rates_by_step(), self.beta1, self.beta2, weight_decay=self.decay, mask=decayed
            ),
        )
