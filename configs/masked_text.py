"""Does seeing both sides rescue what breaks beyond the training length? Nine encodings in
encoders that predict hidden bytes of novels, trained at 32 bytes and evaluated at up to 512, the
window growing on both sides.

    export PE_JAX_CORPORA=DIR
    pe-jax sweep --config=configs/masked_text.py --workdir=runs/masked_text \
    --out=results/masked_text
    python -m experiments.studies.verdicts masked_text

Two layers of width 64, 30 % of the bytes hidden, 3,000 steps of 2,048 bytes, three seeds, of rope
and learned, which the tests compare, five. The plan had 128 tokens of a BPE of 2,048, where in two
layers absolute positions learn nothing: after 2,500 steps learned tables have 2.82 bits of
validation text, as words have without a context, and 4 % right first choices
(results/unfinished/hierarchical). With 128 bytes learned and sinusoidal stay there for 1,500 steps,
too. With 32 bytes they leave it within 1,500, for 3.1 and 2.9 bits; rope, with 128, has 2.7 bits
after 1,000 steps, and 45 % right first choices. (Pilots of one seed, by validation text and the
training length alone.)

Each encoding has the learning rate with the lowest bits of validation text over all seeds, of
four; one that chooses an end of the grid is named, and the grid is not widened.

Swapped into rope: scalings by the longer length over L and over 2 L, since distances run
from -(L - 1) to L - 1, and a window on both sides; into a learned table its hierarchical form,
which Su reports for RoBERTa at three times its length (kexue.fm/archives/7947). kerple_log is also
scored with windows of 3 and 1 bytes on each side, with the byte itself about a quarter and an
eighth of L, which say what the nearest bytes give.

Predictions, made before any run. Losses are in bits per byte of hidden bytes, from 32 to 256:

1. rope, sinusoidal and learned lose 0.05 or more in each seed, as in decoders; alibi, kerple_log,
   t5 and nezha lose at most 0.02 in the mean. Spearman's rho of the mean losses with decoders at
   the same multiple of L (results/encodings, 64 to 512 bytes) is 0.7 or more over the eight
   encodings that both have and serve at that length, for which a one-sided test at 5 % needs 0.643.
2. Nothing gains more than 0.02 in the mean: the nearest bytes say most. (At L the scored bytes are
   8 to 15 from the nearer end of the window, so that a gain may be of the edge.) No model is
   trained at a longer length, so this is robustness, not the use of context.
3. At 128 bytes ntk is better than ntk(length=64): twice the range of angles is no substitute for
   distances that were never seen.
4. Of rope's swaps at 256 the window has the lowest mean.
5. At 96 bytes, without further training, hierarchical has fewer right first choices than the
   cropped model, and more than the table whose last row is repeated.
6. At 128 bytes the base that counts both sides is better than that of decoders: ntk(factor=1.806)
   has fewer bits than ntk(factor=12.07). (At this L the first depends on a rounding: the number of
   pairs that have turned once within 2 L is 2.016, and counts as 3.)

They were made for 128 tokens of a BPE, and only the lengths were changed. Left out for lack of
hours: code, fire, rope+alibi and transformer_xl; tupe, since its table has no rows beyond L.
configs/objectives.py has decoders and diffusion models, and configs/hierarchical.py the further
training after which Su's table is restored.

3, 5 and 6 hold if their differences, four in all, are significant by paired t tests over seeds with
Holm's correction, and are contradicted if one is of the opposite sign.
"""

from configs import encodings
from pe_jax.configs import base

LENGTH, BYTES = 32, 2048
ABSOLUTE = ("sinusoidal", "learned(clip=True)")
LOW = (3e-4, 1e-3, 3e-3, 9e-3)
TESTED = ("learned(clip=True)", "rope")
ENCODINGS = ("nope", *ABSOLUTE, "nezha", "deberta", "t5", "alibi", "kerple_log", "rope")
# At 128 bytes the bases of UltraLLaDA (both sides counted, 19,656) and of LongLLaDA (172,235), by
# the formulas that others give of their papers.
DIFFUSION = ("ntk(factor=1.806)", "ntk(factor=12.07)")
SWAPS = {
    "rope": ("pi", "ntk", "ntk(length=64)", "yarn", "yarn(length=64)", "window", *DIFFUSION),
    "learned(clip=True)": ("hierarchical", "window"),
    "kerple_log": ("window(window=4)", "window(window=2)"),
}


def get_config(arg="task=masked_text,pe=rope"):
    c = base.get_config(arg)
    c.data.source, c.data.tokenizer = encodings.text(), "bytes"
    c.lm.layers, c.lm.model = 2, 64
    c.train.length, c.train.batch, c.train.steps = LENGTH, BYTES // LENGTH, 3000
    c.train.rates = LOW if c.pe.spec in ABSOLUTE else (3e-3, 9e-3, 27e-3, 81e-3)
    c.run.seeds = tuple(range(5 if c.pe.spec in TESTED else 3))
    c.log.valid_every = 500
    c.eval.lengths = tuple(times * LENGTH for times in (1, 2, 3, 4, 8, 16))
    c.eval.swaps = SWAPS.get(c.pe.spec, ())
    return c


def get_sweep():
    for spec in ENCODINGS:
        yield get_config(f"task=masked_text,pe={spec}")
