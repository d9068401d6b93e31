"""Which encodings use a longer context? In in-context Markov chains (Edelman et al., 2024,
arXiv:2402.11004) every further token is worth a known number of bits (pe_jax/tasks/markov.py).

    pe-jax sweep --config=configs/markov.py --workdir=runs/markov --jobs=2 --out=results/markov

Ten encodings, one or more of every family, in 2 layers of width 64, trained at 64 and at 256 tokens
with 2,048 tokens a step, five seeds. Each encoding has the learning rate with the lowest bits of
validation samples at the training length over all seeds. The last L/2 targets of 128 samples are
scored, the same at every length up to 4,096. This is 64 times the shorter training length and 16
times the longer, where 64 times would take dense attention 16 times as long as all else together.
"""

from pe_jax.configs import base

LENGTHS, LONGEST = (64, 256), 4096
ENCODINGS = (
    "nope",
    "sinusoidal",
    f"randomized(max={LONGEST})+sinusoidal",
    "rope",
    "alibi",
    "t5",
    "kerple_log",
    "fire",
    "transformer_xl",
    "forget_gate",
)


def get_config(arg="task=markov,pe=rope", length=LENGTHS[0]):
    c = base.get_config(arg)
    c.lm.layers, c.lm.model, c.lm.heads = 2, 64, 4
    c.train.length, c.train.curriculum = length, "fixed"
    c.train.batch, c.train.steps = 2048 // length, 4000
    c.train.rates = (1e-3, 3e-3, 9e-3, 27e-3)
    times = LONGEST // length
    c.eval.lengths = tuple(length * 2**power for power in range(times.bit_length()))
    c.eval.samples, c.eval.swaps = 128, ()
    c.run.seeds = (0, 1, 2, 3, 4)
    return c


def get_sweep():
    for length in LENGTHS:
        for spec in ENCODINGS:
            yield get_config(f"task=markov,pe={spec}", length)
