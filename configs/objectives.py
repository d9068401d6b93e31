"""Does the order of encodings beyond the training length depend on what a model is trained to do?
Six encodings as decoders, as encoders that predict hidden tokens, and as diffusion models, of the
same size, text and tokens, trained at 128 tokens and evaluated at up to 1,024.

    export PE_JAX_CORPORA=DIR
    cp -r runs/masked_text runs/objectives
    pe-jax sweep --config=configs/objectives.py --workdir=runs/objectives
    pe-jax report --workdir=runs/objectives --out=results/objectives
    python -m experiments.studies.verdicts objectives

The encoders are those of configs/masked_text.py, which says how all are trained; those that are
copied are not trained again. Decoders predict the next token. Diffusion models have another share
of hidden tokens in each window, and their loss bounds the bits of the text from above. Each has the
learning rate with the lowest validation over three seeds, of its own objective.

Predictions, stated before the first run. A loss is the bits at 1,024 tokens less those at 128, per
byte, by the metric of the objective (same_targets, masked_tokens or diffusion_bound):

1. Decoders and diffusion models lose as the encoders do: rope and sinusoidal 0.05 or more in each
   seed, alibi and kerple_log at most 0.02 in the mean.
2. Between each two objectives Spearman's rho of the six mean losses is at least 31/35 (p = 0.017,
   one-sided, which Holm's correction over the three pairs allows).
3. In diffusion models rope loses less by the bound than on the hidden tokens of masked_tokens, in
   each seed: where nearly all tokens are hidden there is nothing to read, near or far.
4. On the hidden tokens of masked_tokens at 128 tokens the encoders have fewer bits than diffusion
   models with the same encoding, in all six means.

0.4 M parameters. A seed at one rate takes some three minutes of a core: five hours, half on two.
"""

from configs import masked_text

ENCODINGS = ("nope", "sinusoidal", "t5", "alibi", "kerple_log", "rope")


def get_config(arg="task=text,pe=rope", diffusion=False):
    c = masked_text.get_config(arg)
    if diffusion:
        c.task.rate, c.eval.metrics = "uniform", ("diffusion_bound", "masked_tokens")
    if diffusion or c.task.name == "text":
        c.eval.swaps = ()
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"task=text,pe={spec}")
        for diffusion in (False, True):
            yield get_config(f"task=masked_text,pe={spec}", diffusion)
