"""Does the order of encodings beyond the training length depend on what a model is trained to do?
Six encodings as decoders, as encoders that predict hidden tokens, and as diffusion models, of the
same size, text and tokens, trained at 32 bytes and evaluated at up to 512.

    export PE_JAX_CORPORA=DIR
    mkdir -p runs/objectives
    cp -r runs/masked_text/. runs/objectives
    pe-jax sweep --config=configs/objectives.py --workdir=runs/objectives --out=results/objectives
    python -m experiments.studies.verdicts objectives

The encoders are the models of configs/masked_text.py, which says how all are trained and at which
rates; models that are copied are not trained again, and both studies run on one commit. Decoders
predict the next token. Diffusion models have another share of hidden tokens in each window, and
their loss bounds the bits of the text from above. Each has the learning rate with the lowest
validation over its seeds, of its own objective. All read as many tokens; decoders are scored on
each token in training, encoders on 30 %. No model is trained at a longer length, so this is
robustness, not the use of context.

Predictions, stated before the first run, for 128 and 1,024 tokens of a BPE, which became 32 and
256 bytes. (Pilots of alibi with one seed, a decoder and two encoders, had been scored up to
1,024 tokens.) A loss is the bits per byte at 256 bytes less those at 32, by the metric of the
objective (same_targets, masked_tokens or diffusion_bound). An encoding counts in an objective if
its mean at 32 bytes is at least 0.05 bits below that of nope.

1. Decoders and diffusion models lose as the encoders do: rope and sinusoidal 0.05 or more in each
   seed, alibi and kerple_log at most 0.02 in the mean.
2. No two encodings stand in opposite orders in two objectives. A pair has an order where one loses
   more than the other by 0.02 bits or more in every seed. (Without a test: with three seeds nothing
   would be significant after Holm's correction over so many pairs.) It is undecided if fewer than
   eight orders can be compared, the two orders of a pair in two objectives being one. Spearman's
   rho of each two objectives is printed; over five encodings a one-sided test at 5 % needs 0.9.
3. In diffusion models rope loses less by the bound than on the hidden tokens of masked_tokens, in
   each seed: where nearly all tokens are hidden there is nothing to read, near or far.
4. On the hidden tokens of masked_tokens at 32 bytes the encoders have fewer bits than diffusion
   models with the same encoding, in the means of all that count in both.

0.1 M parameters. A seed at one rate takes a minute or two of a core.
"""

from configs import masked_text

ENCODINGS = ("nope", "sinusoidal", "t5", "alibi", "kerple_log", "rope")


def get_config(arg="task=text,pe=rope", diffusion=False):
    c = masked_text.get_config(arg)
    if diffusion:
        c.task.rate, c.eval.metrics = "uniform", ("diffusion_bound", "masked_tokens")
    if diffusion or c.task.name == "text":
        c.run.seeds = (0, 1, 2)
        windows = ("window(window=8)", "window(window=4)")  # a quarter and an eighth of L
        c.eval.swaps = windows if arg == "task=text,pe=kerple_log" else ()
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"task=text,pe={spec}")
        for diffusion in (False, True):
            yield get_config(f"task=masked_text,pe={spec}", diffusion)
