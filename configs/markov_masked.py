"""Does seeing both sides move where encodings break? In-context Markov chains of four symbols, one
of them hidden and predicted from both sides, so that every further token is worth a known number of
bits (pe_jax/tasks/markov.py). Encoders are trained at 64 tokens and evaluated at up to 1,024.

Encoders of this size do not learn these chains from the start: 2,000 steps left rope and alibi
where they only know how often symbols are (eight symbols), and 6,000 rope with a quarter of the
samples easier (four symbols). In a pilot with one seed rope came within 0.014 bits of the
Bayes-optimal prediction after training on easier chains alone (experiments/studies/warm_markov.py).
So each model SPEC is trained in three stages, the folder of one, RUN, being the beginning of the
next:

    pe-jax run --config=configs/markov_masked.py:stage=1,pe=SPEC --workdir=runs/warm
    pe-jax run --config=configs/markov_masked.py:stage=2,pe=SPEC --workdir=runs/warm
    --config.train.init_from=RUN
    pe-jax run --config=configs/markov_masked.py:stage=3,pe=SPEC --workdir=runs/markov_masked
    --config.train.init_from=RUN
    pe-jax report --workdir=runs/markov_masked --out=results/markov_masked

A distance between the hidden token and another is at most half the length, so that at 128 tokens
the hidden token meets no distance that was not seen in training.

A model has solved the task if its mean at 64 tokens is within 0.02 bits of the Bayes-optimal
prediction; 0.01, as elsewhere, is less than what 4,096 samples with one target each tell. Shares
are of the bits that this prediction gains from 64 tokens on.

Predictions, stated before the first run, on the mean shares of models that have solved the task:

1. alibi and kerple_log, which cannot tell left from right, do not solve it, and nope does not;
   alibi with heads that look one way does (experiments/studies/one_sided.py).
2. At 256 tokens rope and sinusoidal use more than the decoders of results/markov, whose shares are
   40 and 10 %: breaking moves to twice the length.
3. At 1,024 tokens rope and sinusoidal lose all the same.
4. At 1,024 tokens one-sided alibi uses more than t5.

A prediction fails with the first mean against it, and is undecided if a model that it names has not
solved the task (in 1, if none of the others has).

0.1 M parameters, three seeds: some 7 minutes of a core for a seed, three hours for all.
"""

from pe_jax.configs import base

WARM = "experiments/studies/warm_markov.py:WarmMarkov"
SIDED = "experiments/studies/one_sided.py:OneSided+alibi"
ENCODINGS = ("nope", "sinusoidal", "nezha", "t5", "alibi", SIDED, "kerple_log", "rope")
STAGES = {  # steps, rate, the share of samples with the fixed chain, that with sharp ones
    1: (1000, 9e-3, 0.5, 0.5),
    2: (3000, 9e-3, 0.0, 1.0),
    3: (6000, 6e-3, None, None),
}


def get_config(arg="stage=3,pe=rope"):
    stage, _, pe = arg.partition(",")
    steps, rate, fixed, sharp = STAGES[int(stage.removeprefix("stage="))]
    c = base.get_config(f"task={'markov' if fixed is None else WARM},{pe}")
    c.task.symbols, c.task.masked = 4, True
    if fixed is not None:
        c.task.fixed, c.task.sharp = fixed, sharp
    c.lm.layers, c.lm.model, c.lm.heads = 2, 64, 4
    c.train.length, c.train.batch, c.train.curriculum = 64, 32, "fixed"
    c.train.steps, c.train.rate, c.train.warmup = steps, rate, 50
    c.eval.lengths = (64, 128, 256, 512, 1024) if fixed is None else (64,)
    c.eval.samples, c.eval.last, c.eval.swaps = 4096, 1, ()
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"stage=1,pe={spec}")
