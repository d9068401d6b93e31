"""The shape of the language model."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import msgspec
from flax import nnx
from jaxtyping import Array, Int

from pe_jax.encoding import Dims
from pe_jax.fields import BelowOne, Count, Natural, NotNegative, Positive, check

ACTIVATIONS = {
    "gelu": jax.nn.gelu,  # by its formula with a tanh
    "gelu_erf": functools.partial(jax.nn.gelu, approximate=False),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}
NORMS = {"rms": nnx.RMSNorm, "layer": nnx.LayerNorm, "sandwich": nnx.RMSNorm, "after": nnx.RMSNorm}
NORMS |= {"embedded": functools.partial(nnx.LayerNorm, use_bias=False)}
DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


@dataclasses.dataclass(frozen=True)
class LmConfig:
    """The shape of the model. ValueError for invalid values."""

    vocab: Count = 256
    """Tokens of text, raised to the tokenizer's. A task that draws samples has its own."""
    layers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 2
    """Layers, at most 1,000: a program is traced layer by layer."""
    model: Count = 64
    """D, the size of the residual stream."""
    heads: Count = 4
    """Attention heads."""
    head: Count | None = None
    """Components of a head; None: model / heads."""
    kv_heads: Count | None = None
    """Heads of keys and values, each shared by as many heads of queries; None: heads."""
    mlp: Count | None = None
    """Hidden size of the MLP; None: 4 * model."""
    activation: Literal["gelu", "gelu_erf", "relu", "silu"] = "gelu"
    """Of the MLP: gelu (by its formula with a tanh), gelu_erf (exact), relu or silu."""
    gated: bool = False
    """Whether a second matrix multiplies the output of the activation: SwiGLU, with silu."""
    parallel: bool = False
    """Whether attention and MLP of a layer read the same input, as in GPT-J."""
    biases: Literal["", "qkv", "all"] = ""
    """Matrices with a bias: none, qkv (queries, keys and values), or all of a layer."""
    norm: Literal["rms", "layer", "sandwich", "after", "embedded"] = "rms"
    """rms or layer, of the inputs of attention and MLP; sandwich: rms of their inputs and outputs
    (Gemma 2 and 3); after: rms of their outputs alone (OLMo 2 and 3); embedded: layer without a
    bias, of the token embeddings instead of the first input of attention (ModernBERT)."""
    norm_eps: Positive | None = None
    """Added to the variance by norms; None: 1e-6."""
    qk_norm: bool | Literal["heads"] = False
    """Whether each query and key is normalised, before any encoding; heads: over all heads at once
    (OLMo 2 and 3)."""
    dropout: BelowOne = 0.0
    """Of the model's input and the outputs of attention and MLP."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of activations, float32 or bfloat16; parameters, logits and the softmax are float32."""
    attention: Literal["auto", "dense", "blockwise", "fused"] = "auto"
    """dense, blockwise, fused (one kernel, for one device and the encodings it serves; on a CPU
    interpreted, for tests), or auto: fused where one TPU or GPU is visible (CUDA_VISIBLE_DEVICES),
    elsewhere dense while the logits fit in memory (attention/choose.py)."""
    tie_embeddings: bool = False
    """Whether the output matrix is the token embeddings, scaled."""
    masked_head: bool = False
    """Whether a dense layer, its activation and a norm stand before the output matrix, and each
    logit has a bias, as in BERT."""
    special: tuple[Natural, ...] = ()
    """Of a pretrained encoder the ids of [MASK], [CLS] and [SEP]; texts are read between the last
    two. (): the last id of the vocabulary is the mask and is never predicted; nothing is put around
    a text."""
    causal: bool = True
    """Whether a query sees no later key; False for a task that hides tokens, as masked_text."""
    embed_std: NotNegative = 1.0
    """Initial standard deviation of the token embeddings. At unit scale a sinusoid does not drown
    them."""
    memory: Natural = 0
    """Segment memory in training (Transformer-XL): earlier tokens whose hidden states each layer
    keeps (model/memory.py)."""

    def __post_init__(self):
        check(self, "lm.")
        if self.tie_embeddings and not self.embed_std:
            raise ValueError("lm.tie_embeddings divides by lm.embed_std, got 0: set it above 0")
        ids = self.special
        if ids and (self.causal or len(ids) != 3 or max(ids) >= self.vocab):
            rule = f"lm.special has three ids below {self.vocab} and is of encoders"
            raise ValueError(f"{rule}, got {self.special}: leave it out")
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
        """The sizes that encodings may read."""
        head = self.head or self.model // self.heads
        return Dims(self.model, self.heads, head, self.layers, train_len, self.vocab, self.causal)

    @property
    def hidden(self) -> tuple[int, int | None]:
        """(the id of a hidden token in the input of an encoder, the end of its logits)."""
        return (self.vocab, None) if self.special else (self.vocab - 1, -1)

    def framed(self, tokens: Int[Array, "B T"]) -> Int[Array, "B L"]:
        """A text as the model reads it: of a pretrained encoder with [MASK], [CLS] and [SEP]."""
        if not self.special:
            return tokens
        mask, *around = self.special
        tokens = jnp.where(tokens == self.vocab, mask, tokens)
        return jnp.pad(tokens, ((0, 0), (1, 1)), constant_values=((0, 0), tuple(around)))

    def make_norm(self, size: int, rngs: nnx.Rngs) -> nnx.Module:
        """A norm of vectors of that size."""
        eps = self.norm_eps or 1e-6
        return NORMS[self.norm](size, epsilon=eps, dtype=DTYPES[self.dtype], rngs=rngs)


def stored(parameter: Any, weights: str) -> Array:
    """A parameter for scoring: a matrix in the dtype `weights`; a vector, as of a norm, in float32,
    since it takes little memory and Gemma adds 1 to its norms.
    """
    return jnp.asarray(parameter, DTYPES["float32" if parameter.ndim == 1 else weights])
