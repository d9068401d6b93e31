"""The parameters of an encoding, drawn: those that all layers share, and those of each layer."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Key

from pe_jax.compose.parse import layers_of
from pe_jax.encoding import Encoding, Params, acts_once, overrides


def init_params(encoding: Encoding, key: Key[Array, ""]) -> tuple[Params, dict[int, Params]]:
    """(entries that layers share, {layer: entries that it owns}), for the layers in which it acts.

    The entries are those of the encoding's `init`. ValueError if `per_layer` names what is not
    among them, or if the encoding acts once, on the model's input, where no layer can own anything.
    """
    shared = encoding.init(key)
    owned = _owned(encoding, shared)
    layers = sorted(layers_of(encoding)) if owned else []
    draws = {layer: encoding.init(jax.random.fold_in(key, layer + 1)) for layer in layers}
    return (
        {name: value for name, value in shared.items() if name not in owned},
        {layer: {name: draw[name] for name in sorted(owned)} for layer, draw in draws.items()},
    )


def _owned(encoding: Encoding, drawn: Params) -> set[str]:
    """The names of `drawn` that each layer owns. ValueError as of init_params."""
    owned = set(drawn) if encoding.per_layer == ("*",) else set(encoding.per_layer)
    if unknown := sorted(owned - set(drawn)):
        raise ValueError(
            f"{type(encoding).__name__}.per_layer names {', '.join(unknown)}; "
            f"its parameters are {', '.join(drawn) or 'none'}"
        )
    if owned and acts_once(encoding) and overrides(encoding, "embed"):
        raise ValueError(
            f"{type(encoding).__name__} acts once, on the model's input, so no layer can own "
            f"{', '.join(sorted(owned))}; give it where='layers' to act on the input of every layer"
        )
    return owned


def sizes(encoding: Encoding) -> dict[str, int]:
    """How many numbers a whole model has for each entry of its parameters, by tracing alone.
    ValueError as of init_params.
    """
    drawn = jax.eval_shape(encoding.init, jax.random.key(0))
    owned = _owned(encoding, drawn)
    layers = len(layers_of(encoding)) if owned else 1
    return {name: a.size * (layers if name in owned else 1) for name, a in drawn.items()}


def learned(encoding: Encoding) -> int:
    """How many numbers a whole model learns for it: those that are drawn and not fixed."""
    return sum(n for name, n in sizes(encoding).items() if name not in encoding.fixed)


def noisy(params: Params, seed: int) -> Params:
    """The parameters with noise added, normal with a deviation of 0.3: some are drawn so that they
    have no effect, which would hide what a probe looks for.
    """
    rng = np.random.default_rng(seed)
    return {
        name: a + (0.3 * rng.normal(size=a.shape)).astype(np.float32) for name, a in params.items()
    }
