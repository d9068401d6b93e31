"""What a page of the atlas is about: the encodings of a spec, with parameters."""

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
from pe_jax.specs import hooks
from pe_jax.specs.parse import Spec, active, parse

if TYPE_CHECKING:
    from pe_jax.runs.trained import Trained

DIMS = Dims(model=256, heads=4, head=64, layers=4, train_len=64)
"""The model that encodings are drawn for where no checkpoint is given."""
BEYOND = 4
"""How many training lengths are shown."""


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """The encodings of a spec in one layer of a model."""

    name: str
    """Its label, as tables of results show it."""
    spec: Spec
    encodings: tuple[Encoding, ...]
    """Those that act in the layer, or on the model's input."""
    params: tuple[Params, ...]
    layer: int
    trained: Trained | None = None
    """The model that the parameters are from; None: they are at their initial values."""

    @classmethod
    def of(cls, text: str, dims: Dims = DIMS) -> Subject:
        """A spec before training. ValueError for a spec that no model can have."""
        spec = parse(text)
        encodings, names = spec.encodings(dims), [member.name for member in spec]
        hooks.check(encodings, names, np.dtype(np.float32))
        layer, here = _chosen(encodings)
        params = [_initial(encodings[i], i, layer) for i in here]
        return cls(str(spec), spec, tuple(encodings[i] for i in here), tuple(params), layer)

    @classmethod
    def of_model(cls, model: Trained) -> Subject:
        """The encodings of a trained model."""
        text, fields = members_of(model.run.config["pe"])
        spec, encodings = parse(text).with_fields(fields), model.run.encodings
        layer, here = _chosen(encodings)
        lm = nnx.merge(model.graphdef, jax.tree.map(jnp.asarray, model.params))
        params = [lm.params_of(i, layer) for i in here]
        kept = tuple(encodings[i] for i in here)
        return cls(model.run.label, spec, kept, tuple(params), layer, model)

    @property
    def dims(self) -> Dims:
        """The model's."""
        return self.encodings[0].dims

    @property
    def length(self) -> int:
        """The training length."""
        return self.dims.train_len

    @property
    def asked(self) -> int:
        """The longest length of the figures."""
        return BEYOND * self.length

    @property
    def served(self) -> int:
        """The longest length up to `asked` that the encodings can serve."""
        limits = [n for e in self.encodings if (n := e.at(self.asked).limit()) is not None]
        return min([self.asked, *limits])

    @property
    def slug(self) -> str:
        """Its name as part of a file's name."""
        plain = "".join(c if c.isalnum() or c in "-+" else "_" for c in Path(self.name).name)
        return plain.strip("_")

    @property
    def sources(self) -> list[str]:
        """The docstring of each member's file: formula, defaults and paper; without one, the class
        as it is written there.
        """
        classes = dict.fromkeys(member.cls for member in self.spec)
        return [
            (sys.modules[cls.__module__].__doc__ or inspect.getsource(cls)).strip()
            for cls in classes
        ]

    def noisy(self) -> tuple[Params, ...]:
        """The parameters with noise added, so that none is 0."""
        return tuple(noisy(own, member) for member, own in enumerate(self.params))


def _chosen(encodings: tuple[Encoding, ...]) -> tuple[int, list[int]]:
    """The first of the layers in which most members act, and their places in the spec."""
    layers = range(encodings[0].dims.layers)
    here = [[i for i, e in enumerate(encodings) if active(e, layer)] for layer in layers]
    layer = max(layers, key=lambda layer: len(here[layer]))
    return layer, here[layer]


def _initial(encoding: Encoding, member: int, layer: int) -> Params:
    shared, owned = init_params(encoding, jax.random.fold_in(jax.random.key(0), member))
    return shared | owned.get(layer, {})
