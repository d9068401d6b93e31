"""The figures of a page of the atlas with their captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pe_jax.atlas import by_distance, curves, maps, overview, trained
from pe_jax.atlas.sheet import LOGIT, WEIGHT, Sheet
from pe_jax.atlas.watch import Watched


class Drawn(NamedTuple):
    """A figure, drawn when it is asked for."""

    name: str
    """Of its files, without what says whose it is."""
    caption: str
    figure: Callable[[], object]


def figures(sheet: Sheet, watched: Watched | None = None) -> Iterator[Drawn]:
    """Those of one encoding, as far as there is something to show."""
    if sheet.same.acts or sheet.random is not None:
        yield from _of_pairs(sheet)
    if sheet.vectors is not None:
        yield Drawn(
            "vectors",
            "Dot products of the vectors that positions add to the input; right: their mean "
            "against the distance, with a band from the lowest to the highest.",
            lambda: maps.vectors(sheet),
        )
    if sheet.angles is not None:
        length, most = sheet.subject.length, sheet.subject.asked
        yield Drawn(
            "rotary",
            "Left: the wavelength of each pair of components that is turned, in the first head; "
            f"open circles make less than one turn within {length} tokens. Right: the angles "
            "between tokens that training shows, as part of a turn, and those that are new within "
            f"{most} tokens.",
            lambda: curves.rotary(sheet),
        )
    if sheet.classes is not None:
        yield Drawn(
            "classes",
            "Distances of one class are told apart by no relative term, whatever its parameters. "
            "T5 calls them buckets.",
            lambda: curves.classes(sheet),
        )
    if sheet.moved is not None:
        yield Drawn(
            "positions",
            "The positions that are handed on, in training and in evaluation.",
            lambda: curves.moved(sheet),
        )
    if watched is not None:
        yield from _of_model(sheet, watched)


def _of_pairs(sheet: Sheet) -> Iterator[Drawn]:
    subject, what = sheet.subject, WORDS[sheet.unit]
    note = " Grey: positions that it does not serve." if subject.served < subject.asked else ""
    content, second = "the same content", ""
    if not sheet.same.acts:
        content, second = "random content", " Where all tokens are alike, nothing is added."
    elif sheet.random is not None:
        second = (
            " The second row has other content at every token, since here the logits of a pair "
            "depend on what other tokens hold."
        )
    yield Drawn(
        "logits",
        f"{what} of each query and key, where every token has {content}"
        f"{_parameters(sheet)}. Dashed: the training length, {subject.length} tokens; evaluated at "
        f"{subject.served}. White: keys that the query does not see.{note}{second}",
        lambda: maps.logits(sheet),
    )
    if not sheet.same.acts:
        return
    spread = "" if sheet.means.of_distance else " Bands: from the lowest pair to the highest."
    yield Drawn(
        "distance",
        f"Left: the same against the distance, the mean of all pairs.{spread} Middle: the share of "
        "the last query's attention that lies within a distance. Right: how many keys, counted "
        f"from the query outwards, hold {by_distance.SHARE:.0%} of its attention. Shaded: beyond "
        "the training length.",
        lambda: curves.distance(sheet),
    )


WORDS = {
    LOGIT: "What the encoding adds to the logit",
    WEIGHT: "The logarithm of what the encoding multiplies the weight by,",
}


def _of_model(sheet: Sheet, watched: Watched) -> Iterator[Drawn]:
    longest = max(watched.entropy)
    yield Drawn(
        "attention",
        f"The trained model's mean weight of a key against its distance, at {longest} tokens of "
        "the text that is evaluated: of the last eighth of the queries. Dotted: all weights "
        "equal. Shaded: distances never seen in training.",
        lambda: trained.nearness(watched, sheet.subject.length),
    )
    yield Drawn(
        "entropy",
        "The entropy of the trained model's weights against the length, of the last eighth of the "
        "queries. Dotted: all weights equal.",
        lambda: trained.entropy(watched),
    )
    yield Drawn(
        "sentence",
        "The trained model's weights within one sentence: of the head that looks least far, and "
        "of the one that looks furthest.",
        lambda: trained.sentence(watched),
    )


def _parameters(sheet: Sheet) -> str:
    if sheet.subject.trained:
        return f", with the trained parameters of layer {sheet.subject.layer + 1}"
    if sheet.noised:
        return ", with noise on its parameters, which change nothing at their initial values"
    return ", with its parameters at their initial values" if any(sheet.subject.params) else ""


def overviews(sheets: Sequence[Sheet]) -> Iterator[Drawn]:
    """Those of a dozen encodings."""
    shown = overview.dozen(sheets)
    if shown:
        trained = any(sheet.subject.trained for sheet in shown)
        values = "trained" if trained else "at their initial values"
        yield Drawn(
            "distances",
            "What encodings add to the logit of a query and a key, against their distance, where "
            f"every token has the same content. Learned parameters are {values}. Bands, where the "
            "logit depends on more than the distance: from the lowest pair to the highest.",
            lambda: overview.distances(shown),
        )
        yield Drawn(
            "maps",
            "The same of each query and key, in the second head. Dashed: the training length. "
            "Grey: positions that the encoding does not serve.",
            lambda: overview.maps(shown),
        )
