"""Does a flat curve of bits per byte mean that a model uses its context? The quickstart's encodings
are trained on two retrieval tasks at up to 64 tokens and scored at up to 768 (12 times), by length
and by depth.

    pe-jax sweep --config=configs/retrieval.py --workdir=runs/retrieval --jobs=2

Compared with the same encodings on text:

    pe-jax report --workdir=runs/retrieval --workdir=results/quickstart
"""

from pe_jax.configs import base
from pe_jax.configs.quickstart import ENCODINGS

TASKS = ("induction", "mqar")


def get_config(arg="task=induction,pe=rope"):
    c = base.get_config(arg)
    c.lm.layers, c.lm.model, c.lm.heads = 2, 64, 4
    c.train.length, c.train.batch, c.train.steps = 64, 64, 3000
    c.train.rate, c.train.warmup = 2e-3, 100
    c.eval.lengths, c.eval.samples = (32, 64, 96, 128, 192, 256, 384, 512, 768), 256
    c.eval.swaps, c.eval.metrics = (), ("accuracy",)
    if c.task.name == "mqar":
        c.task.vocabulary = 64
    return c


def get_sweep():
    for task in TASKS:
        for spec in ENCODINGS:
            yield get_config(f"task={task},pe={spec}")
