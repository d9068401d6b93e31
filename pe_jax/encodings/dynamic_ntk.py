"""Dynamic NTK scaling: NTK-aware scaling whose base grows with the text (emozilla, 2023; formula
in Peng et al., 2023; arXiv:2309.00071).

base' = base (f l / L - (f - 1))^(r / (r - 2)) for a text of l > L tokens, and RoPE's base up to the
training length L; r are the components that turn, by default all K. With f = 1 this is `ntk`. With
f = 2, the default here, the base grows faster with the length; there is no published default.
Nothing is learned.

All tokens of a text get the base of its whole length. In Hugging Face's code keys that are already
cached keep the base of the length at which they came, so that decoding differs from a full pass;
here the cache keeps keys before their rotation, and both agree.
"""

import dataclasses

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import AtLeastOne, Count
from pe_jax.geometry import stretched_timescales


@dataclasses.dataclass(frozen=True)
class DynamicNTK(Rotary):
    """q and k rotated by their positions, slow pairs by less the longer the text is."""

    factor: AtLeastOne = 2.0
    """f, which is not L' / L."""
    length: Count | None = None
    """L, at which RoPE was trained. None: the training length."""
    served: Count | None = None
    """l. None: the length of the text."""

    def at(self, length):
        return self if self.served is not None else dataclasses.replace(self, served=length)

    def _frequencies(self):
        L = self.length or self.dims.train_len
        longer = max(1.0, (self.served or self.dims.train_len) / L)
        scale = self.factor * longer - (self.factor - 1)
        return stretched_timescales(self._size, self.base, scale)
