"""Published claims on length extrapolation, each with a status computed from the records: the table
of docs/claims.md and its count in README.md, which scripts/readme writes.

results/claims.csv has a row for each claim: the sentence, the encodings, its source, the size of
its models, what was published (numbers of results/reference with their marks), our tests with
semicolons between them, and a note. A test is a value of numbers.py and what the claim says of it:
`> 0`, `< 0`, or `within 0.02`, that is of 0.

    results/headroom alibi same_targets 1024 less 64 within 0.02

Tests are t tests over the replicas of the value (seeds, places or prompts), of `within` two
one-sided ones (TOST). Holm's method corrects them for the number of tests of the claim. At 5 % a
test holds, or fails (the opposite sign; a mean beyond the margin), or is open. A claim is
reproduced where all its tests hold, reproduced in part where some do, contradicted where none holds
and one fails, not decided where all are open, and untested without a test. A test whose study has a
config and no records yet is printed as planned.

results/sentences.csv has the tests behind the sentences of notes: a page, words of its text, a test
and what is found, `holds` or `open`. Holm's method corrects the tests of a page together.
scripts/readme --check fails for words that the page lacks and for a test that finds otherwise.
"""

from __future__ import annotations

import csv
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from experiments.docs import numbers
from pe_jax.metrics import METRICS
from pe_jax.record import Replica
from pe_jax.report import stats
from pe_jax.report.phrases import plusminus

ROOT = Path(__file__).resolve().parents[2]
FILE, SENTENCES = ROOT / "results/claims.csv", ROOT / "results/sentences.csv"
STATUSES = "reproduced", "reproduced in part", "not decided", "contradicted", "untested"
RULE = re.compile(r"(?P<value>.+) (?P<says>> 0|< 0|within (?P<margin>\d*\.?\d+))")


class Test(NamedTuple):
    """A value of ours, tested against what a claim says of it."""

    expression: str
    says: str
    mean: float
    half: float
    p: float
    """Of what the mean supports, adjusted by Holm's method."""
    supports: bool
    """Whether the mean lies where the claim says."""

    @property
    def status(self) -> str:
        if not self.p <= stats.LEVEL:
            return "open"
        return "holds" if self.supports else "fails"


class Claim(NamedTuple):
    row: dict[str, str]
    tests: tuple[Test, ...]

    @property
    def status(self) -> str:
        seen = Counter(test.status for test in self.tests)
        if not self.tests:
            return "untested"
        if seen["holds"]:
            return "reproduced" if seen["holds"] == len(self.tests) else "reproduced in part"
        return "contradicted" if seen["fails"] else "not decided"


@functools.cache
def claims() -> list[Claim]:
    """The claims of results/claims.csv in its order. ValueError for a test that cannot be read."""
    return [Claim(row, tested(_rules(row))) for row in _rows(FILE)]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _rules(row: Mapping[str, str], planned: bool = False) -> list[str]:
    rules = filter(None, row["rule"].split("; "))
    return [rule for rule in rules if bool(_planned(rule)) == planned]


def _planned(rule: str) -> str:
    # The config of a test whose study has no records yet: [planned](link), rope at 1024 less 64
    study, _, of = rule.removeprefix("results/").partition(" ")
    name, _, part = study.partition(":")
    if (ROOT / "results" / name).is_dir() or not (ROOT / f"configs/{name}.py").is_file():
        return ""
    return f"[planned](../configs/{name}.py): {part and part + ' '}{of}"


def tested(rules: Iterable[str]) -> tuple[Test, ...]:
    """The tests of a claim, with their p values adjusted for their number."""
    tests = [_test(rule) for rule in rules]
    adjusted = stats.holm([test.p for test in tests])
    return tuple(test._replace(p=p) for test, p in zip(tests, adjusted, strict=True))


def _test(rule: str) -> Test:
    read = RULE.fullmatch(rule)
    if read is None:
        raise ValueError(f"{rule!r} must end with > 0, < 0 or within MARGIN")
    values = numbers.values(read["value"])
    mean, half, _ = stats.interval(list(values.values()))
    if read["margin"]:
        p, supports = _within(values, mean, float(read["margin"]))
    else:
        (p,) = stats.p_values([values], dict.fromkeys(values, 0.0))
        supports = mean > 0 if read["says"] == "> 0" else mean < 0
    return Test(read["value"], read["says"], mean, half, p, supports)


def _within(values: Mapping[Replica, float], mean: float, margin: float) -> tuple[float, bool]:
    nothing = dict.fromkeys(values, 0.0)
    if abs(mean) <= margin:
        return stats.equivalence(values, nothing, margin), True
    bound = dict.fromkeys(values, margin if mean > 0 else -margin)
    (p,) = stats.p_values([values], bound)
    return p, False


def table() -> str:
    """The claims in the order of their statuses."""
    head = "claim", "source", "published", "here: value, what the claim says of it, p", "status"
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|"]
    for claim in sorted(claims(), key=lambda claim: STATUSES.index(claim.status)):
        row = claim.row
        source = f"{row['source']}; {row['size']}"
        tests = *map(_printed, claim.tests), *map(_planned, _rules(row, planned=True))
        ours = "<br>".join(filter(None, (*tests, row["note"]))) or "no study"
        named = f"{row['claim']} (`{row['encodings']}`)" if row["encodings"] else row["claim"]
        typed = "<!--" not in row["published"] and re.search(r"\d", row["published"])
        published = row["published"] + (" †" if typed else "")
        cells = named, source, published, ours, f"**{claim.status}**"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _printed(test: Test) -> str:
    # A test in a cell: [headroom](link), 0.1 M, alibi at 1024 less 64: 0.003 ± 0.006 bits per byte,
    # within 0.02: holds (p 0.004).
    mark = numbers.MARK.fullmatch(f"<!-- {test.expression} -->0")
    assert mark
    study = mark["study"].removeprefix("results/")
    folder, _, part = study.partition(":")
    unit = METRICS[mark["metric"]].unit if mark["metric"] in METRICS else "bits"
    unit, digits = unit.partition(",")[0].removesuffix(" above Bayes"), 3 + (test.half < 0.002)
    unit, digits = ("points", 1) if "%" in unit else (unit, digits)
    value = plusminus(test.mean, test.half, digits=digits)
    p = f"p {test.p:.1g}" if test.p >= 1e-4 else "p < 0.0001"
    page = "NOTES" if (FILE.parent / folder / "NOTES.md").is_file() else "table"
    runs = numbers.study(mark["study"]).runs.values()
    sizes = sorted(run.parameters.total / 1e6 for run in runs if run.parameters)
    of = test.expression.partition(" ")[2].replace(f" {mark['metric']} ", " at ", 1)
    size = sizes[len(sizes) // 2]
    size = f"{size:.1f}" if size >= 0.1 else f"{size:.2f}"
    named = f"[{folder}](../results/{folder}/{page}.md), {size} M, {_part(part)}{of}"
    return f"{named}: {value} {unit}, {test.says}: {test.status} ({p})"


def _part(part: str) -> str:
    # "L = 64, heads = 4, " of "64,heads=4"
    fields = [f"L = {f}" if f.isdecimal() else f.replace("=", " = ") for f in part.split(",") if f]
    return "".join(f"{field}, " for field in fields)


def unsupported() -> list[str]:
    """What is otherwise than results/sentences.csv says, of words and of tests."""
    wrong = []
    for page, of_page in itertools.groupby(_rows(SENTENCES), lambda row: row["page"]):
        rows, text = [*of_page], re.sub(r"<!--.*?-->|\*\*", "", (ROOT / page).read_text("utf-8"))
        words = " ".join(text.split())
        for row, test in zip(rows, tested(row["rule"] for row in rows), strict=True):
            if row["sentence"] not in words:
                wrong.append(f"{page} lacks the words {row['sentence']!r}")
            if row["found"] != test.status:
                wrong.append(f"{page}: {row['rule']} is {test.status}, not {row['found']}")
    return wrong


def _together() -> list[Claim]:
    # The claims, with Holm's correction over the tests of all.
    tests = iter(tested(rule for claim in claims() for rule in _rules(claim.row)))
    return [c._replace(tests=(*itertools.islice(tests, len(c.tests)),)) for c in claims()]


def family() -> str:
    """A sentence on what remains of the tests when all are corrected together."""
    every, decided = claims(), []
    for of in (every, _together()):
        decided.append(sum(test.status != "open" for claim in of for test in claim.tests))
    return (
        f"Of the {sum(len(claim.tests) for claim in every)} tests {decided[0]} are decided, each "
        f"corrected within its claim. Corrected all together, {decided[1]} are."
    )


def count() -> str:
    """Two sentences with the number of claims of each status, by both corrections."""
    counted = []
    for of in (claims(), _together()):
        seen = Counter(claim.status for claim in of)
        counted.append(", ".join(f"{seen[name]} {name}" for name in STATUSES if seen[name]))
    return (
        f"[{len(claims())} published claims](docs/claims.md) under one protocol, corrected within "
        f"each claim: {counted[0]}. With one correction over all: {counted[1]}."
    )
