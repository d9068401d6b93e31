"""The figures of a page of the atlas with their captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pe_jax.atlas import by_distance, curves, maps, overview, trained
from pe_jax.atlas.numbers import LOGIT, WEIGHT, Numbers
from pe_jax.atlas.watch import Watched


class AtlasFigure(NamedTuple):
    """A figure, drawn when it is asked for."""

    name: str
    """Of its files, without what says whose it is."""
    caption: str
    figure: Callable[[], object]


def figures(numbers: Numbers, watched: Watched | None = None) -> Iterator[AtlasFigure]:
    """Those of one encoding, as far as there is something to show."""
    if numbers.same.acts or numbers.random is not None:
        yield from _of_pairs(numbers)
    if numbers.vectors is not None:
        yield AtlasFigure(
            "vectors",
            "Dot products of the vectors that positions add to the input; right: their mean "
            "against the distance, with a band from the lowest to the highest.",
            lambda: maps.vectors(numbers),
        )
    if numbers.angles is not None:
        length, most = numbers.subject.length, numbers.subject.asked
        yield AtlasFigure(
            "rotary",
            "Left: the wavelength of each pair of components that is turned, in the first head; "
            f"open circles make less than one turn within {length} tokens. Right: the angles "
            "between tokens that training shows, as part of a turn, and those that are new within "
            f"{most} tokens.",
            lambda: curves.rotary(numbers),
        )
    if numbers.classes is not None:
        yield AtlasFigure(
            "classes",
            "Distances of one class are told apart by no relative term, whatever its parameters. "
            "T5 calls them buckets.",
            lambda: curves.classes(numbers),
        )
    if numbers.moved is not None:
        yield AtlasFigure(
            "positions",
            "The positions that are handed on, in training and in evaluation.",
            lambda: curves.moved(numbers),
        )
    if watched is not None:
        yield from _of_model(numbers, watched)


def _of_pairs(numbers: Numbers) -> Iterator[AtlasFigure]:
    subject, what = numbers.subject, WORDS[numbers.unit]
    note = " Grey: positions that it does not serve." if subject.served < subject.asked else ""
    content, second = "the same content", ""
    if not numbers.same.acts:
        content, second = "random content", " Where all tokens are alike, nothing is added."
    elif numbers.random is not None:
        second = (
            " The second row has other content at every token, since here the logits of a pair "
            "depend on what other tokens hold."
        )
    yield AtlasFigure(
        "logits",
        f"{what} of each query and key, where every token has {content}"
        f"{_parameters(numbers)}. Dashed: the training length, {subject.length} tokens; evaluated "
        f"at {subject.served}. White: keys that the query does not see.{note}{second}",
        lambda: maps.logits(numbers),
    )
    if not numbers.same.acts:
        return
    spread = "" if numbers.means.of_distance else " Bands: from the lowest pair to the highest."
    yield AtlasFigure(
        "distance",
        f"Left: the same against the distance, the mean of all pairs.{spread} Middle: the share of "
        "the last query's attention that lies within a distance. Right: how many keys, counted "
        f"from the query outwards, hold {by_distance.SHARE:.0%} of its attention. Shaded: beyond "
        "the training length.",
        lambda: curves.distance(numbers),
    )


WORDS = {
    LOGIT: "What the encoding adds to the logit",
    WEIGHT: "The logarithm of what the encoding multiplies the weight by,",
}


def _of_model(numbers: Numbers, watched: Watched) -> Iterator[AtlasFigure]:
    longest = max(watched.entropy)
    yield AtlasFigure(
        "attention",
        f"The trained model's mean weight of a key against its distance, at {longest} tokens of "
        "the text that is evaluated: of the last eighth of the queries. Dotted: all weights "
        "equal. Shaded: distances never seen in training.",
        lambda: trained.nearness(watched, numbers.subject.length),
    )
    yield AtlasFigure(
        "entropy",
        "The entropy of the trained model's weights against the length, of the last eighth of the "
        "queries. Dotted: all weights equal.",
        lambda: trained.entropy(watched),
    )
    yield AtlasFigure(
        "sentence",
        "The trained model's weights within one sentence: of the head that looks least far, and "
        "of the one that looks furthest.",
        lambda: trained.sentence(watched),
    )


def _parameters(numbers: Numbers) -> str:
    if numbers.subject.trained:
        return f", with the trained parameters of layer {numbers.subject.layer + 1}"
    if numbers.noised:
        return ", with noise on its parameters, which change nothing at their initial values"
    return ", with its parameters at their initial values" if any(numbers.subject.params) else ""


def overviews(of_all: Sequence[Numbers]) -> Iterator[AtlasFigure]:
    """Those of a dozen encodings."""
    shown = overview.dozen(of_all)
    if shown:
        trained = any(numbers.subject.trained for numbers in shown)
        values = "trained" if trained else "at their initial values"
        yield AtlasFigure(
            "distances",
            "What encodings add to the logit of a query and a key, against their distance, where "
            f"every token has the same content. Learned parameters are {values}. Bands, where the "
            "logit depends on more than the distance: from the lowest pair to the highest.",
            lambda: overview.distances(shown),
        )
        yield AtlasFigure(
            "maps",
            "The same of each query and key, in the second head. Dashed: the training length. "
            "Grey: positions that the encoding does not serve.",
            lambda: overview.maps(shown),
        )
