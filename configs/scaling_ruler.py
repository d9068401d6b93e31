"""Which scaling reads far tokens at twice a model's length? SmolLM2-135M at 16,384 tokens with
eight swaps, on records of codes and three tasks of RULER; nothing is trained.

    PE_JAX_CORPORA=DIR pe-jax sweep --config=configs/scaling_ruler.py --workdir=DIR \
    --out=results/scaling_ruler
    pe-jax compare results/scaling_ruler --baseline='yarn(factor=2.0)'

scripts/smollm2 has the command that fetches the model to runs/. 20 prompts of each task are scored
at 4,096, 8,192 and 16,384 tokens: some 15 minutes of an H100 by the speed of results/smollm2 (not
measured), 22 hours of two cores. With the 24 and 25 prompts that were planned it would take longer
than 15 minutes.

Primary is the difference in nats per digit of `records` at 16,384 from YaRN with a fixed factor of
2, as config.json has it: paired t tests over prompts, Holm's correction over the others. At 16,384
the swap yarn, whose factor is that of the length, is equal to it; at shorter lengths it costs
nothing. A task of RULER that the model as it is answers exactly in fewer than 20 % of the prompts
at 4,096 is left out: it is not solved within the training length.

Predictions, stated before the first run (from results/smollm2_needles, at 12,288 tokens):

1. In nats per digit rerope < yarn < ntk < lm_infinite.
2. rerope is significantly better than the fixed YaRN, and lm_infinite and streaming, which do not
   read far tokens, significantly worse.
3. In the tasks of RULER that are kept the four of 1 have the same order of nats, in at least five
   of the six pairs of each task.

A prediction fails with a significant difference of the opposite sign, holds if all of its signs are
as stated, and is undecided otherwise.
"""

from pe_jax.configs import base

TASKS = ("niah_single_2", "niah_multikey_1", "variable_tracking")
SWAPS = ("yarn(factor=2.0)", "yarn", "ntk", "dynamic_ntk", "rerope", "self_extend", "streaming")
SWAPS += ("lm_infinite",)


def get_config(arg="pe=rope"):
    c = base.get_config(arg)
    c.data.source = "files:$PE_JAX_CORPORA/novels"
    c.train.init_from, c.train.steps = "gguf:runs/SmolLM2-135M-Instruct.Q4_1.gguf", 0
    c.train.length, c.run.seeds = 8192, (0,)
    c.eval.split, c.eval.by, c.eval.batch_tokens = "all", "place", 1
    c.eval.lengths, c.eval.samples, c.eval.swaps = (4096, 8192, 16384), 20, SWAPS
    exact = tuple(f"{task}_exact" for task in TASKS)
    c.eval.metrics = ("records", *TASKS, *exact)
    return c


def get_sweep():
    yield get_config()
