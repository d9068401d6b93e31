"""Tasks that retrieve a token: their examples, their statistics, and where the token lies."""

import collections
import re

import numpy as np
import pytest
import scipy.stats
from test_tasks import samples

from pe_jax.tasks import TASKS

FLIP_FLOP = {"0": 0, "1": 1, "w": 2, "r": 3, "i": 4}
FILLER = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
PASSKEY = (
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. "
    "I will quiz you about the important information there.\n"
    "(.*)\n"
    "The pass key is ([1-9][0-9]{4})[.] Remember it[.] ([0-9]{5}) is the pass key[.]\n"
    "(.*)\n"
    "What is the pass key[?] The pass key is ([0-9]{4})"
)


@pytest.mark.parametrize(
    ("name", "fields", "tokens", "answers"),
    [
        (
            "mqar",
            {"vocabulary": 12, "keys": 2},
            [4, 11, 5, 7, 4, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0],
            {4: 11, 10: 7},
        ),
        ("induction", {}, [5, 3, 18, 7, 2, 9, 18], {6: 7}),
        (
            "selective_copy",
            {},
            [14, 3, *[14] * 8, 5, 4, 14, 1, 14, 15, 14, 14, 14, 14],
            {16: 3, 17: 5, 18: 4, 19: 1},
        ),
        ("flip_flop", {}, [FLIP_FLOP[c] for c in "w1i1i0i0i1i0i0i1i0r1"], {18: 1}),
        (
            "flip_flop",
            {},
            [FLIP_FLOP[c] for c in "w0w1r1r1r1r1w1w1r1r1"],
            dict.fromkeys((4, 6, 8, 10, 16, 18), 1),
        ),
    ],
)
def test_worked_examples(name, fields, tokens, answers):
    task = TASKS[name](**fields)
    assert task.has(len(tokens))
    wanted = task.oracle(tokens)
    assert {place: want for place, want in enumerate(wanted) if want is not None} == answers


def test_depth_is_where_the_retrieved_token_stands():
    depth = TASKS["mqar"](vocabulary=12, keys=2).depths([4, 11, 5, 7, 4, 0, 0, 0, 5, 0])
    assert [d for d in depth if d is not None] == [1 / 4, 3 / 8]
    assert TASKS["induction"]().depths([5, 3, 18, 7, 2, 9, 18]) == [None] * 6 + [3 / 6]
    for tokens, _, scored in samples(TASKS["selective_copy"](), 20, 5):
        depths = [d for d in TASKS["selective_copy"]().depths(tokens) if d is not None]
        assert len(depths) == sum(scored) == 4
        assert all(0 <= d <= 1 for d in depths)


def test_mqar_has_each_key_twice_and_each_value_once():
    task = TASKS["mqar"](vocabulary=8192)
    slots, told = [], []
    for tokens, targets, scored in samples(task, 64, 2000):
        seen = collections.Counter(tokens)
        pairs = dict(zip(tokens[0:8:2], tokens[1:8:2], strict=True))
        assert len(pairs) == 4
        assert all(0 < key < 4096 <= value for key, value in pairs.items())
        assert seen == {0: 64 - 12} | dict.fromkeys(pairs, 2) | dict.fromkeys(pairs.values(), 1)
        places = np.flatnonzero(scored)
        assert [targets[at] for at in places] == [pairs[tokens[at]] for at in places]
        slots += [(at - 8) // 2 for at in places]
        told += [value - 4096 in (key - 1, key) for key, value in pairs.items()]
    assert np.mean(told) < 0.01  # a key says nothing of its value
    assert np.mean(slots) == pytest.approx(7.2, abs=0.2)
    assert np.mean(np.equal(slots, 0)) == pytest.approx(0.18, abs=0.01)


def test_places_of_needles_are_uniform():
    arrows = [tokens.index(18) for tokens, *_ in samples(TASKS["induction"](), 9, 3000)]
    share = np.bincount(arrows) / len(arrows)
    np.testing.assert_allclose(share, np.full(6, 1 / 6), atol=0.03)

    data, drawn = np.zeros(15), []
    for tokens, *_ in samples(TASKS["selective_copy"](), 20, 3000):
        assert tokens[15:] == [15, 14, 14, 14, 14]
        data += np.less(tokens[:15], 14)
        drawn += [token for token in tokens if token < 14]
    assert scipy.stats.chisquare(np.bincount(drawn, minlength=14)).pvalue > 1e-3
    np.testing.assert_allclose(data / 3000, np.full(15, 4 / 15), atol=0.04)


@pytest.mark.parametrize(
    ("ignore", "reads", "copied"), [(0.1, 115.3, 0.95), (0.8, 26.4, 0.60), (0.98, 3.5, 0.51)]
)
def test_flip_flop_has_the_reads_of_its_source(ignore, reads, copied):
    task = TASKS["flip_flop"](ignore=ignore)
    found, right = 0, []
    for tokens, targets, scored in samples(task, 512, 400):
        guess = task.guess(tokens)
        assert guess is not None
        found += sum(scored)
        right += [guess[at] == targets[at] for at in range(512) if scored[at]]
    assert found / 400 == pytest.approx(reads, rel=0.04)
    assert np.mean(right) == pytest.approx(copied, abs=0.04)


def test_a_passkey_lies_in_the_text_of_its_source():
    task = TASKS["passkey"]()
    endless = (FILLER + " ") * 3
    places = []
    for tokens, targets, scored in samples(task, 200, 300):
        text = bytes(tokens).decode()
        found = re.fullmatch(PASSKEY, text)
        assert found
        before, key, again, after, begun = found.groups()
        assert len(before) + len(after) == 200
        assert endless.startswith(before) and endless.startswith(after)
        assert again == key and begun == key[:4]
        assert len(text) == 252 + 200
        # The source has 245 + g characters, without a space at the end, for a key of four digits.
        assert len(text) - len(" 1234") - 2 == 245 + 200
        assert bytes(t for t, s in zip(targets, scored, strict=True) if s).decode() == key
        assert np.flatnonzero(scored).tolist() == [447, 448, 449, 450, 451]
        depths = [d for d in task.depths(tokens) if d is not None]
        assert depths == [len(before) / 200] * 5
        places.append(len(before))
    assert np.mean(places) == pytest.approx(100, abs=12)
    assert min(places) < 10 and max(places) > 190


def test_a_passkey_lies_at_every_depth_equally_often_the_ends_included():
    task, depths, numbers = TASKS["passkey"](), [], []
    for tokens, targets, _ in samples(task, 9, 3000):
        depths.append(round(9 * task.depths(tokens)[-1]))
        numbers.append(bytes(targets[-5:]).decode())
    assert set(depths) == set(range(10))
    assert scipy.stats.chisquare(np.bincount(depths)).pvalue > 1e-3
    first = np.bincount([int(number[0]) for number in numbers], minlength=10)
    last = np.bincount([int(number[-1]) for number in numbers])
    assert first[0] == 0 and scipy.stats.chisquare(first[1:]).pvalue > 1e-3
    assert scipy.stats.chisquare(last).pvalue > 1e-3


def test_fields_that_leave_nothing_to_draw_are_errors():
    with pytest.raises(ValueError, match="keys=6 or raise vocabulary"):
        TASKS["mqar"](keys=6, vocabulary=12)
    with pytest.raises(ValueError, match="vocabulary must be an integer of at least 3, got 2"):
        TASKS["selective_copy"](vocabulary=2)
