"""Selective copying as in table 10 of CoPE (Golovneva et al., 2024, arXiv:2405.18719): decoders of
2 layers, width 64, 2 heads, 100,000 steps; 256 data tokens among as many blanks, 16 symbols.

    pe-jax sweep --config=configs/papers/selective_copy.py --workdir=DIR --out=DIR

A sample of K data tokens and B blanks among them has n = 2 K + 1 + B tokens. Models are trained at
B = K and scored at B = K, B = K / 2 (dense) and B = 2 K (sparse), the variants of MapFormer's table
1 (arXiv:2511.19279). The batch of 64 and the rate of 2e-4 are also MapFormer's.
The paper's "absolute" positions are learned here. selective_copy_small.py runs on two cores.
"""

from pe_jax.configs import base

ENCODINGS = ("learned(length={longest})", "rope", "cope", "nope", "alibi", "forget_gate")


def get_config(arg="task=selective_copy,pe=rope"):
    c = base.get_config(arg)
    c.lm.layers, c.lm.model, c.lm.heads = 2, 64, 2
    c.train.curriculum, c.train.batch, c.train.steps = "fixed", 64, 100_000
    c.train.rate, c.train.warmup = 2e-4, 1000
    c.eval.samples, c.eval.swaps = 512, ()
    return among(c, 256)


def among(c, data):
    """The config with this many data tokens, among as many blanks in training."""
    c.task.data, c.task.vocabulary = data, 16
    answered = 2 * data + 1
    c.train.length = answered + data
    c.eval.lengths = (answered + data // 2, answered + data, answered + 2 * data)
    return c


def get_sweep():
    return sweep(get_config)


def sweep(get_config):
    """A config for each encoding, by a function like the one above."""
    longest = max(get_config().eval.lengths)
    for spec in ENCODINGS:
        yield get_config(f"task=selective_copy,pe={spec.format(longest=longest)}")
