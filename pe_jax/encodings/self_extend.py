"""Self-Extend: far tokens share positions in groups (Jin et al., 2024; arXiv:2401.01325).

RoPE at distance n = i - j for n < W, and floor(i / G) - floor(j / G) + W - floor(W / G) beyond.
Nothing is learned. Beyond the training length L no angle is new while W + (N - W) / G <= L - 1 for
a text of N tokens; the authors advise between L / 2 and 2 L / 3. By default W is L / 4, G is 1
within L, which is RoPE, and beyond it the smallest integer for which W + (N - W) / G < 2 L / 3.
"""

import dataclasses

from pe_jax.encodings.rotary import Remapped
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class SelfExtend(Remapped):
    """q and k rotated by their distance, from `window` on by that of their groups."""

    window: Count | None = None
    """W. None: a quarter of the training length."""
    group: Count | None = None
    """G, the tokens of a group. None: what each evaluated length needs."""

    def __post_init__(self):
        super().__post_init__()
        if self.group is None and self._room <= 0:
            raise ValueError(
                "self_extend's window must be below two thirds of the training length, "
                f"{self.dims.train_len}, unless its group is given, got {self._window}"
            )

    @property
    def _window(self):
        return self.window or max(1, self.dims.train_len // 4)

    @property
    def _room(self):  # three times the distances from W to two thirds of L
        return max(4, 2 * self.dims.train_len) - 3 * self._window

    def at(self, length):
        if self.group is not None:
            return self
        needed = 3 * (length - self._window) // self._room + 1
        return dataclasses.replace(self, group=needed if length > self.dims.train_len else 1)

    def far(self, q_pos, k_pos):
        return q_pos[:, None] - k_pos[None] >= self._window

    def far_positions(self, q_pos, k_pos):
        W, G = self._window, self.group or 1
        return q_pos // G + W - W // G, k_pos // G
