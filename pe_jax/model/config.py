"""The shape of the language model, and the names that its knobs may take."""

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
    """The shape of the model; configs/base.py has a comment on each knob."""

    vocab: int = 256
    layers: int = 2
    model: int = 64
    heads: int = 4
    mlp: int | None = None
    """Hidden size of the MLP; None: 4 * model."""
    activation: str = "gelu"
    norm: str = "rms"
    dropout: float = 0.0
    dtype: str = "float32"
    """Of activations; parameters, logits and the softmax are float32."""
    attention: str = "auto"
    tie_embeddings: bool = False
    causal: bool = True
    embed_std: float = 1.0
    """Of the token embeddings: at unit scale a sinusoid does not drown them."""
    memory: int = 0
    """Hidden states of each layer that training keeps of the segments before (memory.py)."""

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
