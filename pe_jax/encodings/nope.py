"""No positional encoding: the causal mask alone tells positions apart.

Haviv et al., 2022 (arXiv:2203.16634); Kazemnejad et al., 2023 (arXiv:2305.19466). Nothing is
learned. Beyond the training length nothing changes but the number of keys among which a softmax
shares its weight.
"""

import dataclasses

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class NoPE(Encoding):
    """The identity at every site."""

    family = None
