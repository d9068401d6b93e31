"""Closing brackets of Dyck-2, nested to a depth of 4, in the setting of a public replication of
section 5.3 of MapFormer (Rambaud et al., 2025, arXiv:2511.19279): one layer, width 64, one head,
560,000 sequences of 32 tokens, a rate of 1e-4, 8 seeds.

    pe-jax sweep --config=configs/papers/dyck.py --workdir=DIR --out=DIR

Its score is not accuracy. After Hewitt et al. (2020, arXiv:2010.07515) it is p of the right
closing, renormalised over the closings, averaged over the distances from a closing to its opening.
Here it is `by_distance`, at the depth of training and at 12, with a 3-gram as baseline (what
followed the same three tokens in other samples) and accuracy as a second table. As in the code of
the replication (PrashRangarajan/mapformer, train_dyck.py), every token predicts the next, with
dropout. Two things differ: its score counts every place with an open bracket, here every closing;
and each of its sequences reaches the depth of 4. Its MapPoPE is not implemented here. A run takes
up to an hour of a core; dyck_small.py takes minutes.
"""

from pe_jax.configs import base

ENCODINGS = ("rope", "pope", "mapformer(rank=2)", "cope", "nope", "alibi", "forget_gate")


def get_config(arg="task=dyck,pe=rope"):
    c = base.get_config(arg)
    c.task.types, c.task.deepest = 2, 4
    c.lm.layers, c.lm.model, c.lm.heads, c.lm.dropout = 1, 64, 1, 0.1
    c.train.length, c.train.curriculum, c.train.loss = 32, "fixed", "all"
    c.train.batch, c.train.steps = 128, 560_000 // 128
    c.train.rate, c.train.decay, c.train.warmup = 1e-4, 0.01, 218  # 5 % of the steps
    c.eval.lengths, c.eval.samples, c.eval.swaps = (32, 64, 128), 512, ()
    c.eval.variants = ("deepest=12",)
    c.eval.metrics = ("by_distance", "accuracy")
    c.run.seeds = tuple(range(8))
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"task=dyck,pe={spec}")
