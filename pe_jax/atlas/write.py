"""The folder of an atlas: the HTML page, the table of properties, every captioned figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pe_jax.atlas import by_distance, figures, watch
from pe_jax.atlas.facts import COLUMNS, NOTES, Facts, by_group, texts
from pe_jax.atlas.numbers import Numbers
from pe_jax.atlas.probe import LOGIT, WEIGHT
from pe_jax.atlas.subject import Subject
from pe_jax.atlas.watch import Watched
from pe_jax.report import sheet, style
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.storage import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = "figures"
"""The folder of the figures of single encodings."""


class Shown(NamedTuple):
    """A figure of the page."""

    svg: str
    inches: float
    caption: str


class Entry(NamedTuple):
    """A section of the page."""

    subject: Subject
    texts: list[str]
    """The cells of its row in the table of properties."""
    figures: list[Shown]


def write(
    subjects: Sequence[Subject],
    out: Path,
    command: str,
    told: Callable[[int, str], None],
) -> list[Path]:
    """Writes atlas.html, properties.md and .csv and, of several encodings, distances and maps
    (.png, .pdf) into `out`, and NAME.FIGURE.png and .pdf of every encoding into `out`/figures.
    Returns the paths of the files in `out` itself. `told` gets the number of subjects that are done
    and the name of the next. Nothing is written where one of them fails.
    """
    of_all, entries = [], []
    with atomic.together(out) as draft, atomic.together(out / FIGURES) as drafts:
        for i, (subject, name) in enumerate(zip(subjects, _names(subjects), strict=True)):
            told(i, subject.name)
            numbers = Numbers.of(subject)
            watched = watch.watch(subject.trained) if subject.trained else None
            drawn = figures_of(numbers, watched)  # one at a time: a figure holds its maps
            shown = [_shown(one, drafts / f"{name}.{one.name}") for one in drawn]
            of_all.append(numbers)
            entries.append(Entry(subject, texts(numbers.facts), shown))
        told(len(subjects), "writing")
        above = [_shown(one, draft / one.name) for one in overviews(of_all)]
        facts = [numbers.facts for numbers in of_all]
        atomic.write(draft / "properties.md", sheet.markdown(properties(facts)))
        atomic.write(draft / "properties.csv", sheet.csv(properties(facts)))
        atomic.write(draft / "atlas.html", page(entries, by_group(facts), above, command))
        written = sorted(path.name for path in draft.iterdir())
    return [out / name for name in written]


def _names(subjects: Sequence[Subject]) -> list[str]:
    """A name for the files of each, numbered where two would have one."""
    slugs = [subject.slug for subject in subjects]
    return [
        slug if slugs.index(slug) == i else f"{slug}_{1 + slugs[:i].count(slug)}"
        for i, slug in enumerate(slugs)
    ]


def _shown(one: AtlasFigure, path: Path) -> Shown:
    style.save(one.figure, path)
    return Shown(style.svg(one.figure), one.figure.get_figwidth(), one.caption)


def properties(facts: Sequence[Facts]) -> list[Sheet]:
    """A table of properties for each group."""
    titles = tuple(COLUMNS.values())
    notes = tuple(Note(COLUMNS[field], note, general=True) for field, note in NOTES.items())
    rows = [texts(one) for one in facts]
    return [
        Sheet(
            group,
            titles,
            (("", tuple(tuple(map(Printed, rows[i])) for i in places)),),
            notes,
            tuple({"group": group} | dict(zip(titles, rows[i], strict=True)) for i in places),
            left=True,
        )
        for group, places in by_group(facts).items()
    ]


def page(
    entries: Sequence[Entry],
    groups: Mapping[str, Sequence[int]],
    above: Sequence[Shown],
    command: str,
) -> str:
    """The HTML page: one file without outside resources; `groups` has places in `entries`."""
    return sheet.html(
        Path(__file__).with_name("atlas.html.j2"),
        entries=entries,
        groups=groups,
        columns=COLUMNS,
        notes=NOTES,
        above=above,
        command=command,
    )


class AtlasFigure(NamedTuple):
    """A figure of one encoding or of several."""

    name: str
    """The last part of the names of its files."""
    caption: str
    figure: Figure


def figures_of(numbers: Numbers, watched: Watched | None = None) -> Iterator[AtlasFigure]:
    """The figures of one encoding, as far as there is something to show."""
    subject = numbers.subject
    if numbers.same.acts or numbers.random is not None:
        yield from _of_pairs(numbers)
    if numbers.vectors is not None:
        yield AtlasFigure(
            "vectors",
            "Dot products of the vectors that positions add to the input; right: their mean "
            "against the distance, with a band from the lowest to the highest.",
            figures.vectors(subject, numbers.vectors),
        )
    if numbers.angles is not None:
        yield AtlasFigure(
            "rotary",
            "Left: the wavelength of each pair of components that is turned, in the first head; "
            f"open circles make less than one turn within {subject.length} tokens. Right: the "
            "angles between tokens that training shows, as part of a turn, and those that are new "
            f"within {subject.asked} tokens.",
            figures.rotary(subject, *numbers.angles),
        )
    if numbers.classes is not None:
        yield AtlasFigure(
            "classes",
            "Distances of one class are told apart by no relative term, whatever its parameters. "
            "T5 calls them buckets.",
            figures.classes(subject, numbers.classes),
        )
    if numbers.moved is not None:
        yield AtlasFigure(
            "positions",
            "The positions that are handed on, in training and in evaluation.",
            figures.moved(subject, numbers.moved),
        )
    if watched is not None:
        yield from _of_model(numbers, watched)


def _of_pairs(numbers: Numbers) -> Iterator[AtlasFigure]:
    subject, what = numbers.subject, WORDS[numbers.same.unit]
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
        figures.logits(numbers),
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
        figures.distance(numbers),
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
        watch.draw_nearness(watched, numbers.subject.length),
    )
    yield AtlasFigure(
        "entropy",
        "The entropy of the trained model's weights against the length, of the last eighth of the "
        "queries. Dotted: all weights equal.",
        watch.draw_entropy(watched),
    )
    yield AtlasFigure(
        "sentence",
        "The trained model's weights within one sentence: of the head that looks least far, and "
        "of the one that looks furthest.",
        watch.draw_sentence(watched),
    )


def _parameters(numbers: Numbers) -> str:
    if numbers.subject.trained:
        return f", with the trained parameters of layer {numbers.subject.layer + 1}"
    if numbers.noised:
        return ", with noise on its parameters, which change nothing at their initial values"
    return ", with its parameters at their initial values" if any(numbers.subject.params) else ""


def overviews(of_all: Sequence[Numbers]) -> Iterator[AtlasFigure]:
    """The figures of a dozen encodings; none for one, whose own figures show as much."""
    shown = figures.dozen(of_all)
    if len(of_all) > 1 and shown:
        trained = any(numbers.subject.trained for numbers in shown)
        values = "trained" if trained else "at their initial values"
        yield AtlasFigure(
            "distances",
            "What encodings add to the logit of a query and a key, against their distance, where "
            f"every token has the same content. Learned parameters are {values}. Bands, where the "
            "logit depends on more than the distance: from the lowest pair to the highest.",
            figures.distances(shown),
        )
        yield AtlasFigure(
            "maps",
            "The same of each query and key, in the second head. Dashed: the training length. "
            "Grey: positions that the encoding does not serve.",
            figures.maps(shown),
        )
