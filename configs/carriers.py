"""Does a recurrence let layers without positions read far, and does RoPE beside it break that?
Models of four layers are trained at 64 tokens, and evaluated at up to 4,096 tokens of in-context
Markov chains (results/markov) and 1,024 of induction (results/retrieval).

    pe-jax sweep --config=configs/carriers.py --workdir=DIR --out=results/carriers
    pe-jax atlas --workdir=DIR --carriers --out=DIR/atlas
    python -m experiments.studies.parts RUN RUN > results/carriers/parts.csv
    python -m experiments.studies.verdicts carriers

In a hybrid, every second layer is Gated DeltaNet and the others have NoPE or RoPE; or three layers
of four are Kimi Delta Attention and the fourth has NoPE, as in Kimi Linear (Zhang et al., 2025,
arXiv:2510.26692); or a recurrent network stands in front of NoPE. Both delta rules contain a
convolution over four tokens, which alone can tell NoPE layers which token came before. So one
hybrid has the convolution without a recurrence, and one model Gated DeltaNet in all layers and no
attention. nope and forget_gate stand alone in all layers.

A model has solved its task at L, and uses the context at a length, by the rules of
configs/hybrids.py, without its model of windows alone; on Markov chains Holm's correction is over
the eight models at that length.

Predictions, stated before the first run:

1. Markov chains: the three models with a recurrence and NoPE use the context at 4 L, 16 L and 64 L.
   (Kimi Linear has 84.3 in RULER at 128 K, and positions in its recurrence alone.)
2. Both tasks: gated_delta with RoPE in the other layers does not use the context at 16 L.
   (results/markov and results/retrieval: RoPE alone loses there.)
3. Both tasks: gated_delta with NoPE in the other layers does.
4. Markov chains, from L to 16 L: gated_delta and kimi_delta with NoPE gain more than forget_gate,
   whose decay forgets what a count needs.
5. The same: gated_delta with NoPE gains more than the convolution with NoPE, so that the recurrence
   is needed, and more than gated_delta in all layers, so that attention is.
6. The carrier reports of gated_delta and kimi_delta with NoPE on Markov chains: frozen convolutions
   lose more nats than frozen decays, in every seed (results/carriers/parts.csv).

4 and 5 are paired t tests of gains over three seeds, with Holm's correction over the two of each;
a pair is undecided if its difference is not told. Every prediction fails with the first case
against it. Cases of models that have not solved the task, or are undecided, do not count; a
prediction with fewer than half of its cases is undecided.

The rate is 3e-3 on Markov chains, which all ten encodings of results/markov chose at this length,
and 2e-3 on induction, as in results/retrieval. A model that has not solved its task is run at a
third and at three times its rate, too, before any score beyond L is read; the first folder is
deleted, and the better of the two by validation is kept:

    pe-jax run --config='configs/carriers.py:task=TASK,pe=SPEC' --config.train.rate=RATE \
    --workdir=DIR

Left out: flip-flop, where 3 % of the reads at 1,024 tokens are of a value more than 64 tokens back,
so that it does not ask for far reading; code, on which no encoding is known to use a longer context
(configs/code_8.py); models of six layers; and whether a model stops at the end of a list that it
copies.

0.2 M parameters. By five steps of each model on a busy machine, a step on Markov chains takes 0.09
to 0.10 s of a core without a recurrence, 0.13 with the one in front, 0.21 and 0.26 with gated_delta
and kimi_delta, and a sequence of 4,096 tokens 0.2 to 0.7 s: some six hours of a core, three on two.
"""

from pe_jax.configs import base

DELTA, ROPE = "gated_delta[::2]+nope[1::2]", "gated_delta[::2]+rope[1::2]"
CONVOLUTION, WHOLE = "short_conv[::2]+nope[1::2]", "gated_delta"
KIMI = "kimi_delta[:3]+nope[3]"
RECURRENT = ("recurrent+nope", DELTA, KIMI)
MODELS = {
    "markov": ("nope", "forget_gate", CONVOLUTION, *RECURRENT, ROPE, WHOLE),
    "induction": ("nope", CONVOLUTION, DELTA, ROPE),
}
RATES = {"markov": 3e-3, "induction": 2e-3}
LENGTH, TOKENS = 64, 2048


def get_config(arg="task=markov,pe=rope"):
    c = base.get_config(arg)
    c.lm.layers, c.lm.model, c.lm.heads = 4, 64, 4
    c.train.length, c.train.batch, c.train.steps = LENGTH, TOKENS // LENGTH, 3000
    c.train.rate, c.train.warmup, c.run.seeds = RATES[c.task.name], 100, (0, 1, 2)
    c.eval.lengths, c.eval.samples, c.eval.swaps = (64, 256, 1024, 4096), 128, ()
    if c.task.name == "markov":
        c.train.curriculum = "fixed"
    else:
        c.eval.lengths, c.eval.metrics = (64, 256, 1024), ("accuracy",)
    return c


def get_sweep():
    for task, specs in MODELS.items():
        for spec in specs:
            yield get_config(f"task={task},pe={spec}")
