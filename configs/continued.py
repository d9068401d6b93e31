"""Continued training of a pretrained model at four times its training length, with and without RoPE
scalings: SmolLM2-135M, or another Llama of 8,192 tokens, at 32,768.

    pe-jax sweep --config=configs/continued.py --config.train.init_from=hf:DIR \
    --config.data.source=files:PATH --workdir=DIR --out=results/continued

For accelerators: activations in bfloat16, layers rematerialised in the backward pass, and one
window of each step on each of four devices (--config.run.mesh=data:8 --config.train.batch=8 for
eight, --config.run.mesh= for one). A single run is

    pe-jax run --config='configs/continued.py:pe=yarn(factor=4.0)' ...

Shape, tokens, RoPE base and the length before scaling come from the model
(runs/completion.py). Every run scores the same targets, up to twice the new length.
"""

from pe_jax.configs import base

LENGTH, FACTOR = 8192, 4
ENCODINGS = ("rope", *(f"{name}(factor={FACTOR:.1f})" for name in ("pi", "ntk", "yarn")))


def get_config(arg=f"pe={ENCODINGS[-1]}"):
    c = base.get_config(arg)
    c.train.init_from = "hf:SmolLM2-135M"
    c.lm.dtype = "bfloat16"
    c.train.length, c.train.batch = FACTOR * LENGTH, 4
    c.train.steps, c.train.steps_per_call, c.train.warmup = 300, 5, 20
    c.train.rate, c.train.beta2 = 1e-4, 0.95
    c.train.remat = True
    c.run.seeds, c.run.mesh = (0,), "data:4"
    c.eval.lengths = tuple(LENGTH * 2**power for power in range(4))
    c.eval.metrics, c.eval.swaps = ("same_targets",), ()
    c.eval.last, c.eval.targets = 1024, 65536
    c.eval.batch_tokens = 65536
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
