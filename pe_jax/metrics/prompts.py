"""Prompts: texts that are written to ask a model for something, each with its answer at the end.
Each function gives the prompt of one number at the evaluation length E, in the model's tokens.
ruler.py has those of RULER.
"""

from __future__ import annotations

import os

import numpy as np

from pe_jax.metric import Prompt, Request

FILLER = (
    b"The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
)
INTRODUCTION = (
    b"There is an important info hidden inside a lot of irrelevant text. Find it and memorize "
    b"them. I will quiz you about the important information there.\n"
)
DIGITS = 5
# The bytes 0 .. 4 stand for the digits of the number.
NEEDLE = b"\nThe pass key is \0\1\2\3\4. Remember it. \0\1\2\3\4 is the pass key.\n"
QUESTION = b"\nWhat is the pass key? The pass key is \0\1\2\3"

DEPTHS = 8
"""Passkeys of consecutive numbers are hidden at so many depths, evenly from 0 to 1."""
RECORDS, CODE = 16, 8
"""Records of a prompt, and digits of each."""
NOUNS = (
    "acorn anchor apple arrow badge basket beacon bell blanket bottle bridge brush bucket button "
    "cabin camera candle canyon carpet castle chair cherry circle clock cloud compass copper "
    "cotton crystal curtain desert drum engine feather fence flute forest fountain garden glove "
    "hammer harbor hammock island jacket kettle ladder lantern lemon magnet marble meadow mirror "
    "needle orchard paddle pebble pencil piano pillow planet pocket ribbon river rocket saddle "
    "shadow silver spider spoon station sunset table temple ticket tower tunnel umbrella valley "
    "violin wagon walnut whistle window winter zipper"
).split()


def passkey(request: Request) -> Prompt:
    """The passkey of tasks/passkey.py, a number of five digits hidden in filler text and asked for
    at its end, with as many tokens of filler as make E + 1 tokens.
    """
    number, encode = request.number, request.encode
    digits = str(np.random.default_rng(number).integers(10 ** (DIGITS - 1), 10**DIGITS)).encode()

    table = bytes.maketrans(bytes(range(DIGITS)), digits)
    asked = (QUESTION + bytes([DIGITS - 1])).translate(table)
    first, needle, end = map(encode, (INTRODUCTION, NEEDLE.translate(table), asked))
    room = request.length + 1 - sum(map(len, (first, needle, end)))
    if room < 0:
        raise request.short("passkey", request.length + 1 - room)
    copies = 1
    while len(filler := encode(FILLER * copies)) < room + 16:  # the last tokens depend on the cut
        copies *= 2
    depth = number % DEPTHS / (DEPTHS - 1)
    before = round(depth * room)
    tokens = np.concatenate([first, filler[:before], needle, filler[: room - before], end])
    answer = np.arange(_alike(encode(asked[:-DIGITS]), end), len(end)) + len(tokens) - len(end)
    return Prompt(tokens.astype(np.int32), answer, np.full(len(answer), depth))


def records(request: Request) -> Prompt:
    """16 records, "The code of WORD is: 4 0 1 9 2 7 7 3.", at even depths from 0 to 1 of a passage
    of the scored text, and at its end the same 16 in another order: E + 1 tokens in all. The tokens
    with the digits of the second copies are the answers, 128 where each digit is a token; words
    and spaces between digits are not scored. The end has as many tokens as the records, about
    5 % of a window of 8,192.
    """
    rng, encode = np.random.default_rng(request.number), request.encode
    words = rng.choice(NOUNS, RECORDS, replace=False)
    codes, order = rng.integers(10, size=(RECORDS, CODE)), rng.permutation(RECORDS)
    texts = [
        f"\nThe code of {word} is: {' '.join(map(str, code))}.\n".encode()
        for word, code in zip(words, codes, strict=True)
    ]
    written = [encode(text) for text in texts]
    room = request.length + 1 - 2 * sum(map(len, written))
    if room < 0:
        raise request.short("records", request.length + 1 - room)
    filler = request.passage(room, rng.random())
    cuts = [round(i * room / (RECORDS - 1)) for i in range(RECORDS)]
    parts, last = [], 0
    for record, cut in zip(written, cuts, strict=True):
        parts += [filler[last:cut], record]
        last = cut
    answer, depths, at = [], [], sum(map(len, parts))
    for i in order:
        parts.append(written[i])
        pieces = [request.tokenizer.pieces[token] for token in written[i].tolist()]
        of_digits = [j for j, piece in enumerate(pieces) if any(48 <= byte <= 57 for byte in piece)]
        answer += [at + j for j in of_digits]
        depths += [i / (RECORDS - 1)] * len(of_digits)
        at += len(written[i])
    return Prompt(np.concatenate(parts).astype(np.int32), np.array(answer), np.array(depths))


# How many tokens two texts have in common at their start.
def _alike(a: np.ndarray, b: np.ndarray) -> int:
    return len(os.path.commonprefix([a.tolist(), b.tolist()]))
