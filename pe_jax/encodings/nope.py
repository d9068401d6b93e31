"""No positional encoding: the causal mask alone tells positions apart.

Haviv et al., 2022 (arXiv:2203.16634); Kazemnejad et al., 2023 (arXiv:2305.19466). Nothing is
learned. Beyond the training length only the number of keys in the softmax changes.
"""

import dataclasses

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class NoPE(Encoding):
    """The identity at every site."""

    family = None
