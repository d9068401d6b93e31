"""Copy, reverse, addition and parity with the encodings of Kazemnejad et al. (2023,
arXiv:2305.19466), in their setting: decoders of 12 layers, width 768, 12 heads, 40,000 steps of 64.

    pe-jax sweep --config=configs/papers/kazemnejad2023.py --workdir=DIR --out=DIR

Copy and reverse are trained to 20 symbols and scored at each of 21 .. 40, addition (without a
scratchpad) to 8 digits and at 9 .. 16, parity to 20 bits and at 21 .. 40. Samples are scored by
exact match. In the authors' code "APE" is sinusoidal, and "Rotary" rotates a quarter of each head.
What differs: their models read English words around symbols, their rate decays linearly, and their
shortest samples of copy and reverse have 2 symbols. kazemnejad2023_small.py runs on two cores.
"""

from pe_jax.configs import base

TASKS = (
    ("copy", {"variant": "cmc"}),
    ("copy", {"variant": "rsc"}),
    ("reverse", {"variant": "mc"}),
    ("addition", {}),
    ("parity", {}),
)
ENCODINGS = ("nope", "t5", "alibi", "partial_rope", "sinusoidal")


def get_config(arg="task=copy,pe=nope"):
    c = base.get_config(arg)
    n = 8 if c.task.name == "addition" else 20  # the training length
    c.lm.layers, c.lm.model, c.lm.heads = 12, 768, 12
    c.lm.activation, c.lm.dropout, c.lm.tie_embeddings = "relu", 0.1, True
    c.train.length, c.train.batch, c.train.steps = n, 64, 40_000
    c.train.rate, c.train.warmup, c.train.decay = 3e-5, 2400, 0.05
    c.train.final, c.train.beta2 = 0.0, 0.999
    c.eval.lengths = (n // 2, *range(n, 2 * n + 1))
    c.eval.samples, c.eval.swaps = 512, ()
    c.eval.metrics = ("exact_match", "accuracy")
    return c


def sweep(get_config):
    """The configs of all tasks and encodings, by a function like the one above."""
    for name, fields in TASKS:
        for spec in ENCODINGS:
            c = get_config(f"task={name},pe={spec}")
            c.task.update(fields)
            yield c


def get_sweep():
    return sweep(get_config)
