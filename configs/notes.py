"""Experiments of NOTES.md on the surprises of results/encodings: each run changes one thing, but
partial_rope's rate is 27e-3 there and 9e-3 here.

pe-jax sweep --config=configs/notes.py --workdir=DIR --out=results/notes
"""

from configs import encodings

SPECS = (
    "conv(kernel=2,depth=1)",
    "conv+rope",
    "partial_rope(base=2500.0)",  # its slower pair turns by 0.02 a token, not 0.01
    "partial_rope(base=40000.0)",  # 0.005
)
CAPPED = "experiments/docs/fire_capped.py:Capped"  # its divisor stays within the training range


def get_config(arg="pe=conv"):
    c = encodings.get_config(arg)
    c.eval.metrics = ("same_targets",)
    c.eval.swaps = ()
    return c


def get_sweep():
    for spec in SPECS:
        yield get_config(f"pe={spec}")
    c = get_config("pe=fire")
    c.eval.swaps = ("window", CAPPED, f"{CAPPED}+window")
    yield c
