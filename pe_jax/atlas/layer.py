"""The encodings of a spec in one layer of a model, with initial or trained parameters."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from pe_jax.encoding import Dims, Encoding, Params
from pe_jax.model.lm import init_params, noisy
from pe_jax.runs.config import members_of
from pe_jax.specs.parse import Spec, active, parse
from pe_jax.testing import check_members

if TYPE_CHECKING:
    from pe_jax.runs.trained import Trained

DIMS = Dims(model=256, heads=4, head=64, layers=4, train_len=64)
"""The model of encodings without a checkpoint."""
BEYOND = 4
"""The longest length of the figures, in training lengths."""


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """The first layer in which most members of the spec act."""

    name: str
    """The label in tables of results."""
    spec: Spec
    encodings: tuple[Encoding, ...]
    """Those that act in the layer, or on the model's input."""
    params: tuple[Params, ...]
    index: int
    trained: Trained | None = None
    """The model that the parameters are from; None: they are at their initial values."""

    @classmethod
    def of(cls, text: str, dims: Dims = DIMS) -> Layer:
        """A spec before training. ValueError for a spec that no model can have."""
        spec = parse(text)
        encodings = spec.encodings(dims)
        check_members(encodings, np.dtype(np.float32))
        index, members = _chosen(encodings)
        params = []
        for i in members:
            key = jax.random.fold_in(jax.random.key(0), i)
            shared, owned = init_params(encodings[i], key)
            params.append(shared | owned.get(index, {}))
        return cls(str(spec), spec, tuple(encodings[i] for i in members), tuple(params), index)

    @classmethod
    def of_model(cls, model: Trained) -> Layer:
        """The encodings of a trained model."""
        text, fields = members_of(model.run.config["pe"])
        spec, encodings = parse(text).with_fields(fields), model.run.encodings
        index, members = _chosen(encodings)
        lm = nnx.merge(model.graphdef, jax.tree.map(jnp.asarray, model.params))
        params = tuple(lm.params_of(i, index) for i in members)
        acting = tuple(encodings[i] for i in members)
        return cls(model.run.label, spec, acting, params, index, model)

    @property
    def dims(self) -> Dims:
        return self.encodings[0].dims

    @property
    def train_length(self) -> int:
        return self.dims.train_len

    @property
    def longest(self) -> int:
        """The longest length of the figures."""
        return BEYOND * self.train_length

    @property
    def served(self) -> int:
        """The longest length up to `longest` that the encodings can serve."""
        limits = [n for e in self.encodings if (n := e.at(self.longest).limit()) is not None]
        return min([self.longest, *limits])

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        plain = "".join(c if c.isalnum() or c in "-+" else "_" for c in Path(self.name).name)
        return plain.strip("_")

    @property
    def sources(self) -> list[str]:
        """The docstring of each member's file: formula, defaults and paper; without one, the source
        of the class.
        """
        classes = dict.fromkeys(member.cls for member in self.spec)
        return [
            (sys.modules[cls.__module__].__doc__ or inspect.getsource(cls)).strip()
            for cls in classes
        ]

    def noisy(self) -> tuple[Params, ...]:
        """The parameters with noise added, so that none is 0."""
        return tuple(noisy(params, member) for member, params in enumerate(self.params))


# The first layer in which most members act, and their places in the spec.
def _chosen(encodings: tuple[Encoding, ...]) -> tuple[int, list[int]]:
    layers = range(encodings[0].dims.layers)
    acting = [[i for i, e in enumerate(encodings) if active(e, layer)] for layer in layers]
    layer = max(layers, key=lambda layer: len(acting[layer]))
    return layer, acting[layer]
