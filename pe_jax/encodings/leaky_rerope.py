"""Leaky ReRoPE: beyond a window distances grow slower (Su, 2023; kexue.fm/archives/9708).

RoPE at distance n = i - j up to w, and w + (n - w) / k beyond. Nothing is learned. For each
evaluated length N k is (N - 1 - w) / (L - 1 - w): the largest distance is that of the training
length L, and within L this is RoPE. k = 1 is RoPE, and a large k is near `rerope`.
"""

import dataclasses

from pe_jax.encodings.rotary import Remapped
from pe_jax.fields import AtLeastOne, Count


@dataclasses.dataclass(frozen=True)
class LeakyReRoPE(Remapped):
    """q and k rotated by their distance, which grows slower beyond `window`."""

    window: Count | None = None
    """w. None: half the training length."""
    factor: AtLeastOne | None = None
    """k. None: what each evaluated length needs."""

    def __post_init__(self):
        super().__post_init__()
        most = self.dims.train_len - 1
        if self.factor is None and self.window is not None and self.window >= most:
            raise ValueError(
                f"leaky_rerope's window must be below {most}, the largest distance in training, "
                f"unless its factor is given, got {self.window}"
            )

    @property
    def _window(self):
        return self.window or max(1, self.dims.train_len // 2)

    def at(self, length):
        if self.factor is not None:
            return self
        beyond, room = (n - 1 - self._window for n in (length, self.dims.train_len))
        return dataclasses.replace(self, factor=max(1.0, beyond / max(1, room)))

    def far_positions(self, q_pos, k_pos):
        w, k = self._window, self.factor or 1.0
        return w + (q_pos - w) / k, k_pos / k
