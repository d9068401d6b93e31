"""Tasks of RULER (Hsieh et al., 2024; arXiv:2404.06654) as prompts: niah single 1 and 2, multikey 1
and multiquery, and variable tracking with one chain of 4 hops. The text of a prompt is, byte for
byte, that of NVIDIA's generator (NVIDIA/RULER, scripts/data/synthetic) for the same draws.

The answers stand behind the answer's prefix and are predicted from all that is before them, as in
teacher forcing; no text is generated. Scored are the tokens with a letter or a digit of the
answers, not the spaces, commas and "and" between several.

What is other than in the generator: the draws (numpy's generator, from the number of the prompt;
keys are of 48 x 86 words; needles stand in an order of their own in each prompt, which the
generator shuffles by the same seed every time), the essays (the text that is scored), sentences
end at ". ", "! " or "? " (the generator asks nltk), and the length: the generator goes by steps
made for 4,096 tokens and more, here as much text is given as fits, from the sentences alone on.
Variable tracking has its example in each prompt, with noise up to a quarter of the window or 500
tokens.
"""

from __future__ import annotations

import functools
import itertools
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
    """The text of a prompt with its answers."""

    text: str
    answers: tuple[tuple[int, int, float], ...]
    """The first character of each answer, the one after its last, and the depth of its needle."""


def niah(request: Request, keys: int, queries: int, essay: bool) -> Prompt:
    """`keys` needles among the sentences of the scored text, or among lines of noise; `queries` of
    them are asked for.
    """
    rng = np.random.default_rng([request.number, keys, queries, essay])
    words = [f"{rng.choice(ADJECTIVES)}-{noun}" for noun in rng.choice(NOUNS, keys, replace=False)]
    values = [str(rng.integers(10**6, 10**7)) for _ in range(keys)]
    needles = [NEEDLE.format(key=k, value=v) for k, v in zip(words, values, strict=True)]
    asked = rng.permutation(keys)[:queries]
    depths, place, start = np.sort(rng.choice(DEPTHS, keys, replace=False)), *rng.random(2)
    text = _words(request, start) if essay else []

    def whole(units: int) -> PromptText:  # words of the essay, or lines of noise
        repeated = text * (units // max(1, len(text)) + 1)
        sentences = re.split(r"(?<=[.!?]) ", " ".join(repeated[:units])) if essay else None
        if sentences is None:
            at = [int(place * units)]
        else:
            at = [int(len(sentences) * (depth / 100)) for depth in depths]
        main = ask(sentences, units, needles, at, [words[i] for i in asked])
        answers = [(f" {values[i]}", needles[i]) for i in asked]
        return _answered(main, answers, ", and" if len(asked) > 1 else "")

    return _prompt(request, _longest(request, whole, request.length + 1))


single_1 = functools.partial(niah, keys=1, queries=1, essay=False)
single_2 = functools.partial(niah, keys=1, queries=1, essay=True)
multikey_1 = functools.partial(niah, keys=4, queries=1, essay=True)
multiquery = functools.partial(niah, keys=4, queries=4, essay=True)


def variable_tracking(request: Request) -> Prompt:
    """vt: a chain of five variables among lines of noise, all asked for by their value; before it
    one example, with names of three letters.
    """
    rng = np.random.default_rng([request.number, HOPS])
    chains = [(_names(rng, size), str(rng.integers(10000, 99999))) for size in (3, 5)]
    places = np.sort(rng.random((2, HOPS + 1)), axis=1)

    def tracked(which: int, noise: int) -> str:
        at = [int(place * noise) for place in places[which]]
        return track(noise, *chains[which], at)

    def example(noise: int) -> PromptText:
        return PromptText(f"{tracked(0, noise)} {' '.join(chains[0][0])}\n\n", ())

    names, value = chains[1]
    before = _longest(request, example, min(EXAMPLE, request.length // 4), least=True)

    def whole(noise: int) -> PromptText:
        answers = [
            (f" {name}", link) for name, link in zip(names, _links(names, value), strict=True)
        ]
        return _answered(tracked(1, noise), answers, "", before.text)

    return _prompt(request, _longest(request, whole, request.length + 1))


def ask(
    essay: Sequence[str] | None,
    noise: int,
    needles: Sequence[str],
    places: Sequence[int],
    queries: Sequence[str],
) -> str:
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
    return template.format(numbers=numbers, context=context, query=query)


def track(noise: int, names: Sequence[str], value: str, places: Sequence[int]) -> str:
    """The text of variable tracking up to the answer's prefix, with it: the first name is assigned
    the value, each other one the name before it, at rising `places` among lines of `noise`.
    """
    lines = [NOISE] * noise
    for i, (place, link) in enumerate(zip(places, _links(names, value), strict=True)):
        lines.insert(place + i, link if i == 0 else f"{link} ")
    context = "\n".join(lines).replace(". \n", ".\n")
    return TRACKED.format(context=context, value=value, count=len(names))


def _links(names: Sequence[str], value: str) -> list[str]:
    first = f"VAR {names[0]} = {value}"
    return [first, *(f"VAR {b} = VAR {a}" for a, b in itertools.pairwise(names))]


# The words of a passage of the scored text, of at most twice as many tokens as the window.
def _words(request: Request, start: float) -> list[str]:
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


# The text between `before` and its answers, given with their needles; with `last`, commas stand
# between the answers and it before the last.
def _answered(
    main: str, answers: Sequence[tuple[str, str]], last: str, before: str = ""
) -> PromptText:
    text, spans = before + main, []
    for i, (answer, needle) in enumerate(answers):
        if last and i:
            text += last if i == len(answers) - 1 else ","
        spans.append((len(text), len(text) + len(answer), main.index(needle) / len(main)))
        text += answer
    return PromptText(text, tuple(spans))


# write(units) for as many units of text as fit in `most` tokens. Where it does not fit even without
# any: ValueError, or with `least` write(0).
def _longest(
    request: Request, write: Callable[[int], PromptText], most: int, least: bool = False
) -> PromptText:
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

    answer, depths = [], []
    for start, end, depth in written.answers:
        first, last = (len(text[:place].encode()) for place in (start, end))
        for token in np.flatnonzero((ends > first) & (starts < last)):
            if re.search(rb"\w", request.tokenizer.pieces[tokens[token]]):
                answer.append(token)
                depths.append(depth)
    return Prompt(tokens, np.array(answer), np.array(depths))
