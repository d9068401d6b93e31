"""Does the hierarchical form of a learned table read three times the length it was trained at (Su,
2020; kexue.fm/archives/7947)? An encoder is trained at 32 bytes of novels, evaluated at 96, and
then trained at 96 for 500 or 2,000 steps more.

There are two steps; the second is repeated for both models, from their folders RUN, with 500 and
with 2,000 STEPS, and once for the first model at its own length, with --config.train.length=32,
--config.train.batch=63 and 2,000 STEPS:

    export PE_JAX_CORPORA=DIR
    pe-jax sweep --config=configs/hierarchical.py --workdir=runs/hierarchical
    pe-jax run --config='configs/hierarchical.py:pe=SPEC' --config.train.init_from=RUN \
    --config.train.length=96 --config.train.batch=21 --config.train.steps=STEPS \
    --config.train.rates='(3e-4,1e-3,3e-3,9e-3)' --workdir=runs/hierarchical
    pe-jax report --workdir=runs/hierarchical --out=results/hierarchical
    python -m experiments.studies.verdicts hierarchical

Model, text and objective are those of configs/masked_text.py, which says why bytes and why 32: two
layers of width 64, 30 % of the bytes hidden; five seeds. At up to 32 bytes the hierarchical form is
a learned table. The other model has a table of 96 rows, of which the last 64 are as they were drawn
until it is trained at 96: it shows what the training gives by itself. Every run has the best of
four learning rates by validation at its training length; one that chooses an end of the grid is
named.

RoBERTa, trained at 512, finds 55 % of the hidden tokens in windows of 512, and 38 % in windows of
1,536 without further training; 2,000 steps restore it.

Predictions, stated before the first run, on the share of hidden tokens whose first choice is right,
by paired t tests over seeds with Holm's correction over the three:

1. Without further training the hierarchical model finds fewer at 96 bytes than at 32.
2. After 2,000 steps it finds at 96 bytes more than the same model after 2,000 steps of 32 bytes at
   32, less one point.
3. After 500 steps it finds more at 96 bytes than the model with new rows after 500 steps.

A prediction is contradicted if the opposite is significant, and undecided if nothing is. The plan
had no rules, and no model with new rows.
"""

from configs import masked_text

LENGTH, TIMES = masked_text.LENGTH, 3
SPECS = (f"hierarchical(length={LENGTH})", f"learned(length={TIMES * LENGTH})")


def get_config(arg=f"pe={SPECS[0]}"):
    c = masked_text.get_config(f"task=masked_text,{arg}")
    c.train.rates, c.run.seeds = masked_text.LOW, (0, 1, 2, 3, 4)
    c.eval.lengths, c.eval.swaps = (LENGTH, TIMES * LENGTH), ()
    c.eval.last = LENGTH // 2  # the same targets for all runs, at any training length
    return c


def get_sweep():
    for spec in SPECS:
        yield get_config(f"pe={spec}")
