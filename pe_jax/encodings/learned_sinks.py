"""Learned sinks: a logit of each head for attending to nothing (OpenAI, 2025; arXiv:2508.10925,
gpt-oss; formula from Hugging Face's code).

w_ij = e^{s_ij} / (e^{b_h} + sum_t e^{s_it}): one more key, whose value is 0, has the logit b_h
wherever the query is, so that the weights of a query may sum to less than 1. Learned: b, [H] in
each layer, from 0, at which the softmax has the 1 in its denominator that Miller (2023) proposes.
Nothing depends on positions. Beyond the training length the sink has the same logit, and more keys
share what it leaves. `window(sinks=4)` and `streaming` keep the first keys instead.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class LearnedSinks(Encoding):
    """The softmax over the keys and one sink."""

    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        return {"b": jnp.zeros(self.dims.heads)}

    def sink(self, params):
        return params["b"]
