"""The query-LM of Jordan-RoPE (Zhang, 2026, arXiv:2605.04217): the sign of a sum of earlier bits
with weights d cos(w d), so that forgetting far tokens loses. Trained at 1,024 tokens, evaluated at
up to 8,192.

    pe-jax sweep --config=configs/papers/query_kernel.py --workdir=DIR

Setting from ybzhang-nxu/jordan_rope, configs/kernel_lm.yaml, commit bc6fffa: 3 layers of width
128, 4 heads, RMSNorm, a hidden size of 256, tied embeddings, no biases; 1,200 steps of 24 at a
constant 5e-4, weight decay 0.01, 3 seeds. They score 32 samples at each length; here 512. Damped
RoPE and their stabilised Jordan-RoPE begin with a decay of 0.1 in 1,024 tokens, whose parameter
hardly moves in their runs (encodings/jordan_rope.py). Their matrices have PyTorch's initialisation,
and every parameter is decayed. Their direct sum of RoPE and a shear is not implemented here.
"""

from pe_jax.configs import base

ENCODINGS = (
    "jordan_rope(c=0.1,bounded=True)",
    "jordan_rope(c=0.1,shear=False)",
    "jordan_rope",
    "rope",
    "alibi",
    "rope+alibi",
    "nope",
)


def get_config(arg="task=query_kernel,pe=rope"):
    c = base.get_config(arg)
    c.lm.layers, c.lm.model, c.lm.heads, c.lm.mlp = 3, 128, 4, 256
    c.lm.activation, c.lm.tie_embeddings = "gelu_erf", True
    c.train.length, c.train.curriculum = 1024, "fixed"
    c.train.batch, c.train.steps, c.train.warmup = 24, 1200, 0
    c.train.rate, c.train.final, c.train.decay, c.train.beta2 = 5e-4, 1.0, 0.01, 0.999
    c.eval.lengths, c.eval.samples, c.eval.swaps = (1024, 2048, 4096, 8192), 512, ()
    c.eval.metrics = ("accuracy",)
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"task=query_kernel,pe={spec}")
