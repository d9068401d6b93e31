"""Do models of eight times the size of those of configs/code_8.py use more of a longer context of
code? Four encodings are trained at 256 tokens and evaluated at up to 1,024, for one accelerator.
The reference is KERPLE's logarithm trained at 1,024.

    python -m experiments.studies.code_text --packages=.venv/lib/python3.11/site-packages \
    runs/packages_text
    pe-jax sweep --config=configs/code_5m.py --workdir=runs/code_5m --out=results/code_5m
    python -m experiments.studies.verdicts code_5m

The text is the Python code of the packages that constraints/py311.txt pins, without near copies and
split by package. 6 layers of width 256 (4.7 M parameters, 6.8 M with the embeddings), a BPE of
4,096, activations in bfloat16, 40 M tokens. The last 128 tokens of 2,000 windows are scored. One
seed should fit into 15 minutes of an H100; --config.run.seeds='(0,1)' and then '(0,1,2)' add one
each. Not measured: no accelerator was at hand when this was written.

All have a rate of 3e-3, since three rates would not fit; a share compares a model with itself at
the training length, and a difference between encodings says "at this rate".

Predictions, stated before the first run. The share is the gain at 4 L in percent of what the
reference has less there than KERPLE trained at 256 has at L:

1. The study goes on after its first seed if the reference is at least 0.05 bits per byte below
   KERPLE cropped to L at 4 L. If it is not, the study is one of robustness.
2. KERPLE's share at 4 L exceeds its share in results/code_8 by at least 10 points: larger models
   use more of the context (the rungs of results/ladder). If it does not, what the page says is:
   encodings do not give use of context, training at that length does.
3. forget_gate, kerple_log and transformer_xl gain more at 4 L than alibi.

Each is decided by the means over three seeds; the three differences of 3 have paired t tests over
seeds with Holm's correction, and intervals over documents.
"""

from pe_jax.configs import base

LENGTH, TOKENS, ORACLE = 256, 16384, "kerple_log"
ENCODINGS = ("kerple_log", "transformer_xl", "forget_gate", "alibi")


def get_config(arg=f"pe={ORACLE}", length=LENGTH):
    c = base.get_config(arg)
    c.data.source, c.data.tokenizer = "files:runs/packages_text", "bpe:4096"
    c.lm.layers, c.lm.model, c.lm.heads, c.lm.dtype = 6, 256, 8, "bfloat16"
    c.train.length, c.train.batch, c.train.steps = length, TOKENS // length, 40_000_000 // TOKENS
    c.train.rate, c.train.warmup = 3e-3, 100
    c.log.valid_every, c.run.seeds = 1000, (0,)
    c.eval.lengths, c.eval.metrics = (256, 512, 1024), ("same_targets",)
    c.eval.last, c.eval.targets, c.eval.batch_tokens = 128, 2000 * 128, 65536
    windows = tuple(f"window(window={LENGTH // part})" for part in (4, 8))
    c.eval.swaps = windows if c.pe.spec == ORACLE and length == LENGTH else ()
    return c


def get_sweep():
    reference = get_config(length=4 * LENGTH)
    reference.run.oracle_of = LENGTH
    yield reference
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
