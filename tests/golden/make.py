"""Makes vectors.npz: what implementations on PyPI compute, for tests/encodings/test_golden.py.

In an environment with the pinned packages below, which the project itself does not need:

    pip install torch==2.13.0 transformers==5.23.0 x-transformers==2.31.10
    python tests/golden/make.py

Every entry is NAME/ARRAY, inputs and parameters beside what comes out, float32. Nothing of pe_jax
is imported. Axes: L tokens, H heads, K head size, D model size.
"""

import importlib.metadata
from pathlib import Path

import numpy as np
import torch
import x_transformers.x_transformers as x_transformers
from transformers import (
    BloomConfig,
    DebertaV2Config,
    GPTNeoXConfig,
    LlamaConfig,
    Swinv2Config,
    T5Config,
    Wav2Vec2BertConfig,
    XLNetConfig,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention
from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
from transformers.models.llama import modeling_llama as llama
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention
from transformers.models.xlnet.modeling_xlnet import XLNetModel, XLNetRelativeAttention

PINNED = {"torch": "2.13.0", "transformers": "5.23.0", "x-transformers": "2.31.10"}
L, H, K = 20, 3, 8
D = H * K
RNG = np.random.default_rng(0)
MADE = {}


def draw(*shape, scale=1.0):
    return (scale * RNG.normal(size=shape)).astype(np.float32)


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def keep(name, **arrays):
    for key, value in arrays.items():
        value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        MADE[f"{name}/{key}"] = value.astype(np.float32)


def by_head(array):
    """[L, H, K] -> [1, H, L, K]"""
    return tensor(array).permute(1, 0, 2)[None]


def t5(name, causal):
    config = T5Config(d_model=D, d_kv=K, num_heads=H, is_decoder=causal)
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    table = draw(H, 32)
    layer.relative_attention_bias.weight.data = tensor(table.T)
    keep(name, table=table, bias=layer.compute_bias(150, 150)[0])


def alibi(heads):
    config = BloomConfig(hidden_size=heads * K, n_head=heads)
    made = build_alibi_tensor(torch.ones(1, L, dtype=torch.int64), config.n_head, torch.float32)
    keep(f"alibi_{heads}", by_key=made[:, 0])


def rotary(name, module, embedding, config):
    """Positions that are not consecutive, up to a few thousand."""
    q, k = draw(L, H, K), draw(L, H, K)
    pos = np.sort(RNG.permutation(4000)[:L])
    cos, sin = embedding(config)(tensor(q), tensor(pos)[None])
    turned = module.apply_rotary_pos_emb(by_head(q), by_head(k), cos, sin)
    rows = {key: value[0].permute(1, 0, 2) for key, value in zip("qk", turned, strict=True)}
    keep(name, q=q, k=k, pos=pos, turned_q=rows["q"], turned_k=rows["k"])


def xlnet():
    config = XLNetConfig(d_model=D, n_head=H, n_layer=1, d_inner=D, attn_type="uni", dropout=0.0)
    model, layer = XLNetModel(config), XLNetRelativeAttention(config)
    q, k, v = draw(L, H, K), draw(L, H, K), draw(L, H, K)
    r, content, position = draw(D, H, K, scale=D**-0.5), draw(H, K), draw(H, K)
    layer.r_w_bias.data, layer.r_r_bias.data = tensor(content), tensor(position)
    layer.r_s_bias.data = torch.zeros(H, K)
    encoded = model.relative_positional_encoding(L, L, bsz=1)
    keys = torch.einsum("ibh,hnd->ibnd", encoded, tensor(r))
    mask = torch.triu(torch.ones(L, L), 1)[:, :, None, None]
    batched = (tensor(a)[:, None] for a in (q, k, v))
    out = layer.rel_attn_core(*batched, keys, attn_mask=mask)
    keep("xlnet", q=q, k=k, v=v, r=r, u=content, v_bias=position, out=out[:, 0])


def deberta(name, buckets, most):
    config = DebertaV2Config(
        hidden_size=D,
        num_attention_heads=H,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=buckets,
        max_relative_positions=most,
        share_att_key=False,
        hidden_dropout_prob=0.0,
    )
    layer = DisentangledSelfAttention(config).eval()
    span = buckets if buckets > 0 else most
    table, query, key = draw(2 * span, D), draw(D, H, K, scale=0.2), draw(D, H, K, scale=0.2)
    for linear, weight in ((layer.pos_query_proj, query), (layer.pos_key_proj, key)):
        linear.weight.data = tensor(weight.reshape(D, H * K).T)
        linear.bias.data = torch.zeros(H * K)
    q, k = draw(L, H, K), draw(L, H, K)
    heads = by_head(q)[0], by_head(k)[0]
    added = layer.disentangled_attention_bias(*heads, None, tensor(table), 3)
    scores = heads[0] @ heads[1].transpose(1, 2) / (3 * K) ** 0.5 + added
    keep(name, q=q, k=k, table=table, query=query, key=key, scores=scores)


def shaw(left, right):
    """The key side alone: these models have no relative values."""
    config = Wav2Vec2BertConfig(
        hidden_size=D,
        num_attention_heads=H,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=left,
        right_max_position_embeddings=right,
        attention_dropout=0.0,
    )
    config._attn_implementation = "eager"
    layer = Wav2Vec2BertSelfAttention(config).eval()
    x, weights = draw(L, D), [draw(D, D, scale=D**-0.5) for _ in range(3)]
    table = draw(left + right + 1, K)
    layer.distance_embedding.weight.data = tensor(table)
    layers = (layer.linear_q, layer.linear_k, layer.linear_v)
    for linear, weight in zip(layers, weights, strict=True):
        linear.weight.data, linear.bias.data = tensor(weight.T), torch.zeros(D)
    layer.linear_out.weight.data, layer.linear_out.bias.data = torch.eye(D), torch.zeros(D)
    out, _ = layer(tensor(x)[None])
    q, k, v = ((x @ weight).reshape(L, H, K) for weight in weights)
    # Row 0 is the key furthest after the query here.
    keep("shaw", q=q, k=k, v=v, table=table[::-1], out=out[0].reshape(L, H, K))


def cope(positions):
    layer = x_transformers.CoPE(K, H, positions)
    table, q, k = draw(positions, K), draw(L, H, K), draw(L, H, K)
    layer.pos_emb.data = tensor(table)
    logits = by_head(q) @ by_head(k).transpose(2, 3)
    hidden = torch.triu(torch.ones(L, L, dtype=torch.bool), 1)
    logits = logits.masked_fill(hidden, -torch.finfo(torch.float32).max)
    added = layer(by_head(q), logits).masked_fill(hidden, 0.0)
    keep("cope", q=q, k=k, table=table, added=added[0])


def xpos(base):
    """Dot products: pairs are neighbours there, so queries and keys are interleaved on entry."""
    layer = x_transformers.RotaryEmbedding(K, use_xpos=True, scale_base=base)
    q, k = draw(L, H, K), draw(L, H, K)
    angle, scale = layer.forward_from_seq_len(L)

    def neighbours(a):
        return by_head(a.reshape(L, H, 2, K // 2).swapaxes(2, 3).reshape(L, H, K))

    turned_q = x_transformers.apply_rotary_pos_emb(neighbours(q), angle, scale)
    turned_k = x_transformers.apply_rotary_pos_emb(neighbours(k), angle, scale**-1)
    keep("xpos", q=q, k=k, base=base, products=(turned_q @ turned_k.transpose(2, 3))[0])


def forget_gate():
    layer = x_transformers.DataDependentAlibi(D, H)
    x, weight, bias = draw(L, D), draw(D, H, scale=0.2), draw(H)
    layer.to_forget_gates[0].weight.data = tensor(weight.T)
    layer.to_forget_gates[0].bias.data = tensor(bias)
    keep("forget_gate", x=x, w=weight, b=bias, bias=layer(tensor(x)[None])[0])


def pope():
    """Phases beyond -2 pi .. 0 too, which it clamps. The attention is PyTorch's."""
    layer = x_transformers.PolarEmbedding(K, H)
    q, k, v, delta = draw(L, H, K), draw(L, H, K), draw(L, H, K), draw(H, K, scale=2.0) - 3
    layer.learned_bias.data = tensor(delta)[:, None]
    angle, phase = layer(torch.arange(L))
    turned_q = x_transformers.apply_polar_pos_emb(by_head(q), angle)
    turned_k = x_transformers.apply_polar_pos_emb(by_head(k), angle + phase)
    attend = torch.nn.functional.scaled_dot_product_attention
    out = attend(turned_q, turned_k, by_head(v), is_causal=True, scale=K**-0.5)
    keep("pope", q=q, k=k, v=v, delta=delta, out=out[0].permute(1, 0, 2))


def swin_v2(window, width):
    """Weights over the rows of a window, of zero queries and keys: the bias, blind to columns."""
    config = Swinv2Config(attention_probs_dropout_prob=0.0)
    layer = Swinv2SelfAttention(config, D, H, window).eval()
    for linear in (layer.query, layer.key):
        linear.weight.data.zero_()
    layer.query.bias.data.zero_()
    first, _, last = layer.continuous_position_bias_mlp
    w1, b1, w2 = draw(1, width), draw(width), draw(width, H, scale=width**-0.5)
    first.weight.data = tensor(np.concatenate([w1, 0 * w1]).T)
    first.bias.data, last.weight.data = tensor(b1), tensor(w2.T)
    _, weights = layer(torch.zeros(1, window**2, D), output_attentions=True)
    weights = weights.reshape(H, *[window] * 4)[:, :, 0].sum(-1)
    keep("swin_v2", w1=w1, b1=b1, w2=w2, weights=weights)


def t5_attention():
    config = T5Config(d_model=D, d_kv=K, num_heads=H)
    config._attn_implementation = "eager"
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    x, table, weights = draw(L, D), draw(H, 32), [draw(D, D, scale=D**-0.5) for _ in range(3)]
    for linear, weight in zip((layer.q, layer.k, layer.v), weights, strict=True):
        linear.weight.data = tensor(weight.T)
    layer.relative_attention_bias.weight.data = tensor(table.T)
    layer.o.weight.data = torch.eye(D)
    out = layer(tensor(x)[None])[0]
    q, k, v = ((x @ weight).reshape(L, H, K) for weight in weights)
    keep("t5_attention", q=q, k=k, v=v, table=table, out=out[0].reshape(L, H, K))


def scaling(name, served, original, base=10000.0, **fields):
    """The frequencies, and the factor of cosines and sines, for a text of `served` tokens."""
    kind = "linear" if name == "pi" else name
    config = LlamaConfig(
        hidden_size=2 * 128,
        num_attention_heads=2,
        max_position_embeddings=original,
        rope_parameters={
            "rope_type": kind,
            "rope_theta": base,
            "original_max_position_embeddings": original,
            **fields,
        },
    )
    w, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=served)
    keep(f"scaling_{name}_{served}", frequencies=w, factor=factor)


def scalings():
    scaling("pi", 16384, 4096, factor=4.0)
    for served in (4096, 5000, 65536):
        scaling("dynamic", served, 4096, factor=2.0)
    scaling("yarn", 65536, 4096, factor=16.0)
    scaling("yarn", 512, 64, factor=8.0, beta_fast=4.0, beta_slow=0.5)
    scaling("llama3", 65536, 8192, 5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
    long, short = ((1 + most * np.linspace(0, 1, 64)).tolist() for most in (60, 0.5))
    for served in (4096, 131072):
        scaling("longrope", served, 4096, factor=32.0, long_factor=long, short_factor=short)


def relative_projection(distances):
    layer = x_transformers.RelativeProjPositionalBias(D, H, 4, distances)
    x, weight, bias, bank = draw(L, D), draw(D, H, 4, scale=0.2), draw(H, 4), draw(4, distances)
    linear = layer.to_distance_weights[0]
    linear.weight.data, linear.bias.data = tensor(weight.reshape(D, -1).T), tensor(bias.ravel())
    layer.distance_bank.data = tensor(bank)
    keep("relative_projection", x=x, w=weight, c=bias, bank=bank, bias=layer(tensor(x)[None])[0])


def main():
    found = {name: importlib.metadata.version(name).split("+")[0] for name in PINNED}
    if found != PINNED:
        raise SystemExit(f"vectors are made with {PINNED}, found {found}")
    t5("t5_causal", True)
    t5("t5_bidirectional", False)
    for heads in (3, 4, 12):
        alibi(heads)
    sizes = {"hidden_size": D, "num_attention_heads": H, "max_position_embeddings": 4096}
    rotary("llama", llama, llama.LlamaRotaryEmbedding, LlamaConfig(**sizes))
    part = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    neox = GPTNeoXConfig(**sizes, rope_parameters=part)
    rotary("gpt_neox_half", gpt_neox, gpt_neox.GPTNeoXRotaryEmbedding, neox)
    xlnet()
    deberta("deberta_log", 6, 12)
    deberta("deberta_linear", -1, 8)
    shaw(4, 4)
    cope(7)
    xpos(16)
    forget_gate()
    pope()
    swin_v2(5, 16)
    t5_attention()
    scalings()
    relative_projection(12)
    np.savez_compressed(Path(__file__).with_name("vectors.npz"), **MADE)
    print(f"{len(MADE)} arrays, {', '.join(f'{k} {v}' for k, v in found.items())}")


with torch.no_grad():
    main()
