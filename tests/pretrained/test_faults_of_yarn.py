"""`pe-jax extend` ranks faults that projects have shipped in YaRN below the right form, each by the
score that its case names.

The model is made by hand, so that all that it does is known: its one head looks DISTANCE tokens
back, by the phases between its queries and keys, and predicts the letter that follows the one that
it finds there. The text was written in this way, with one letter of ten drawn at random. Such a
head needs what YaRN promises: angles of fast pairs as they were, and sharper logits among more
keys.
"""

import numpy as np
import pytest
from commands import ROOT

from pe_jax.data.tokenizer import BYTES
from pe_jax.model.config import LmConfig
from pe_jax.pretrained.export import written
from pe_jax.pretrained.recommend import recommend
from pe_jax.runs.execute import execute
from pe_jax.runs.run import Run
from pe_jax.specs.parse import parse

LETTERS, DISTANCE, LENGTH, FACTOR = 16, 15, 512, 4
FAST, GAP = 12, 12.0
"""Pairs that the head uses, and by how many nats they lift the key that it looks for."""
LM = LmConfig(vocab=256, layers=1, model=64, heads=1, mlp=1, activation="silu", gated=True)
BASE, HALF, FOUND = 10000.0, LM.model // 2, LETTERS + 1
OWN = ROOT / "tests" / "support" / "faulty_yarn.py"

FAULTS = {
    "positions divided instead of frequencies": f"{OWN}:PositionsDivided",
    "temperature left out": "yarn(mscale=0.0)",
    "base doubled": f"yarn(base={2 * BASE})",
    "yarn upon ntk's base": f"yarn(base={BASE * FACTOR ** (2 * HALF / (2 * HALF - 2))})",
    "angles in float16": f"{OWN}:HalfAngles",
}


def looking_back():
    """The parameters of the model, by their names. Of the residual stream the first dimensions are
    the letter, the next one is constant, and those from FOUND on get the letter that was found.
    """
    letter = np.arange(LETTERS)
    byte, following = ord("a") + letter, (letter + 1) % LETTERS
    embedding = np.zeros((LM.vocab, LM.model))
    embedding[:, LETTERS] = 1
    embedding[byte, letter] = 1
    of_norm = np.sqrt(LM.model / 2)  # by which a norm multiplies a letter and a 1
    size = np.sqrt(GAP / FAST / of_norm**2 * np.sqrt(2 * HALF)) * (np.arange(HALF) < FAST)
    turned = BASE ** (-np.arange(HALF) / HALF) * DISTANCE
    query, key, value = (np.zeros((LM.model, 2 * HALF)) for _ in range(3))
    query[LETTERS, :HALF] = size
    key[LETTERS] = np.concatenate([size * np.cos(turned), size * np.sin(turned)])
    value[letter, letter] = 1 / of_norm
    out = np.zeros((2 * HALF, LM.model))
    out[letter, FOUND + following] = 1
    head = np.zeros((LM.model, LM.vocab))
    head[LETTERS] = -10
    head[LETTERS, byte] = 0
    head[FOUND + letter, byte] = 1
    block = {
        "query.kernel": query,
        "key_value.kernel": np.concatenate([key, value], 1),
        "out.kernel": out,
        "gate.kernel": np.zeros((LM.model, 1)),
        "up.kernel": np.zeros((LM.model, 1)),
        "down.kernel": np.zeros((LM.model, 1)),
        "attention_norm.scale": np.ones(LM.model),
        "mlp_norm.scale": np.ones(LM.model),
    }
    whole = {"embedding": embedding, "norm.scale": np.ones(LM.model), "head.kernel": head}
    return whole | {f"blocks.0.{name}": array for name, array in block.items()}


USUAL, OTHERS = (*FAULTS,)[:3], (*FAULTS,)[3:]  # lists are no keys of pytest's: a run for each
CASES = [pytest.param(USUAL, fault, id=fault) for fault in USUAL]
CASES += [pytest.param(OTHERS, fault, id=fault, marks=pytest.mark.slow) for fault in OTHERS]


@pytest.fixture(scope="module")
def found(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("faults")
    (member,) = parse("rope").encodings(LM.dims(LENGTH))
    written(LM, (member,), LENGTH, looking_back(), BYTES.as_json(), folder / "model")
    rng = np.random.default_rng(0)
    text = rng.integers(LETTERS, size=6 * FACTOR * LENGTH)
    for i in np.flatnonzero(rng.random(text.size) < 0.9):
        text[i] = (text[i - DISTANCE - 1] + 1) % LETTERS
    (folder / "text.txt").write_bytes((ord("a") + text).astype(np.uint8).tobytes())
    swaps = ("yarn", *(FAULTS[fault] for fault in request.param))
    asked = {"lengths": (LENGTH, FACTOR * LENGTH), "swaps": swaps}
    asked |= {
        "metrics": ("same_targets", "kl"),
        "targets": 6 * 200,
        "last": 200,
        "reference": LENGTH,
    }
    run = Run.pretrained(f"hf:{folder / 'model'}", f"files:{folder / 'text.txt'}", asked)
    return recommend(execute(run, folder / "runs"), run.encodings)


@pytest.mark.parametrize(("found", "fault"), CASES, indirect=["found"], scope="module")
def test_a_fault_of_yarn_is_ranked_below_it_by_bits_per_byte_and_by_kl(found, fault):
    assert [metric.name for metric in found.metrics] == ["same_targets", "kl"]
    assert found.choices[0].name == "yarn"
    (right,) = (c for c in found.choices if c.name == "yarn")
    (wrong,) = (c for c in found.choices if c.way.swap == FAULTS[fault])
    assert (
        wrong.difference.change.mean > 0.1 and wrong.difference.p < 0.001
    )  # bits, over places; by Holm's method
    assert not wrong.scores[0].best and not wrong.difference.equivalent
    assert wrong.scores[1].mean > 2 * right.scores[1].mean and not wrong.scores[1].best
    of_base = fault in ("base doubled", "yarn upon ntk's base")
    assert (wrong.short.mean > 0.1) is of_base  # these two harm at the training length already
