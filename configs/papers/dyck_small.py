"""configs/papers/dyck.py for two cores: 2,000 steps of 64 at a rate of 1e-3, 3 seeds.

pe-jax sweep --config=configs/papers/dyck_small.py --workdir=DIR --jobs=2
"""

from configs.papers import dyck


def get_config(arg="task=dyck,pe=rope"):
    c = dyck.get_config(arg)
    c.train.batch, c.train.steps, c.train.rate = 64, 2000, 1e-3
    c.eval.samples, c.run.seeds = 128, (0, 1, 2)
    return c


def get_sweep():
    for spec in dyck.ENCODINGS:
        yield get_config(f"task=dyck,pe={spec}")
