"""configs/papers/kazemnejad2023.py for two cores: 3 layers of width 64 with 4 heads, 4,000 steps at
a rate of 2e-3, and 20 symbols to copy and reverse instead of 100, at fewer of its lengths.

    pe-jax sweep --config=configs/papers/kazemnejad2023_small.py --workdir=DIR
"""

from configs.papers import kazemnejad2023


def get_config(arg="task=copy,pe=nope"):
    c = kazemnejad2023.get_config(arg)
    n = c.train.length
    c.lm.layers, c.lm.model, c.lm.heads = 3, 64, 4
    c.lm.dropout, c.lm.tie_embeddings = 0.0, False
    c.train.steps, c.train.rate, c.train.warmup = 4000, 2e-3, 100
    c.eval.lengths = (10, 20, 21, 24, 30, 35, 40) if n == 20 else (4, *range(8, 17))
    c.eval.samples = 128
    if "alphabet" in c.task:
        c.task.alphabet = 20
    return c


def get_sweep():
    return kazemnejad2023.sweep(get_config)
