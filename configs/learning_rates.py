"""Does the ranking of results/encodings stand at other learning rates? Eleven of its best, at a
third, one, three and nine times the rate, scored on validation text.

    python -m experiments.sweep --config=configs/learning_rates.py --workdir=DIR
    --out=results/learning_rates

NOTES.md has the results, written by `scripts/readme`.
"""

from configs import encodings

ENCODINGS = (  # the best, without windows, which are no encodings
    "conv",
    "stick_breaking",
    "dape_v2",
    "forget_gate+rope",
    "kerple_power",
    "cpb",
    "transformer_xl",
    "forget_gate",
    "sandwich",
    "dape",
    "deberta",
)
RATES = (1e-3, 3e-3, 9e-3, 27e-3)


def get_config(arg="pe=conv"):
    c = encodings.get_config(arg)
    c.train.steps, c.train.rates = 350, ()
    c.eval.split = "valid"
    c.eval.lengths = (64, 256, 1024)
    c.eval.metrics = ("same_targets",)
    c.eval.swaps = ()
    return c


def get_sweep():
    for spec in ENCODINGS:
        for rate in RATES:
            c = get_config(f"pe={spec}")
            c.train.rate = rate
            yield c
