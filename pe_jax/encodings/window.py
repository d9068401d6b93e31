"""Sliding-window attention: a query sees the last `window` keys and the first `sinks`.

Beltagy et al., 2020 (arXiv:2004.05150); sinks: Xiao et al., 2023 (arXiv:2309.17453), without their
re-assignment of positions inside the cache. Nothing is learned. Beyond the training length a query
sees no more keys than within it. Swapped in at evaluation on a trained checkpoint, it gives the
line `window` of the tables: how the model does where no layer looks further back than in training.
"""

import dataclasses

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Natural


@dataclasses.dataclass(frozen=True)
class Window(Encoding):
    """Hides keys at distance >= window, the first `sinks` excepted."""

    window: Count | None = None
    """None: the training length."""
    sinks: Natural = 0
    """The first keys of the sequence, which every later query sees."""

    def reach(self):
        return self.window or self.dims.train_len, self.sinks
