"""Tasks of RULER (Hsieh et al., 2024; arXiv:2404.06654) as prompts: niah single 1 and 2, multikey 1
and multiquery, and variable tracking with one chain of 4 hops. The text of a prompt is, byte for
byte, that of NVIDIA's generator (NVIDIA/RULER, scripts/data/synthetic) for the same draws.

The answers stand behind the answer's prefix and are predicted from all that is before them, as in
teacher forcing; no text is generated. Scored are the tokens with a letter or a digit of the
answers, not the spaces, commas and "and" between several.

What is other than in the generator: the draws (numpy's generator, from the number of the prompt;
keys are of 48 x 90 words; needles stand in an order of their own in each prompt, which the
generator shuffles by the same seed every time), the essays (the text that is scored), sentences
end at ". ", "! " or "? " (the generator asks nltk), and the length: the generator goes by steps
made for 4,096 tokens and more, here as much text is given as fits, from the sentences alone on.
Variable tracking has its example in each prompt, with noise up to a quarter of the window or 500
tokens.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pe_jax.metric import Prompt, Request
from pe_jax.metrics.prompts import NOUNS

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = "One of the special magic numbers for {key} is: {value}."
ASKED = (
    "Some special magic {numbers} are hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {numbers} afterwards.\n{context}\nWhat are all the special magic "
    "{numbers} for {query} mentioned in the provided text? The special magic {numbers} for {query} "
    "mentioned in the provided text are"
)
TRACKED = (
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
    "{context}\nQuestion: Find all variables that are assigned the value {value} in the text "
    "above. Answer: According to the chain(s) of variable assignment in the text above, {count} "
    "variables are assigned the value {value}, they are: "
)
DEPTHS = np.round(np.linspace(0, 100, 40)).astype(int)
"""Where in an essay needles may stand, in percent of its sentences."""
HOPS = 4
EXAMPLE = 500
"""The most tokens of the example of variable tracking."""
ADJECTIVES = (
    "amber ancient brave bright calm careful clever cold crisp curious deep eager early elegant "
    "faint fancy fierce gentle giant golden grand happy hidden honest humble icy jolly kind lively "
    "loud lucky mellow modest narrow noble odd plain polite proud quiet rapid rusty shy silent "
    "small smooth tidy vivid"
).split()


class PromptText(NamedTuple):
    """The text of a prompt and what in it matters, in characters."""

    text: str
    answers: tuple[tuple[int, int, float], ...]
    """The first character of each answer, the one after its last, and the depth of its needle."""
    needles: tuple[tuple[int, int], ...]
    """The first character of each needle, and the one after its last."""


def single_1(request: Request) -> Prompt:
    """niah_single_1: one needle among lines of noise."""
    return _niah(request, keys=1, queries=1, essay=False)


def single_2(request: Request) -> Prompt:
    """niah_single_2: one needle among the sentences of the scored text."""
    return _niah(request, keys=1, queries=1, essay=True)


def multikey_1(request: Request) -> Prompt:
    """niah_multikey_1: four needles among the sentences of the scored text, one asked for."""
    return _niah(request, keys=4, queries=1, essay=True)


def multiquery(request: Request) -> Prompt:
    """niah_multiquery: four needles among the sentences of the scored text, all asked for."""
    return _niah(request, keys=4, queries=4, essay=True)


def variable_tracking(request: Request) -> Prompt:
    """vt: a chain of five variables among lines of noise, all asked for by their value; before it
    one example, with names of three letters.
    """
    rng = np.random.default_rng([request.number, HOPS])
    chains = [(_names(rng, size), str(rng.integers(10000, 99999))) for size in (3, 5)]
    places = np.sort(rng.random((2, HOPS + 1)), axis=1)

    def tracked(which: int, noise: int) -> PromptText:
        at = [int(place * noise) for place in places[which]]
        return track(noise, *chains[which], at)

    def example(noise: int) -> PromptText:
        shown = tracked(0, noise)
        return shown._replace(text=f"{shown.text} {' '.join(chains[0][0])}\n\n")

    before = _longest(request, example, min(EXAMPLE, request.length // 4), least=True)

    def whole(noise: int) -> PromptText:
        main = tracked(1, noise)
        return _behind(before.text, _answered(main, [f" {name}" for name in chains[1][0]], ""))

    return _prompt(request, _longest(request, whole, request.length + 1))


def ask(
    essay: Sequence[str] | None,
    noise: int,
    needles: Sequence[str],
    places: Sequence[int],
    queries: Sequence[str],
) -> PromptText:
    """The text of a niah task up to the answer's prefix, with it. `needles` stand in their order at
    the `places`: of the sentences of an `essay`, rising; else of so many lines of `noise`, falling.
    """
    if essay is None:
        lines = [NOISE] * noise
        for place, needle in zip(places, needles, strict=True):
            lines.insert(place, needle)
        context = "\n".join(lines)
    else:
        parts, last = [], 0
        for place, needle in zip(places, needles, strict=True):
            parts += [" ".join(essay[last:place]), needle]
            last = place
        context = " ".join([*parts, " ".join(essay[last:])])
    several = len(queries) > 1
    query = f"{', '.join(queries[:-1])}, and {queries[-1]}" if several else queries[0]
    template, numbers = ASKED, "numbers"
    if not several:
        template = template.replace("Some", "A").replace("are all", "is").replace("are", "is")
        numbers = "number"
    text = template.format(numbers=numbers, context=context, query=query)
    return _with_needles(text, needles)


def track(noise: int, names: Sequence[str], value: str, places: Sequence[int]) -> PromptText:
    """The text of variable tracking up to the answer's prefix, with it: the first name is assigned
    the value, each other one the name before it, at rising `places` among lines of `noise`.
    """
    chain = [f"VAR {names[0]} = {value}"]
    chain += [f"VAR {b} = VAR {a} " for a, b in zip(names, names[1:], strict=False)]
    lines = [NOISE] * noise
    for i, (place, link) in enumerate(zip(places, chain, strict=True)):
        lines.insert(place + i, link)
    context = "\n".join(lines).replace(". \n", ".\n")
    text = TRACKED.format(context=context, value=value, count=len(names))
    return _with_needles(text, [link.rstrip() for link in chain])


def _niah(request: Request, keys: int, queries: int, essay: bool) -> Prompt:
    rng = np.random.default_rng([request.number, keys, queries, essay])
    words = [f"{rng.choice(ADJECTIVES)}-{noun}" for noun in rng.choice(NOUNS, keys, replace=False)]
    values = [str(rng.integers(10**6, 10**7)) for _ in range(keys)]
    needles = [NEEDLE.format(key=k, value=v) for k, v in zip(words, values, strict=True)]
    asked = rng.permutation(keys)[:queries]
    depths, place, start = np.sort(rng.choice(DEPTHS, keys, replace=False)), *rng.random(2)
    text = _words(request, start) if essay else []

    def whole(units: int) -> PromptText:
        """With so many words of the essay, or lines of noise."""
        repeated = text * (units // max(1, len(text)) + 1)
        sentences = re.split(r"(?<=[.!?]) ", " ".join(repeated[:units])) if essay else None
        if sentences is None:
            at = [int(place * units)]
        else:
            at = [int(len(sentences) * (depth / 100)) for depth in depths]
        main = ask(sentences, units, needles, at, [words[i] for i in asked])
        answers = [f" {values[i]}" for i in asked]
        order = [main.needles[i] for i in asked]
        return _answered(main, answers, ", and" if len(asked) > 1 else "", order)

    return _prompt(request, _longest(request, whole, request.length + 1))


def _words(request: Request, start: float) -> list[str]:
    """The words of a passage of the scored text, at most twice as many tokens as the window.
    ValueError where it has none.
    """
    longest = max(map(len, request.documents), default=0)
    passage = request.passage(min(2 * request.length, longest) or 1, start)
    text = request.tokenizer.decode(passage).decode("utf-8", "ignore")
    words = re.sub(r"\s+", " ", text).strip().split(" ")[1:-1]  # words that may be cut
    if not words:
        raise ValueError(
            "the text around RULER's needles is cut at spaces, and the scored text has too few: "
            "give other text, or leave its metrics out of eval.metrics"
        )
    return words


def _names(rng: np.random.Generator, size: int) -> list[str]:
    names = dict[str, None]()
    while len(names) <= HOPS:
        names["".join(rng.choice([*string.ascii_uppercase], size))] = None
    return [*names]


def _with_needles(text: str, needles: Sequence[str]) -> PromptText:
    starts = [text.index(needle) for needle in needles]
    ends = [start + len(needle) for start, needle in zip(starts, needles, strict=True)]
    return PromptText(text, (), tuple(zip(starts, ends, strict=True)))


def _answered(
    main: PromptText,
    answers: Sequence[str],
    last: str,
    needles: Sequence[tuple[int, int]] | None = None,
) -> PromptText:
    """The text with its answers behind it; with `last`, commas between them and it before the last.
    `needles` are theirs, those of the text where None.
    """
    text, found = main.text, []
    for i, (answer, needle) in enumerate(zip(answers, needles or main.needles, strict=True)):
        if last and i:
            text += last if i == len(answers) - 1 else ","
        found.append((len(text), len(text) + len(answer), needle[0] / len(main.text)))
        text += answer
    return PromptText(text, tuple(found), main.needles)


def _behind(before: str, main: PromptText) -> PromptText:
    by = len(before)
    answers = tuple((start + by, end + by, depth) for start, end, depth in main.answers)
    needles = tuple((start + by, end + by) for start, end in main.needles)
    return PromptText(before + main.text, answers, needles)


def _longest(
    request: Request, write: Callable[[int], PromptText], most: int, least: bool = False
) -> PromptText:
    """What is written with as many units of text as fit in `most` tokens. Where it does not fit
    even without any: ValueError, or with `least` what is written without any.
    """

    def size(units: int) -> int:
        return len(request.encode(write(units).text.encode()))

    bare = size(0)
    if bare >= most and least:
        return write(0)
    if bare > most:
        raise request.short("this prompt of RULER", bare)
    units = trial = 16
    for _ in range(3):
        each = max(1e-9, (size(trial) - bare) / trial)
        units = int((most - bare) / each)
        trial = max(1, units)
    while units and (over := size(units) - most) > 0:
        units -= min(units, max(1, int(over / each)))
    return write(units)


def _prompt(request: Request, written: PromptText) -> Prompt:
    text = written.text
    tokens = request.encode(text.encode()).astype(np.int32)
    ends = np.cumsum(request.tokenizer.sizes[tokens])
    starts = ends - request.tokenizer.sizes[tokens]

    def inside(start: int, end: int) -> np.ndarray:
        """The tokens of these characters."""
        first, last = (len(text[:place].encode()) for place in (start, end))
        return np.flatnonzero((ends > first) & (starts < last))

    answer, depths = [], []
    for start, end, depth in written.answers:
        for token in inside(start, end):
            if re.search(rb"\w", request.tokenizer.pieces[tokens[token]]):
                answer.append(token)
                depths.append(depth)
    needles = tuple((int(of[0]), int(of[-1]) + 1) for of in (inside(*n) for n in written.needles))
    return Prompt(tokens, np.array(answer), np.array(depths), needles)
