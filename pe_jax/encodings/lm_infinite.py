"""LM-Infinite: a window, the first keys, and no distance above the window's (Han et al., 2023;
arXiv:2308.16137).

A query sees the last `window` keys and the first `sinks`, which are at distance min(i - j, window):
RoPE below that, so that no angle is new beyond the training length, which is the window by default.
Nothing is learned. `window(sinks=10)` hides the same keys and leaves the distances of the first
ones as they are. The authors take 10 to 100 first tokens; 10 here.

They also let a few middle layers look up the keys of the largest products among those hidden, for
retrieval; that is not part of this.
"""

import dataclasses
from typing import final

import jax.numpy as jnp

from pe_jax.encodings.remapped import Remapped
from pe_jax.fields import Count, Natural


@final
@dataclasses.dataclass(frozen=True)
class LMInfinite(Remapped):
    """q and k of a window and of the first keys, rotated by no more than `window`."""

    window: Count | None = None
    """None: the training length."""
    sinks: Natural = 10
    """The first keys of the sequence, which every later query sees."""

    @property
    def _window(self):
        return self.dims.train_len if self.window is None else self.window

    def reach(self):
        return self._window, self.sinks

    def far(self, q_pos, k_pos):
        return q_pos[:, None] - k_pos[None] > self._window

    def far_positions(self, q_pos, k_pos):
        return jnp.full_like(q_pos, self._window), jnp.zeros_like(k_pos)
