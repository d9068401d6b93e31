"""T5's relative buckets: logits + b[h, bucket(i - j)] (Raffel et al., 2020; arXiv:1910.10683).

bucket(n) is exact up to buckets / 2, then logarithmic up to max_distance (geometry.log_bucket).
Learned: b, [H, buckets], one table for all layers (per_layer=("table",) for one each). Beyond
max_distance every key falls into the last bucket.

T5's max_distance is 128. With 32 buckets the last one begins at 113, so a model trained at 64 would
meet buckets at evaluation that it never trained: the default, None, is min(128, train_len), or one
more than the exact buckets if that is more. T5's code does not divide its logits by sqrt(K), but
starts from queries that are smaller by that factor: the same model, so there is no variant for it.
"""

import dataclasses
import math

import jax

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, NotNegative
from pe_jax.geometry import log_bucket


@dataclasses.dataclass(frozen=True)
class T5(Encoding):
    """b[h, bucket(i - j)]."""

    buckets: Count = 32
    max_distance: Count | None = None
    """None: min(128, the training length), but above the exact buckets."""
    std: NotNegative = 0.02
    """Of the table at first."""

    def __post_init__(self):
        side = self._per_side
        if side < 2 or side % 2:
            raise ValueError(
                f"T5 needs an even number of buckets a side, got {side}; change buckets"
            )
        if self._max_distance <= side // 2:
            raise ValueError(
                f"T5's max_distance must exceed its {side // 2} exact buckets, "
                f"got {self._max_distance}; raise max_distance or lower buckets"
            )

    @property
    def _max_distance(self):
        exact = self._per_side // 2
        return self.max_distance or max(exact + 1, min(128, self.dims.train_len))

    @property
    def _per_side(self):
        return self.buckets if self.dims.causal else self.buckets // 2

    def constant_from(self):
        """The distance at which the last bucket begins: one step before max_distance, of the
        side - exact equal steps on a logarithmic scale from exact to max_distance.
        """
        side, most = self._per_side, self._max_distance
        exact = side // 2
        begins = most * (exact / most) ** (1 / (side - exact))
        return math.ceil(begins - 1e-6)  # a whole number may come out as a little more

    def trained_from(self):
        return self.constant_from() + 1

    def init(self, key):
        return {"table": self.std * jax.random.normal(key, (self.dims.heads, self.buckets))}

    def relative_bias(self, params, n):
        return params["table"][:, log_bucket(n, self.buckets, self._max_distance, self.dims.causal)]
