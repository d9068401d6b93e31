"""The shape of the language model, and what may be chosen by name in it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from pe_jax.encoding import Dims

ACTIVATIONS = {"gelu": jax.nn.gelu, "relu": jax.nn.relu, "silu": jax.nn.silu}
NORMS = {"rms": nnx.RMSNorm, "layer": nnx.LayerNorm}
DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
ATTENTIONS = ("auto", "dense", "blockwise")


@dataclasses.dataclass(frozen=True)
class LmConfig:
    """The shape of the model. ValueError for a value that makes none."""

    vocab: int = 256
    layers: int = 2
    model: int = 64
    """Size of the residual stream."""
    heads: int = 4
    """Attention heads, of model / heads components each."""
    mlp: int | None = None
    """Hidden size of the MLP; None: 4 * model."""
    activation: str = "gelu"
    """Of the MLP."""
    norm: str = "rms"
    dropout: float = 0.0
    """On the model's input, and on what attention and the MLP of each layer add."""
    dtype: str = "float32"
    """Of activations; parameters, logits and the softmax are float32."""
    attention: str = "auto"
    """auto: dense while the logits fit in memory, else blockwise (attention/choose.py)."""
    tie_embeddings: bool = False
    """Whether the output matrix is that of the token embeddings, scaled."""
    causal: bool = True
    embed_std: float = 1.0
    """Of the token embeddings at the start. At unit scale a sinusoid does not drown them."""
    memory: int = 0
    """Tokens of earlier segments of which each layer keeps its input in training (memory.py)."""

    def __post_init__(self):
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
        for name in ("vocab", "layers", "model", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"lm.{name} must be at least 1, got {getattr(self, name)}")
        if self.model % self.heads:
            raise ValueError(
                f"lm.heads must divide lm.model, got {self.heads} heads for {self.model}; "
                "change one of them"
            )
        if self.memory < 0:
            raise ValueError(f"lm.memory must be at least 0, got {self.memory}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"lm.dropout must be in [0, 1), got {self.dropout}")

    def dims(self, train_len: int) -> Dims:
        """What encodings may know of this model."""
        head = self.model // self.heads
        return Dims(self.model, self.heads, head, self.layers, train_len, self.vocab, self.causal)
