"""The best-known encodings at 10 M parameters, for one accelerator: trained at 512 bytes in
bfloat16, three seeds in one program, evaluated at up to 16,384.

    pe-jax sweep --config=configs/encodings_gpu.py --workdir=DIR \
    --out=results/encodings_gpu

Text as in configs/encodings.py.

results/accelerators has the memory of a step of the three seeds on a TPU v5e (16 GiB). Layers are
rematerialised: with fused attention a step then needs 0.6 times the memory and moves at most 4 %
more bytes, and CoPE's step would not fit otherwise. Heads have 64 components.
"""

from configs import encodings

ENCODINGS = (
    "transformer_xl",
    "t5",
    "alibi",
    "kerple_log",
    "fire",
    "cope",
    "forget_gate",
    "rope",
    "rope[::4]+rope[1::4]+rope[2::4]",  # NoPE in every fourth layer
    "p_rope",
    "xpos",
    "randomized+rope",
    "sinusoidal",
    "nope",
)


def get_config(arg="pe=rope"):
    c = encodings.get_config(arg)
    c.lm.layers = 8
    c.lm.model = 320
    c.lm.heads = 5
    c.lm.dtype = "bfloat16"
    c.train.length = 512
    c.train.batch = 64
    c.train.steps = 4000
    c.train.rate = 1e-3
    c.train.warmup = 200
    c.train.remat = True
    c.eval.lengths = (512, 1024, 2048, 4096, 8192, 16384)
    c.eval.targets = 65536
    c.eval.batch_tokens = 65536
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
