"""Flip-flop language modelling with 512 tokens, trained with 80 % of the instructions ignored and
scored at 80 %, 98 % (sparse) and 10 % (dense), as in table 1 of PaTH (Yang et al., 2025,
arXiv:2505.16381). The model is PaTH's: one layer, width 64, 2 heads.

    pe-jax sweep --config=configs/papers/flip_flop.py --workdir=DIR --out=DIR

Steps, batch and rate come from table 7 of CoPE (Golovneva et al., 2024, arXiv:2405.18719), whose
models have 2 or 4 layers of width 128 or 256: 10,000 steps of 16 at 3e-4.
Scores are right bits in %; the papers report errors in %. flip_flop_small.py runs on two cores.
"""

from pe_jax.configs import base

ENCODINGS = ("path", "rope", "stick_breaking", "forget_gate", "cope", "learned", "nope", "alibi")


def get_config(arg="task=flip_flop,pe=rope"):
    c = base.get_config(arg)
    c.task.ignore = 0.8
    c.lm.layers, c.lm.model, c.lm.heads = 1, 64, 2
    c.train.length, c.train.curriculum = 512, "fixed"
    c.train.batch, c.train.steps, c.train.rate, c.train.warmup = 16, 10_000, 3e-4, 100
    c.eval.lengths, c.eval.samples, c.eval.swaps = (512,), 512, ()
    c.eval.variants = ("ignore=0.98", "ignore=0.1")
    c.eval.metrics = ("accuracy",)
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"task=flip_flop,pe={spec}")
