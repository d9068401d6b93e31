"""Which encoding should the global layers of a hybrid have? Models of six layers, one or two of
them global, the others with a window and RoPE, are trained at 64 tokens and evaluated at up to
1,024.

    python -m experiments.studies.code_text runs/code_text
    pe-jax sweep --config=configs/hybrids.py --workdir=DIR --out=results/hybrids
    python -m experiments.studies.verdicts hybrids

Global are the last of six layers, or the third and the last: without positions of their own (nope),
or with rope, partial_rope or p_rope. The other layers have windows of 16 or 32 tokens. The spec of
a hybrid names the layers of each member: rope[:5]+window(window=16)[:5]+p_rope[5]. Models with a
window in all six layers show what windows reach by themselves, up to 6 * 15 or 6 * 31 tokens.

Tasks are in-context Markov chains (results/markov), induction (results/retrieval), and code of 32
tokens (configs/code_8.py), evaluated at up to 512. Markov chains and induction have all 16 hybrids.
Code has the four with two global layers and windows of 16, since a run takes five times as long;
its reference is the one with NoPE, trained at 128.

A model has solved Markov chains at L if its mean there is within 0.01 bits of the Bayes-optimal
prediction, and induction if at least two seeds find 99 % at L. On Markov chains a model that has
uses the context at a length if its gain from L is told (paired t tests over three seeds, Holm's
correction over the 16 hybrids at that length) and its mean share of the headroom is at least 25 %.
It is undecided with such a share that is not told: with three seeds t must exceed 17.8 for the
first of 16, and 8.8 of four. On induction it does if all seeds that solve L find 90 % at that
length. On code it does as on Markov chains, over the four hybrids. Models that have not solved the
task at L are not compared.

Predictions, stated before the first run:

1. Markov chains and induction: all hybrids with NoPE use the context at 4 L and at 16 L. (Yang et
   al., 2025, arXiv:2501.18795: RNoPE-SWA, with NoPE in global layers, finds needles to 256 K.)
2. Both tasks: no hybrid with RoPE uses it at 16 L.
3. Markov chains at 4 L: the shares of NoPE, partial_rope, p_rope and rope fall in this order, that
   of the share of a head's eight pairs that turn less than once in L (0, 1, 3 and 5; see
   configs/rope_base.py). Of the twelve pairs of neighbours in the four shapes at least ten do
   (p = 0.0025 if every order within a shape is as likely).
4. Markov chains at 4 L: two global layers of six use more than one, in at least seven of the eight
   pairs that differ in nothing else (p = 0.035).
5. Code: no hybrid uses the context at 4 L, as in configs/code_8.py.

1, 2 and 5 fail with the first case against them. Cases of models that have not solved the task, or
are undecided, do not count; a prediction with fewer than half of its cases is undecided, and of
those that count the same share as above is needed in 3 and 4. These compare shares, so undecided
models count there.

Rates: 3e-3 on Markov chains, which all ten encodings of results/markov chose at this length, 2e-3
on induction and 9e-3 on code, those of the studies above. On Markov chains and induction the
hybrids with two global layers and windows of 16 try a third and three times that, too. If one of
them chooses another rate, all hybrids with these global layers are run at it before any score
beyond L is read, in place of their first runs, whose folders are deleted:

    pe-jax run --config='configs/hybrids.py:task=TASK,pe=SPEC' --config.train.rates='()'
    --config.train.rate=RATE --workdir=DIR

0.3 M parameters, on code 1.1 M. A step takes about 0.05 s of a quiet core on Markov chains, 0.03 on
induction and 0.26 on code: 9.5 hours in all, 4.8 on two cores.
"""

from configs import code_8
from pe_jax.configs import base

GLOBAL = ("nope", "rope", "partial_rope", "p_rope")
LAYERS = {"5": ":5", "2,5": "0,1,3,4"}  # the global layers: the others
WINDOWS = (16, 32)
RATES = {"markov": 3e-3, "induction": 2e-3}
LENGTH, TOKENS = 64, 2048


def hybrid(name, layers="2,5", window=16):
    """The spec of a model whose global layers have an encoding; without any layers, of windows."""
    others = f"[{LAYERS[layers]}]" if layers else ""
    spec = f"rope{others}+window(window={window}){others}"
    return spec if name == "nope" or not layers else f"{spec}+{name}[{layers}]"


def get_config(arg="task=markov,pe=rope"):
    c = base.get_config(arg)
    if c.task.name == "text":
        return of_code(c.pe.spec)
    c.lm.layers, c.lm.model, c.lm.heads = 6, 64, 4
    c.train.length, c.train.batch, c.train.steps = LENGTH, TOKENS // LENGTH, 3000
    c.train.rate, c.train.warmup = RATES[c.task.name], 100
    c.eval.lengths, c.eval.swaps = (64, 128, 256, 512, 1024), ()
    if c.task.name == "markov":
        c.train.curriculum, c.eval.samples = "fixed", 128
    else:
        c.eval.samples, c.eval.metrics = 256, ("accuracy",)
    return c


def of_code(spec, length=32):
    """The config of a hybrid on code."""
    c = code_8.get_config(f"pe={spec}", length)
    c.lm.layers, c.lm.heads, c.train.rate, c.train.rates = 6, 4, 9e-3, ()
    c.eval.swaps, c.run.seeds = (), (0, 1, 2)
    return c


def get_sweep():
    for task in RATES:
        for window in WINDOWS:
            yield get_config(f"task={task},pe={hybrid('', '', window)}")
            for layers in LAYERS:
                for name in GLOBAL:
                    c = get_config(f"task={task},pe={hybrid(name, layers, window)}")
                    if (layers, window) == ("2,5", 16):
                        c.train.rates = (c.train.rate / 3, c.train.rate, 3 * c.train.rate)
                    yield c
    reference = of_code(hybrid("nope"), length=128)
    reference.run.oracle_of = 32
    yield reference
    yield of_code(hybrid("", ""))
    for name in GLOBAL:
        yield of_code(hybrid(name))
