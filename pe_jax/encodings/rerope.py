"""Rectified RoPE: no distance above a window (Su, 2023; kexue.fm/archives/9708).

RoPE at distance min(i - j, w). Nothing is learned. Beyond the training length L no pair meets an
angle that was not seen, whatever the length, and all keys further than w differ by content
alone. Below L it is not RoPE where w < L; the author measures little loss from that at w = L / 4,
and here w is half of L. His code also sharpens the logits by the length: `rerope+log_n`.
"""

import dataclasses

from pe_jax.encodings.rotary import Remapped
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class ReRoPE(Remapped):
    """q and k rotated by their distance, but by no more than `window`."""

    window: Count | None = None
    """w. None: half the training length."""

    @property
    def _window(self):
        return self.window or max(1, self.dims.train_len // 2)
