"""Which encoding should the global layers of a hybrid have? Models of six layers, one or two of
them global, the others with a window and RoPE, are trained at 64 tokens and evaluated at up to
1,024.

    pe-jax sweep --config=configs/hybrids.py --workdir=DIR --config.eval.lengths='(64,)'
    pe-jax sweep --config=configs/hybrids.py --workdir=DIR --out=results/hybrids
    python -m experiments.studies.verdicts hybrids

The first command scores at the training length L = 64 alone.

Global are the last of six layers, or the third and the last: without positions of their own (nope),
or with rope, partial_rope or p_rope. The other layers have windows of 16 tokens. The spec of a
hybrid names the layers of each member: rope[:5]+window(window=16)[:5]+p_rope[5]. A model with a
window in all six layers shows what windows reach by themselves, up to 6 * 15 tokens.

Tasks are in-context Markov chains (results/markov) and induction (results/retrieval).

A model has solved Markov chains at L if its mean there is within 0.01 bits of the Bayes-optimal
prediction, and induction if at least two seeds find 99 % at L. On Markov chains a model that has
uses the context at a length if its gain from L and how much this is above the gain of the model
with windows alone are told (paired t tests over three seeds, each with Holm's correction over the
hybrids at that length) and its mean share of the headroom is at least 25 %. Windows alone can have
such a share: by a simulation the best prediction from 91 tokens has 43 % of the headroom at 4 L,
and 29 % at 16 L. It is undecided with such a share where a test does not tell: with three seeds t
must exceed 12.6 for the first of eight. A mean share below 25 % counts as not using it, untested.
On induction it uses the context if all seeds that solve L find 90 % at that length. Models that
have not solved the task at L are not compared.

Predictions, stated before the first run:

1. Each task: all hybrids with NoPE use the context at 4 L and at 16 L. (Yang et al., 2025,
   arXiv:2501.18795: RNoPE-SWA, with NoPE in global layers, finds needles to 256 K.)
2. Each task: no hybrid with RoPE uses it at 16 L.
3. Markov chains at 4 L: the shares of NoPE, partial_rope, p_rope and rope fall in this order, that
   of the share of a head's eight pairs that turn less than once in L (0, 1, 3 and 5 of 8; see
   configs/rope_base.py). Of the six pairs of neighbours with one and with two global layers at
   least five do (p = 0.04 if every order is as likely).
4. Markov chains at 4 L: two global layers of six use more than one, with all four encodings (p =
   0.06 if either is as likely: no test at 5 %).

Cases of models that have not solved the task, or are undecided, do not count. 1 and 2 are undecided
with fewer than half of their cases, and fail with one case against them. 3 and 4 compare shares, so
undecided models count there; they are undecided unless all models have solved the task.

The rate is 3e-3 on Markov chains, which all ten encodings of results/markov chose at this length,
and 2e-3 on induction, as in results/retrieval. A model that has not solved its task is run at a
third and at three times its rate, too, before the second command; the best of the three by
validation is kept, and the folders of the others are deleted:

    pe-jax run --config='configs/hybrids.py:task=TASK,pe=SPEC' --config.train.rate=RATE \
        --config.eval.lengths='(64,)' --workdir=DIR

If any is kept at another rate, the second command would train it again at the first. Then every
kept model is evaluated at all lengths by the line above without its lengths, which trains nothing,
and pe-jax report --workdir=DIR --out=results/hybrids makes the tables.

Left out for lack of hours: windows of 32 tokens, and code, on which no encoding is known to use a
longer context (configs/code_8.py). 0.3 M parameters: by the models of four layers of
configs/carriers.py some three hours of a core; the first six took 0.2 each, and most of them need
the two other rates.
"""

from pe_jax.configs import base

GLOBAL = ("nope", "rope", "partial_rope", "p_rope")
LAYERS = {"5": ":5", "2,5": "0,1,3,4"}  # the global layers: the others
RATES = {"markov": 3e-3, "induction": 2e-3}
LENGTH, TOKENS = 64, 2048


def hybrid(name, layers):
    """The spec of a model whose global layers have an encoding; without any layers, of windows."""
    others = f"[{LAYERS[layers]}]" if layers else ""
    spec = f"rope{others}+window(window=16){others}"
    return spec if name == "nope" or not layers else f"{spec}+{name}[{layers}]"


def get_config(arg="task=markov,pe=rope"):
    c = base.get_config(arg)
    c.lm.layers, c.lm.model, c.lm.heads = 6, 64, 4
    c.train.length, c.train.batch, c.train.steps = LENGTH, TOKENS // LENGTH, 3000
    c.train.rate, c.train.warmup = RATES[c.task.name], 100
    c.eval.lengths, c.eval.swaps = (64, 128, 256, 512, 1024), ()
    if c.task.name == "markov":
        c.train.curriculum, c.eval.samples = "fixed", 128
    else:
        c.eval.samples, c.eval.metrics = 256, ("accuracy",)
    return c


def get_sweep():
    for task in RATES:
        yield get_config(f"task={task},pe={hybrid('', '')}")
        for layers in LAYERS:
            for name in GLOBAL:
                yield get_config(f"task={task},pe={hybrid(name, layers)}")
