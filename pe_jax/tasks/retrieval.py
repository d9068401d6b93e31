"""Tasks that retrieve a token of the sequence: each scored prediction is a token that stands
earlier, and the method `_sources` says where.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pe_jax.task import Task


@dataclasses.dataclass(frozen=True)
class Retrieval(Task):
    """A task whose targets stand in the sequence; a subclass overrides `sample` and `_sources`."""

    def _sources(self, tokens: Sequence[int]) -> Mapping[int, int]:
        """For each scored place, the place of the token to be predicted there."""
        raise NotImplementedError

    def oracle(self, tokens: Sequence[int]):
        sources = self._sources(tokens)
        return [tokens[sources[at]] if at in sources else None for at in range(len(tokens))]

    def depths(self, tokens: Sequence[int]):
        sources = self._sources(tokens)
        return [sources[at] / at if at in sources else None for at in range(len(tokens))]
