"""Masked language modelling on text (Devlin et al., 2019, arXiv:1810.04805), and masked diffusion
(Sahoo et al., 2024, arXiv:2406.07524; Nie et al., 2025, arXiv:2502.09992): hidden tokens are
predicted from both sides. The model is not causal.

A window of length n has n tokens, and a hidden one is read as the last id of the model's
vocabulary. The rate is the share of the tokens that are hidden, each by a draw of its own. The loss
is the mean of -ln p over the hidden tokens, at least one. A token that stands before every text
(`Tokenizer.bos`) is not read. A pretrained encoder reads its own [MASK], and [CLS] and [SEP] in the
place of the first and the last token of a window, which are never hidden (lm.special).

With rate="uniform" the rate t of each window is drawn from (0, 1], and the loss is the sum of
-ln p over the hidden tokens, divided by t and by n. Its mean over t bounds -ln p of the text from
above, in nats a token, as a causal model's loss is -ln p itself.

BERT hides 15 %; of these 10 % are read as another token and 10 % as they are: rate=0.15,
replaced=0.1, kept=0.1. ModernBERT hides 30 % (Warner et al., 2024, arXiv:2412.13663).
"""

import dataclasses
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import msgspec

from pe_jax.fields import Fraction
from pe_jax.task import Sample, Task


@dataclasses.dataclass(frozen=True)
class MaskedText(Task):
    """The hidden tokens of text, from those on both sides."""

    rate: Annotated[float, msgspec.Meta(gt=0, le=1)] | Literal["uniform"] = 0.3
    """The share of the tokens that are hidden; uniform: another one in each window."""
    replaced: Fraction = 0.0
    """The share of the hidden tokens that are read as a token drawn from the whole vocabulary."""
    kept: Fraction = 0.0
    """The share of the hidden tokens that are read as they are."""

    reads_text: ClassVar[bool] = True

    def __post_init__(self):
        read = self.replaced + self.kept
        if read > 1 or (read and self.rate == "uniform"):
            most = (
                "0 with rate='uniform', whose loss is then no bound" if read <= 1 else "at most 1"
            )
            raise ValueError(f"MaskedText's replaced + kept must be {most}, got {read:g}")

    @property
    def metrics(self):
        if self.rate == "uniform":
            return ("diffusion_bound",)
        return ("masked_tokens", "first_choices")

    def masks(self):
        return True

    def vocab(self):
        return 257  # bytes and the hidden token; the tokenizer may have more

    def cut(self, window, key, vocab):
        targets, mask = window[1:], vocab - 1
        for_rate, for_each, for_kind, for_other = jax.random.split(key, 4)
        drawn = jax.random.uniform(for_each, targets.shape)
        if self.rate == "uniform":
            rate = 1 - jax.random.uniform(for_rate)
            return Sample(jnp.where(drawn < rate, mask, targets), targets, (drawn < rate) / rate)
        hidden = (drawn < self.rate) | (drawn == drawn.min())
        kind = jax.random.uniform(for_kind, targets.shape)
        other = jax.random.randint(for_other, targets.shape, 0, mask)
        read = jnp.where(kind < self.replaced, other, mask)
        read = jnp.where(kind >= 1 - self.kept, targets, read)
        return Sample(jnp.where(hidden, read, targets), targets, hidden)
