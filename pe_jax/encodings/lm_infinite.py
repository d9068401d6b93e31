"""LM-Infinite: a window, the first keys, and no distance above the window's (Han et al., 2023;
arXiv:2308.16137).

A query sees the last `window` keys and the first `sinks`, which are at distance min(i - j, window):
RoPE below that. The window is the training length L by default: no angle but that of the distance L
is new. Nothing is learned. `window(sinks=10)` hides the same keys and leaves the distances of the
first ones as they are. The authors take 10 to 100 first tokens; 10 here.

They also let a few middle layers look up the keys of the largest products among those hidden, for
retrieval; that is not part of this.
"""

import dataclasses

from pe_jax.encodings.rotary import Remapped
from pe_jax.fields import Count, Natural


@dataclasses.dataclass(frozen=True)
class LMInfinite(Remapped):
    """q and k of a window and of the first keys, rotated by no more than `window`."""

    window: Count | None = None
    """None: the training length."""
    sinks: Natural = 10
    """The first keys of the sequence, which every later query sees."""

    @property
    def _window(self):
        return self.window or self.dims.train_len

    def reach(self):
        return self._window, self.sinks
