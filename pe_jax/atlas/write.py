"""The folder of an atlas: the HTML page, the table of properties, and every figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pe_jax.atlas import gallery, watch
from pe_jax.atlas.facts import COLUMNS, Facts, by_group, texts
from pe_jax.atlas.gallery import AtlasFigure
from pe_jax.atlas.numbers import Numbers
from pe_jax.atlas.subject import Subject
from pe_jax.report import sheet, style
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.storage import atomic

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
    facts: list[tuple[str, str]]
    figures: list[Shown]


def write(
    subjects: Sequence[Subject],
    out: Path,
    command: str,
    told: Callable[[int, str], None] = lambda done, name: None,
) -> list[Path]:
    """Writes atlas.html, properties.md and .csv, distances and maps (.png, .pdf) into `out`, and
    NAME.FIGURE.png and .pdf of every encoding into `out`/figures. Returns the paths of the files in
    `out` itself. `told` hears how many of the subjects are done. Nothing is written where one of
    them fails.
    """
    of_all, entries = [], []
    with atomic.together(out) as draft, atomic.together(out / FIGURES) as drafts:
        for i, (subject, name) in enumerate(zip(subjects, _names(subjects), strict=True)):
            told(i, subject.name)
            numbers = Numbers.of(subject)
            watched = watch.watch(subject.trained) if subject.trained else None
            drawn = gallery.figures(numbers, watched)
            shown = [_shown(one, drafts / f"{name}.{one.name}") for one in drawn]
            facts = list(zip(COLUMNS.values(), texts(numbers.facts), strict=True))
            of_all.append(numbers)
            entries.append(Entry(subject, facts, shown))
        told(len(subjects), "writing")
        above = [_shown(one, draft / one.name) for one in gallery.overviews(of_all)]
        facts = [numbers.facts for numbers in of_all]
        atomic.write(draft / "properties.md", sheet.markdown(properties(facts)))
        atomic.write(draft / "properties.csv", sheet.csv(properties(facts)))
        atomic.write(draft / "atlas.html", page(entries, facts, above, command))
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
    figure: Any = one.figure()
    style.save(figure, path)
    return Shown(style.svg(figure), figure.get_figwidth(), one.caption)


def properties(facts: Sequence[Facts]) -> list[Sheet]:
    """A table of properties for each group."""
    notes = tuple(Note(COLUMNS[field], note, general=True) for field, note in NOTES.items())
    return [
        Sheet(
            title,
            tuple(COLUMNS.values()),
            (("", tuple(tuple(map(Printed, texts(one))) for one in members)),),
            notes,
            tuple(
                {"group": title} | dict(zip(COLUMNS.values(), texts(one), strict=True))
                for one in members
            ),
            left=True,
        )
        for title, members in by_group(facts).items()
    ]


def page(
    entries: Sequence[Entry], facts: Sequence[Facts], above: Sequence[Shown], command: str
) -> str:
    """The HTML page: one file without outside resources."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    source = Path(__file__).with_name("atlas.html.j2").read_text("utf-8")
    rows = {id(one): i for i, one in enumerate(facts)}
    groups = {
        title: [(rows[id(one)], texts(one)) for one in members]
        for title, members in by_group(facts).items()
    }
    return environment.from_string(source).render(
        entries=entries,
        groups=groups,
        columns=COLUMNS,
        notes=NOTES,
        above=above,
        command=command,
    )


NOTES = {
    "reads": "absolute: the output depends on a token's own position; relative: on the positions "
    "of two tokens; both: on either; order: on no position, at most on which token comes first; "
    "moved: it changes the positions that others read.",
    "distance_alone": "whether outputs stay the same when all positions are shifted equally.",
    "content": "what the term that is added to the logit of a query and a key depends on besides "
    "positions: no content, that of the pair, or that of other tokens, too.",
    "decays": "the heads in which the logit falls with the distance and nowhere rises, within "
    "four training lengths, for tokens of equal content.",
    "window": "the fewest keys, counted outwards, that hold 90 % of the last query's attention, "
    "for tokens of equal content: the lowest and the highest of the heads.",
    "hides": "the distance from which keys are hidden, + the first keys that never are.",
    "parameters": "numbers that the whole model learns for it.",
    "limit": "how many positions it serves.",
    "constant_from": "the distance from which no term of the distance changes any more.",
    "trained_from": "the shortest training length that reaches every parameter.",
    "random": "when it draws positions at random.",
    "adapts": "whether it is another function at four times the training length, by its own rule.",
    "causal_only": "whether a model that sees later tokens is refused.",
}
"""What the columns mean that need a word."""
