"""STRING: far keys at distances that training saw often (An et al., 2024; arXiv:2410.18745).

RoPE at distance n = i - j below S, and n - S + W from S on. Nothing is learned. A training length L
has L - n pairs at distance n, so the longest distances are seen least; the shift leaves them out.
Up to a text of L + S - W tokens no distance is above L - 1, beyond it slow pairs reach angles that
were never seen. It is meant for texts of up to L, where it is not RoPE.

S is L / 3, as the authors advise. Their W is 128 at L = 131,072; None is that, or S / 2 where 128
is more. Their code for Llama also multiplies queries and keys by 0.1 ln 2 + 1, which is not here.
"""

import dataclasses

from pe_jax.encodings.rotary import Remapped
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class String(Remapped):
    """q and k rotated by their distance, from `shift` on by `shift - window` less."""

    shift: Count | None = None
    """S. None: a third of the training length."""
    window: Count | None = None
    """W; above S, far keys move away. None: 128, and at most half of S."""

    @property
    def _sizes(self) -> tuple[int, int]:
        shift = self.shift or max(1, self.dims.train_len // 3)
        return shift, self.window or min(128, max(1, shift // 2))

    def far(self, q_pos, k_pos):
        return q_pos[:, None] - k_pos[None] >= self._sizes[0]

    def far_positions(self, q_pos, k_pos):
        shift, window = self._sizes
        return q_pos - shift + window, k_pos
