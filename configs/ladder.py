"""Does a tiny model predict a larger one? Six encodings at 0.1 and 1.6 M parameters, with the text,
lengths, bytes, steps and rates of configs/headroom.py, which has 0.5 M.

    PE_JAX_CORPORA=DIR pe-jax sweep --config=configs/ladder.py --workdir=runs/ladder
    pe-jax report --workdir=runs/ladder --workdir=runs/headroom --out=results/ladder

Rungs are 2 layers of width 64 with five seeds, 4 of 96 with three, and 6 of 144 with one.

Stated before the runs: the measure is Spearman's rho between two orders of the six encodings, at
2, 4, 8 and 16 times the training length. Compared are each pair of rungs, and each rung with table
3 of KERPLE (arXiv:2205.09921; without fire) and table 5 of DAPE (arXiv:2405.14722; without
sinusoidal). A rung predicts another at a length if rho is significant, one-sided at 5 %: at least
0.829 with six encodings, 0.9 with five. Expected: a significant rho for every pair of rungs at all
four lengths, and for every rung with DAPE's table.
"""

from configs import headroom

RUNGS = {(2, 64): 5, (6, 144): 1}  # (layers, width): seeds
ENCODINGS = ("rope", "alibi", "t5", "kerple_log", "fire", "sinusoidal")


def get_config(arg="pe=rope", size=(2, 64)):
    c = headroom.get_config(arg, size)
    c.run.seeds = tuple(range(RUNGS[size]))
    if size == (2, 64):  # at 27e-3 the best rate stood at the end
        c.train.rates += (81e-3,)
    return c


def get_sweep():
    for size in RUNGS:
        for spec in ENCODINGS:
            yield get_config(f"pe={spec}", size)
