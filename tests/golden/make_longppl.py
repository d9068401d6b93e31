"""Makes longppl.npz: the score that the package longppl gives for fixed logits, for
tests/evaluation/test_reference.py.

    pip install torch==2.13.0 transformers==5.23.0 longppl==0.3.0
    python tests/golden/make_longppl.py

Nothing of pe_jax is imported.
"""

import types
from pathlib import Path

import numpy as np
import torch
from longppl.longppl import compute_longppl

TOKENS, VOCAB, CONTEXT, STRIDE = 62, 7, 16, 4


class Fixed:
    """A model whose logits are drawn beforehand: one table for the whole text, one for each part of
    it that it is called with.
    """

    device = "cpu"

    def __init__(self):
        self.full = 2.5 * np.random.default_rng(0).standard_normal((TOKENS, VOCAB))
        self.short = []

    def __call__(self, ids):
        logits = self.full
        if ids.shape[1] < TOKENS:
            logits = 2.5 * np.random.default_rng(1 + len(self.short)).standard_normal(
                (ids.shape[1], VOCAB)
            )
            self.short.append(logits)
        return types.SimpleNamespace(logits=torch.tensor(logits)[None])


def main():
    tokens = np.random.default_rng(9).integers(VOCAB, size=TOKENS)
    offsets = [[i, i + 1] for i in range(TOKENS)]

    def tokenizer(text, **options):
        ids, places = torch.tensor(tokens)[None], torch.tensor(offsets)[None]
        return {"input_ids": ids, "offset_mapping": places}

    model, evaluator = Fixed(), Fixed()
    model.full = np.roll(model.full, 1, axis=0)
    texts = "x" * TOKENS, model, evaluator, tokenizer, tokenizer
    found = compute_longppl(*texts, trunc_len=CONTEXT, sliding_window=STRIDE)
    short = np.zeros((len(evaluator.short), CONTEXT + STRIDE, VOCAB))
    for row, logits in zip(short, evaluator.short, strict=True):
        row[: len(logits)] = logits
    np.savez_compressed(
        Path(__file__).parent / "longppl.npz",
        tokens=tokens,
        full=evaluator.full,
        short=short,
        scored=model.full,
        longppl=found["longppl"],
        keys=found["n_key_token"],
    )
    print(found)


if __name__ == "__main__":
    main()
