"""Tasks of the Chomsky hierarchy (Deletang et al., 2022, arXiv:2207.02098) with the encodings of
table 2 of DAPE (Zheng et al., 2024, arXiv:2405.14722), in its setting: encoders of 5 layers, width
256, 8 heads, trained for 200,000 steps at lengths 1 .. 40, scored at lengths up to 500.

    pe-jax sweep --config=configs/papers/chomsky.py --workdir=DIR --out=DIR

The table's "relative" is Transformer-XL's. Positions of its first four columns are drawn at random
below 2048, as in Ruoss et al., 2023 (arXiv:2305.16843). chomsky_small.py runs on two cores.
"""

from pe_jax.configs import base

TASKS = (
    "even_pairs",
    "modular_arithmetic",
    "parity_check",
    "cycle_navigation",
    "stack_manipulation",
    "reverse_string",
    "modular_arithmetic_brackets",
    "solve_equation",
    "duplicate_string",
    "missing_duplicate_string",
    "odds_first",
    "binary_addition",
    "compute_sqrt",
    "bucket_sort",
)
ENCODINGS = (
    "randomized(max=2048)+learned(length=2048)",
    "randomized(max=2048)+sinusoidal",
    "randomized(max=2048)+rope",
    "randomized(max=2048)+transformer_xl",
    "alibi",
    "kerple_log",
    "fire",
    "dape(prior='alibi')",
)


def get_config(arg="task=reverse_string,pe=rope"):
    c = base.get_config(arg)
    c.lm.causal = False
    c.lm.layers, c.lm.model, c.lm.heads = 5, 256, 8
    c.train.length, c.train.batch, c.train.steps = 40, 128, 200_000
    c.train.rate, c.train.warmup = 1e-4, 1000
    c.eval.lengths = (20, 40, *range(41, 501, 17))
    c.eval.samples, c.eval.swaps = 512, ()
    return c


def get_sweep():
    for task in TASKS:
        for spec in ENCODINGS:
            yield get_config(f"task={task},pe={spec}")
