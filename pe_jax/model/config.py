"""The shape of the language model, and what may be chosen by name in it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import msgspec
from flax import nnx

from pe_jax.encoding import Dims
from pe_jax.fields import BelowOne, Count, Natural, NotNegative, Positive, check

ACTIVATIONS = {
    "gelu": jax.nn.gelu,  # by its formula with a tanh
    "gelu_erf": functools.partial(jax.nn.gelu, approximate=False),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}
NORMS = {"rms": nnx.RMSNorm, "layer": nnx.LayerNorm}
DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
ATTENTIONS = ("auto", "dense", "blockwise")


@dataclasses.dataclass(frozen=True)
class LmConfig:
    """The shape of the model. ValueError for a value that makes none."""

    vocab: Count = 256
    layers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 2
    """At most 1,000, since a program is traced layer by layer."""
    model: Count = 64
    """Size of the residual stream."""
    heads: Count = 4
    """Attention heads."""
    head: Count | None = None
    """Components of a head; None: model / heads."""
    kv_heads: Count | None = None
    """Heads of keys and values, each for as many heads of queries; None: one for each."""
    mlp: Count | None = None
    """Hidden size of the MLP; None: 4 * model."""
    activation: str = "gelu"
    """Of the MLP."""
    gated: bool = False
    """Whether a second matrix multiplies what the activation gives: SwiGLU, with silu."""
    parallel: bool = False
    """Whether attention and MLP of a layer read the same x, and not one what the other adds to."""
    biases: Literal["", "qkv", "all"] = ""
    """Matrices that add a bias: none, those of queries, keys and values, or all of a layer."""
    norm: str = "rms"
    norm_eps: Positive | None = None
    """Added to the variance by norms; None: 1e-6."""
    qk_norm: bool = False
    """Whether the components of each query and key are normalised, before any encoding."""
    dropout: BelowOne = 0.0
    """On the model's input, and on what attention and the MLP of each layer add."""
    dtype: str = "float32"
    """Of activations; parameters, logits and the softmax are float32."""
    attention: str = "auto"
    """auto: dense while the logits fit in memory, else blockwise (attention/choose.py)."""
    tie_embeddings: bool = False
    """Whether the output matrix is that of the token embeddings, scaled."""
    causal: bool = True
    embed_std: NotNegative = 1.0
    """Of the token embeddings at the start. At unit scale a sinusoid does not drown them."""
    memory: Natural = 0
    """Tokens of earlier segments of which each layer keeps its input in training (memory.py)."""

    def __post_init__(self):
        check(self, "lm.")
        for name, known in (
            ("activation", ACTIVATIONS),
            ("norm", NORMS),
            ("dtype", DTYPES),
            ("attention", ATTENTIONS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"lm.{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}"
                )
        if self.head is None and self.model % self.heads:
            raise ValueError(
                f"lm.heads must divide lm.model, got {self.heads} heads for {self.model}; "
                "change one of them, or set lm.head"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"lm.kv_heads must divide lm.heads, got {self.kv_heads} for {self.heads} heads"
            )

    def dims(self, train_len: int) -> Dims:
        """What encodings may know of this model."""
        head = self.head or self.model // self.heads
        return Dims(self.model, self.heads, head, self.layers, train_len, self.vocab, self.causal)

    def make_norm(self, size: int, rngs: nnx.Rngs) -> nnx.Module:
        """A norm of vectors of that size."""
        eps = self.norm_eps or 1e-6
        return NORMS[self.norm](size, epsilon=eps, dtype=DTYPES[self.dtype], rngs=rngs)
