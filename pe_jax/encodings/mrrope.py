"""MrRoPE: RoPE read as digits of several bases, each scaled by its own factor (Tian et
al., 2026; arXiv:2601.22181).

w'_i = w_i s^(-g(q) / g(n)), s = L' / L, q = i - l held within 0 .. n, n = h - l. l is the pair that
turns beta = 32 times within the training length L, rounded down, and h the one that turns alpha = 1
times, rounded up, as in YaRN's code: up to l pairs stay as they are, from h on they are slowed s
times. g(q) = q (q + 1) slows pairs between at first by little ("pro"); g(q) = q evenly ("uni").
YaRN, which divides by a line from 1 to s, slows fast ones more. g(q) = q (3 n^2 + 3 n + 1 - q^2)
("tail") slows fast ones more than evenly: TailSpline (2026; code and formula of
misaya-yang/hybrid-rope). The logits are multiplied by YaRN's 1 / t. Nothing is learned. Beyond the
training length the slow pairs meet no new angle.

By the authors' code, mattian7/mrRoPE, which is undefined at n = 0: n is at least 1 here.
"""

import dataclasses
from typing import Literal

import jax.numpy as jnp

from pe_jax.encodings.scaled import ByParts


@dataclasses.dataclass(frozen=True)
class MrRoPE(ByParts):
    """q and k rotated by their positions, slow pairs by positions / factor; sharper logits."""

    variant: Literal["pro", "uni", "tail"] = "pro"

    def _frequencies(self):
        first, last = self._ends()
        n = max(1, last - first)
        q = jnp.clip(jnp.arange(self._size // 2) - first, 0, n).astype(jnp.float32)
        parts = {"uni": q / n, "pro": q * (q + 1) / (n * (n + 1))}
        parts["tail"] = q * (3 * n * n + 3 * n + 1 - q * q) / (n * (n + 1) * (2 * n + 1))
        return super()._frequencies() * self._factor ** -parts[self.variant]
