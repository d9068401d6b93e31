"""Which RoPE scaling helps a model beyond its training length, and what does it cost within?

There are two steps; the first prints at its end the folder that the second starts from:

    pe-jax run --config=configs/swaps.py:pe=rope --workdir=DIR
    pe-jax sweep --config=configs/swaps.py --config.train.init_from=DIR/rope-XXXXXXXX --workdir=DIR
    pe-jax report --workdir=DIR --out=results/swaps --reference=results/reference/rerope.csv \
    --reference=results/reference/yarn.csv

The first run is trained for 5,000 steps at 128 tokens and evaluated with fifteen swaps at up to 16
times that length. The others continue it with one scaling each, for a tenth of the steps at 512
tokens, with as many tokens a step. All score the same targets. The text is
`$PE_JAX_CORPORA/novels` if that variable is set, else the standard library.
"""

from configs.encodings import text
from pe_jax.configs import base

LENGTH, FACTOR = 128, 4
SWAPS = (
    "window",
    "window(sinks=4)",
    "pi",
    "ntk",
    "dynamic_ntk",
    "yarn",
    "yarn(variant='paper')",
    "llama3",
    "rerope",
    f"rerope(window={LENGTH // 4})+log_n",  # as published by its author
    "leaky_rerope",
    "self_extend",
    "lm_infinite",
    "chunk",
    "drope",
)
SCALED = ("pi", "ntk", "yarn", "llama3")


def get_config(arg="pe=rope"):
    """The run of 128 tokens from which the others start."""
    c = base.get_config(arg)
    c.data.source = text()
    c.train.length, c.train.steps, c.train.warmup = LENGTH, 5000, 100
    c.train.rate = 3e-3
    c.eval.lengths = tuple(LENGTH * 2**power for power in range(5))
    c.eval.last = LENGTH // 2  # the same targets for all runs, at any training length
    c.eval.metrics, c.eval.swaps = ("same_targets",), SWAPS
    return c


def get_sweep():
    fixed = f"(factor={FACTOR:.1f},length={LENGTH})"
    for spec in ("rope", "drope", *(name + fixed for name in SCALED)):
        c = get_config(f"pe={spec}")
        c.train.length, c.train.batch = FACTOR * LENGTH, c.train.batch // FACTOR
        c.train.steps, c.train.warmup, c.train.rate = 500, 10, 1e-3
        c.eval.swaps = ()
        yield c
