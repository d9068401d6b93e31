"""StreamingLLM: a window and the first keys, at the positions that they have in a cache of both
(Xiao et al., 2023; arXiv:2309.17453).

A query sees the last `window` keys and the first `sinks`. Keys of the window are at their
distance, as in RoPE; the first keys are placed as if no key was between: at the distance min(i,
sinks + window - 1) - j. Nothing is learned. Beyond the training length no distance is new, and what
is in neither part cannot be read. `window(sinks=4)` hides the same keys and leaves the distances of
the first ones as they are; `lm_infinite` puts all of them at one distance.

The authors keep 4 first keys, and a cache as long as the training length.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encodings.rotary import Remapped
from pe_jax.fields import Count, Natural


@dataclasses.dataclass(frozen=True)
class Streaming(Remapped):
    """q and k of a window and of the first keys, rotated as if they were next to each other."""

    window: Count | None = None
    """None: the training length without the sinks, at least 1."""
    sinks: Natural = 4
    """The first keys of the sequence, which every later query sees."""
    from_zero = True

    @property
    def _window(self):
        return self.window or max(1, self.dims.train_len - self.sinks)

    @property
    def _last(self):  # the last position whose query sees all keys up to its own
        return self.sinks + self._window - 1

    def reach(self):
        return self._window, self.sinks

    def far(self, q_pos, k_pos):
        return (k_pos < self.sinks)[None] & (q_pos > self._last)[:, None]

    def far_positions(self, q_pos, k_pos):
        return jnp.full_like(q_pos, self._last), k_pos
