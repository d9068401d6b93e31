"""Do encodings keep what they learn at 1,024 tokens in a model of the size that people train? Six
encodings in a model of GPT-2's small size, trained at 1,024 tokens of web text and evaluated at up
to 16,384, for one accelerator. The reference is KERPLE's logarithm trained at 4,096.

    pe-jax sweep --config=configs/gpt2_small.py --workdir=DIR --out=results/gpt2_small
    python -m experiments.studies.verdicts gpt2_small

The text is the token shards in $PE_JAX_CORPORA/gpt2, of nanoGPT or llm.c, beside GPT-2's
tokenizer.json. 12 layers of width 768, 12 heads of 64, 50,304 logits (GPT-2's 50,257 tokens, up to
a multiple of 64), output matrix and embeddings shared: 123.6 M parameters besides encodings'.
Activations are bfloat16. A step has 65,536 tokens; 2.5 G tokens are 20 for each parameter. The last
512 tokens of 1,000 windows are scored. results/accelerators has memory and roofline of a step on a
TPU v5e (with --config.train.remat=True) and on an H100; scripts/gpu measures its time.

All have a rate of 1e-3 and one seed, since no more fit. So a share compares a model with itself at
the training length, and a difference between encodings says "at this rate, seen in one run".
--config.run.seeds='(0,1,2)' adds two seeds.

Predictions, stated before the first run, in bits per byte of the same targets:

1. No headroom: the reference is less than 0.05 below KERPLE cropped to L at 4 L. Then the study is
   one of robustness. If it is not, the share of the reference's gain at 4 L is told, too.
2. rope and nope lose at least 0.1 from L to 4 L.
3. alibi and kerple_log change by less than 0.01 from L to 16 L.
4. t5 and fire lose more than 0.01 from L to 16 L.
5. At L all but nope lie within 0.01 of rope, and nope is more than 0.01 above it.

Each is decided by the mean over seeds, with the interval over documents beside it.
"""

from pe_jax.configs import base

LENGTH, TOKENS, ORACLE = 1024, 65536, "kerple_log"
ENCODINGS = ("rope", "alibi", "t5", "fire", "kerple_log", "nope")


def get_config(arg="pe=rope", length=LENGTH):
    c = base.get_config(arg)
    c.data.source = "files:$PE_JAX_CORPORA/gpt2/*.bin"
    c.data.tokenizer = "file:$PE_JAX_CORPORA/gpt2/tokenizer.json"
    c.lm.vocab, c.lm.layers, c.lm.model, c.lm.heads = 50304, 12, 768, 12
    c.lm.tie_embeddings, c.lm.dtype = True, "bfloat16"
    c.train.length, c.train.batch, c.train.steps = length, TOKENS // length, 2_500_000_000 // TOKENS
    c.train.rate, c.train.beta2, c.train.warmup = 1e-3, 0.95, 500
    c.log.valid_every, c.log.checkpoint_seconds, c.run.seeds = 1000, 600.0, (0,)
    c.eval.lengths, c.eval.metrics = tuple(LENGTH * 2**n for n in range(5)), ("same_targets",)
    c.eval.last, c.eval.targets, c.eval.batch_tokens = 512, 1000 * 512, TOKENS
    windows = tuple(f"window(window={LENGTH // part})" for part in (4, 8))
    c.eval.swaps = windows if c.pe.spec == ORACLE and length == LENGTH else ()
    return c


def get_sweep():
    reference = get_config(f"pe={ORACLE}", length=4 * LENGTH)
    reference.run.oracle_of = LENGTH
    yield reference
    for spec in ENCODINGS:
        yield get_config(f"pe={spec}")
