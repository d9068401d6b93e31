"""Shifted absolute positions, SHAPE: pos + k, k ~ U{0, .., K}, in training (Kiyono et al., 2021;
arXiv:2109.05644).

The other encoding meets every shift of a text. Nothing is learned, and nothing is shifted in
evaluation. Beyond the training length, positions up to L + K were seen. The paper's K is 500 for
translation, tens of tokens long; None is 8 times the training length. One draw a step serves the
batch; the paper draws for each sequence: per_sequence=True.
"""

import dataclasses

import jax

from pe_jax.encoding import Encoding
from pe_jax.fields import Natural


@dataclasses.dataclass(frozen=True)
class SHAPE(Encoding):
    """pos + k in training; compose it with another encoding: shape+sinusoidal."""

    max_shift: Natural | None = None
    """K. None: 8 times the training length."""
    per_sequence: bool = False

    @property
    def _most(self):
        return 8 * self.dims.train_len if self.max_shift is None else self.max_shift

    def highest_position(self):
        return self._most + self.dims.train_len - 1

    def positions(self, tokens, pos, key, train):
        if not train:
            return pos
        return pos + jax.random.randint(self._drawing(key), (), 0, self._most + 1)
