"""Prompts: what their text is, where the answers and what they ask for lie, and their scores."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from pe_jax.data.documents import Documents
from pe_jax.data.tokenizer import BYTES, named
from pe_jax.evaluation.scoring import nats_and_lag
from pe_jax.metric import Predictions, PromptMetric, Request
from pe_jax.metrics import METRICS, ruler
from pe_jax.metrics.prompts import RECORDS

GOLDEN = Path(__file__).parents[1] / "golden"
GIVEN = json.loads((GOLDEN / "ruler.json").read_text())
ESSAY = np.frombuffer(("It was so. " + GIVEN["essay"] + " ").encode() * 40, np.uint8)
PROMPTS = [name for name, metric in METRICS.items() if isinstance(metric, PromptMetric)]


def test_of_equal_logits_the_first_is_right_as_in_greedy_decoding():
    logits = np.float32([[2, 7, 7], [7, 7, 7], [2, 3, 7]])
    lag = nats_and_lag(logits, np.array([2, 0, 2]))[..., 1]
    assert [bool(value) for value in lag] == [True, False, False]


@pytest.mark.parametrize("name", GIVEN["cases"])
def test_a_prompt_of_ruler_is_that_of_nvidias_generator(name):
    """tests/golden/make_ruler.py has run it, and kept what it drew."""
    case = GIVEN["cases"][name]
    if name == "variable_tracking":
        written = ruler.track(case["units"], case["names"], case["value"], case["places"])
    else:
        words = GIVEN["essay"].split(" ")
        repeated = (words * 2)[: case["units"]]
        sentences = re.split(r"(?<=[.!?]) ", " ".join(repeated)) if case["essay"] else None
        places = case["places"]
        if sentences:
            places = [int(len(sentences) * (depth / 100)) for depth in places]
        pairs = zip(case["keys"], case["values"], strict=True)
        needles = [ruler.NEEDLE.format(key=key, value=value) for key, value in pairs]
        written = ruler.ask(sentences, case["units"], needles, places, case["queries"])
    assert written == case["text"]


def asked(name, tokenizer, length, number=3):
    documents = tokenizer.encode([ESSAY])
    return METRICS[name].prompt(Request(tokenizer, length, number, Documents.of(documents)))


@pytest.mark.parametrize("name", [name for name in PROMPTS if not name.endswith("_exact")])
@pytest.mark.parametrize("spec", ["bytes", f"hf:{GOLDEN / 'pretrained' / 'llama_tied'}"])
def test_what_is_asked_for_lies_inside_the_window_token_by_token(name, spec):
    tokenizer = BYTES if spec == "bytes" else named(spec)
    for length in (1700, 3000):
        prompt = asked(name, tokenizer, length)
        assert length - 90 < len(prompt.tokens) <= length + 1
        answer = tokenizer.decode(prompt.tokens[prompt.answer]).decode()
        assert re.fullmatch(r"[0-9A-Z]+", answer)
        before = tokenizer.decode(prompt.tokens[: prompt.answer[0]]).decode().replace(" ", "")
        size = {"passkey": 5, "records": 8, "variable_tracking": 5}.get(name, 7)
        parts = [answer[i : i + size] for i in range(0, len(answer), size)]
        assert all(part in before for part in parts)
        assert len(parts) == {"records": 16, "niah_multiquery": 4, "variable_tracking": 5}.get(
            name, 1
        )
        assert len(prompt.depths) == len(prompt.answer) and 0 <= prompt.depths.min() <= 1
        assert prompt.answer[-1] in (len(prompt.tokens) - 1, len(prompt.tokens) - 3)
    again = asked(name, tokenizer, 1700)
    shorter = tokenizer.decode(again.tokens[again.answer])
    assert shorter == answer.encode()  # the same draws at every length
    assert tokenizer.decode(asked(name, tokenizer, 1700, 4).tokens) != tokenizer.decode(
        again.tokens
    )


def test_records_stand_at_even_depths_and_are_asked_for_in_another_order():
    prompt = asked("records", BYTES, 2000)
    text = BYTES.decode(prompt.tokens).decode()
    records = re.finditer(r"code of (\w+) is: ([\d ]+)\.", text)
    found = [(m.start(), *m.groups(), m.end()) for m in records]
    first, last = found[:RECORDS], found[RECORDS:]
    assert {record[1:3] for record in first} == {record[1:3] for record in last}
    order = [[record[1] for record in first].index(record[1]) for record in last]
    assert order != sorted(order)
    assert prompt.depths.reshape(RECORDS, 8)[:, 0].tolist() == [i / 15 for i in order]
    gaps = [b[0] - a[-1] for a, b in itertools.pairwise(first)]
    assert np.ptp(gaps) <= 2  # bytes of filler between two records


def test_answers_are_scored_by_nats_and_by_whole_prompts():
    scored = np.array([[False, True, True], [True, True, False]])
    right = np.array([[False, True, True], [True, False, False]])
    nats = np.array([[9.0, 0.1, 0.3], [0.2, 1.4, 9.0]])
    predictions = Predictions(scored, right, nats, nats, nats, nats)
    assert METRICS["niah_single_1"].value(predictions) == pytest.approx(0.5)
    assert METRICS["niah_single_1_exact"].value(predictions) == 50


def test_a_window_too_short_for_a_prompt_is_refused():
    for name, words in (("niah_multiquery", "of RULER"), ("records", "of records")):
        with pytest.raises(ValueError, match=f"{words} alone have [0-9]+ tokens, got the length"):
            asked(name, BYTES, 256)
    with pytest.raises(ValueError, match="at least 252 .the training length may be among them"):
        asked("passkey", BYTES, 64)
    with pytest.raises(ValueError, match="the longest document has"):
        asked("records", BYTES, 90_000)


def test_a_text_without_spaces_cannot_be_rulers_haystack():
    text = np.frombuffer(b"one_long_word" * 500, np.uint8)
    with pytest.raises(ValueError, match="cut at spaces, and the scored text has too few"):
        METRICS["niah_single_2"].prompt(Request(BYTES, 3000, 0, Documents.of([text])))
