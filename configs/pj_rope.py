"""Table 10 of PJ-RoPE (arXiv:2606.05345, 2026) at its size and with its data: bytes of Tiny
Shakespeare, 2 layers of width 96, trained at 1,024 bytes, evaluated at up to 8,192.

    PE_JAX_CORPORA=DIR pe-jax sweep --config=configs/pj_rope.py --workdir=DIR
    pe-jax report --workdir=DIR --out=results/pj_rope --reference=results/reference/pj_rope.csv

The text is `$PE_JAX_CORPORA/tiny_shakespeare/input.txt`, 1,115,394 bytes. The first nine tenths are
the training text, as in the paper. Setting from ybzhang-nxu/Poincare_Rope,
experiments/byte_lm_smoke.py, commit 514da7e, and its defaults: AdamW at a constant rate of 3e-3,
batches of 32 random windows, 4 heads, LayerNorm, biases, an exact GELU, a hidden size of 192, no
dropout, no clipping. What the paper calls ALiBi is LINE: learned slopes of -s d / L, with s = 2
initially. ALiBi's published slopes are 256, 64, 16 and 4 in that unit here, so `alibi` and
`rope+alibi` are also run.

What differs from the published setting:

- The number of steps, 300, is the default of their script; we could not read the table's number.
- Their table has 2 seeds; here 3.
- They score 256 random windows of the last tenth at each length. Here 40,960 bytes of the last
  twentieth are cut into windows (metric nonoverlapping), and the twentieth before is for
  validation.
- They initialise matrices by PyTorch's default, U(-1, 1) / sqrt(inputs), and decay every parameter.
  Here matrices have a normal initialisation with three times that variance (0.75 times for the two
  of a layer that add to the residual stream), only they are decayed, and the output matrix has no
  bias.

The baseline is a bigram model: the counts of the first nine tenths, 0.01 added to each, have 2.488
nats a byte on the last tenth, 2.502 on the last twentieth and 2.490 on the scored part of it. Adam
moves a parameter by about the rate a step, so in 300 steps s stays below 3, and slopes of 3 / L
hardly distinguish near keys. So the 2.490 to 2.498 nats of the paper's four columns other than RoPE
are those of a bigram model.

The swaps ntk and yarn(variant='paper') are their NTK and YaRN + affine, reported at 32,768.
jordan_rope and damped RoPE, jordan_rope(shear=False), are not in the paper.
"""

from pe_jax.configs import base

LENGTH = 1024
LINE = "pj_bias(jets=False,lightcone=False)"
ENCODINGS = (
    "pj_bias",
    "pj_bias(jets=False)",
    LINE,
    f"rope+{LINE}",
    "rope",
    "alibi",
    "rope+alibi",
    "jordan_rope",
    "jordan_rope(shear=False)",
)


def get_config(arg="pe=rope"):
    c = base.get_config(arg)
    c.data.source = "files:$PE_JAX_CORPORA/tiny_shakespeare/input.txt"
    c.lm.layers, c.lm.model, c.lm.heads, c.lm.mlp = 2, 96, 4, 192
    c.lm.norm, c.lm.norm_eps, c.lm.activation, c.lm.biases = "layer", 1e-5, "gelu_erf", "all"
    c.train.length, c.train.batch, c.train.steps = LENGTH, 32, 300
    c.train.rate, c.train.final, c.train.warmup = 3e-3, 1.0, 0
    c.train.decay, c.train.beta2, c.train.clip = 1e-4, 0.999, 1e9
    c.eval.lengths = tuple(LENGTH * 2**power for power in range(4))
    c.eval.targets = 40960
    scaled = "rope" in c.pe  # a member of that id
    c.eval.swaps = ("ntk", "yarn(variant='paper')") if scaled else ()
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
