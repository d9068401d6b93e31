"""Which swap a pretrained model should get, from the scores of a run of no steps: one table,
sorted, with paired differences first, and sentences computed from it. `answer` gives the numbers,
`sheet` prints them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shlex
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax.encoding import Encoding
from pe_jax.errors import nearest
from pe_jax.metric import Metric, TextMetric
from pe_jax.model.config import LmConfig
from pe_jax.pretrained import export
from pe_jax.pretrained.rope_scaling import (
    READ_BY,
    max_position_embeddings,
    read_by,
    rope_parameters,
)
from pe_jax.record import AS_TRAINED, Replica, Result, Way
from pe_jax.report import stats
from pe_jax.report.differences import against
from pe_jax.report.sheet import Note, Printed, Sheet, number
from pe_jax.report.study import Study
from pe_jax.report.table import Cell, in_percent
from pe_jax.report.words import count, join, plusminus, rounded
from pe_jax.specs.swap import swap

DIGITS = 3
LEAST_GAIN = 0.03
"""Bits per byte that a model must gain from its own context on a text, for a difference between
swaps to be seen there."""
KEPT = 0.85
"""The share of a score on short texts that still counts as reading (NoLiMa; Modarressi et al.,
2025; arXiv:2502.05167)."""
LONGEST = "max_position_embeddings"
AS_IT_IS = "as it is"


@dataclasses.dataclass(frozen=True)
class Choice:
    """The model as it is, or with a swap, at the longest length."""

    name: str
    way: Way
    change: stats.Interval
    """The first metric minus that of the baseline, paired."""
    p: float
    """Of the test against the baseline (`differences.against`); NaN: none."""
    equal: bool
    """Whether two one-sided tests at 5 % hold the difference within the margin."""
    scores: tuple[Cell, ...]
    """By each metric; `best` where no test tells it from the best one."""
    short: stats.Interval
    """The first metric at the shortest length minus that of the model as it is."""
    effective: int | None
    """The longest length at which it has 85 % of its mean score up to a quarter of the training
    length, by the first metric in percent; None without one or without such lengths."""
    seconds: float | None
    """Of a window of the first metric."""
    scaling: Mapping[str, Any] | None
    """What config.json says of it: the fields of rope_scaling, rope_theta and LONGEST; None where
    it needs code of its own."""
    read_by: tuple[str, ...]
    """The programs that compute it as it is."""


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The choices, the best first by the first metric."""

    result: Result
    metrics: tuple[Metric, ...]
    lengths: tuple[int, ...]
    baseline: str
    margin: float
    choices: tuple[Choice, ...]
    replicate: str
    """What the scores of the first metric are paired over: "place" or "sample"."""
    own_gain: stats.Interval | None
    """What the model as it is gains from the shortest length to that of training; None where no
    length below that of training was scored."""

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    @property
    def as_if(self) -> bool:
        """Whether the model was scored as if trained at fewer tokens than it was: then the model as
        it is is the truth, and no choice.
        """
        return self.result.config["eval"]["reference"] > self.result.train.length

    @property
    def ranked(self) -> list[Choice]:
        """Those that may be chosen."""
        return [c for c in self.choices if not (self.as_if and not c.way)]


def answer(
    result: Result,
    encodings: tuple[Encoding, ...],
    margin: float = 0.01,
    baseline: str | None = None,
) -> Recommendation:
    """From the record of a run of no steps of a model with these encodings. Differences are from
    the swap named `baseline`; None: the best one, or of a run as if trained at fewer tokens the
    model as it is. ValueError, with the nearest names, for a swap that was not scored.
    """
    study = Study.of([result])
    config = result.config["eval"]
    asked = [name for name in config["metrics"] if name in study.metrics]
    lengths = {n for _, name in study.evaluated for n in study.evaluated[result.id, name].lengths}
    lengths = tuple(sorted({*config["lengths"], *lengths}))
    of_text = [m for m in asked if isinstance(study.metrics[m], TextMetric)]
    plain = [m for m in of_text if not getattr(study.metrics[m], "compares", "")]
    first = (plain or of_text or asked)[0]
    metrics = tuple(study.metrics[m] for m in dict.fromkeys([first, *asked]))
    ways = tuple(dict.fromkeys(way for _, way, _, _ in study.scores))
    names = _names(ways)
    reference = config["reference"]
    as_if = reference > result.train.length
    ranked = [way for way in ways if way or not as_if]

    def at(length: int, way: Way, metric: str = first) -> Mapping[Replica, float]:
        return study.scores[result.id, way, metric, length].values

    sign = study.metrics[first].sign
    means = {way: _mean(at(lengths[-1], way)) for way in ways}
    order = sorted(ways, key=lambda way: (math.isnan(means[way]), sign * means[way]))
    usual = AS_TRAINED if as_if else next(way for way in order if way in ranked)
    base = way_of(baseline, ways) if baseline else usual
    others = [way for way in order if way != base]
    of_base = at(lengths[-1], base)
    samples = [at(lengths[-1], way) for way in others]
    tested = against(samples, of_base, margin, best=not (baseline or as_if))
    p = {way: one.p for way, one in zip(others, tested, strict=True)}
    equal = {way: one.equivalent for way, one in zip(others, tested, strict=True)}
    scores = {metric.name: _scores(study, metric, lengths[-1], ways, ranked) for metric in metrics}
    percent = next((metric.name for metric in metrics if in_percent(metric)), "")
    choices = []
    for way in order:
        scaling = _scaling(encodings, way, lengths[-1])
        curve = {n: _mean(at(n, way, percent)) for n in lengths} if percent else {}
        choices.append(
            Choice(
                names[way],
                way,
                stats.paired(at(lengths[-1], way), of_base),
                p.get(way, math.nan),
                equal.get(way, True),
                tuple(scores[metric.name][way] for metric in metrics),
                stats.paired(at(lengths[0], way), at(lengths[0], AS_TRAINED)),
                _effective(curve, result.train.length),
                study.scores[result.id, way, first, lengths[-1]].seconds,
                scaling,
                read_by(scaling, encodings) if scaling else (),
            )
        )
    gain = None
    if lengths[0] < reference and reference in lengths:
        gain = stats.paired(at(lengths[0], AS_TRAINED), at(reference, AS_TRAINED))
    kind = study.evaluated[result.id, first].replicas[0].kind
    return Recommendation(result, metrics, lengths, names[base], margin, tuple(choices), kind, gain)


def _names(ways: Sequence[Way]) -> dict[Way, str]:
    """What each way is called: of a file of the user's without its folders, where that is clear."""
    whole = {way: str(way) or AS_IT_IS for way in ways}
    last = {way: re.sub(r"[^+,(]*/", "", name) for way, name in whole.items()}
    return last if len({*last.values()}) == len(ways) else whole


def _mean(values: Mapping[Replica, float]) -> float:
    return statistics.fmean(values.values()) if values else math.nan


def way_of(name: str, ways: Sequence[Way]) -> Way:
    """The one that is called so, with or without its folders. ValueError, with the nearest names,
    if there is none.
    """
    names = _names(ways)
    for way, known in names.items():
        if name in (known, str(way)):
            return way
    raise ValueError(
        f"no swap that was scored is called {name!r}{nearest(name, names.values(), 3)} "
        f"Known: {', '.join(names.values())}."
    )


def _scores(
    study: Study, metric: Metric, length: int, ways: Sequence[Way], ranked: Sequence[Way]
) -> dict[Way, Cell]:
    """The cell of each way; `best` are those of the ranked that no test tells from the best."""
    (run,) = study.runs
    replicas = study.evaluated[run, metric.name].replicas
    scores = {way: study.scores[run, way, metric.name, length] for way in ways}
    best = stats.best([scores[way].values for way in ranked], metric.sign, DIGITS)
    marks = dict(zip(ranked, best, strict=True))
    return {
        way: dataclasses.replace(Cell.of(scores[way], replicas), best=marks.get(way, False))
        for way in ways
    }


def _effective(means: Mapping[int, float], train: int) -> int | None:
    short = [mean for n, mean in means.items() if 4 * n <= train]
    base = statistics.fmean(short) if short else 0.0
    return (
        max((n for n, mean in means.items() if mean >= KEPT * base), default=None) if base else None
    )


def _scaling(encodings: tuple[Encoding, ...], way: Way, length: int) -> dict[str, Any] | None:
    members = [e.at(length) for e in (swap(encodings, way.swap) if way.swap else encodings)]
    try:
        own = rope_parameters(members, encodings)
    except ValueError:
        return None
    return own | {LONGEST: max_position_embeddings(members[0], length)}


# As a table


def sheet(found: Recommendation) -> Sheet:
    """The table with its sentences."""
    first, *others = found.metrics
    metric, shortest = first, found.lengths[0]
    effective = any(choice.effective for choice in found.choices)
    change, took = f"{metric.unit} at {found.longest}:\nminus {found.baseline}", "seconds\na window"
    scores = [f"{m.unit}:\n{m.words}" for m in others]
    short, several = f"at {shortest}:\nminus {AS_IT_IS}", ["effective\nlength"] if effective else []
    columns = [change, *scores, *several, short, took, "runs in"]
    of_metric = zip(*(choice.scores for choice in found.choices), strict=True)
    bold = [stats.unless_many([cell.best for cell in cells]) for cells in of_metric]
    rows = []
    for i, choice in enumerate(found.choices):
        rows.append(
            (
                Printed(choice.name, choice.name, run=found.result.id),
                Printed(
                    _difference(choice, found, metric.sign),
                    choice.change.mean,
                    choice.scores[0].reason,
                    bold=bold[0][i],
                ),
                *(
                    Printed(plusminus(c.mean, c.half, digits=DIGITS), c.mean, c.reason, marks[i])
                    for c, marks in zip(choice.scores[1:], bold[1:], strict=True)
                ),
                *([number(choice.effective)] if effective else []),
                Printed(
                    plusminus(choice.short.mean, choice.short.half, "+", DIGITS), choice.short.mean
                ),
                Printed("n/a")
                if choice.seconds is None
                else Printed(rounded(choice.seconds), choice.seconds),
                Printed(", ".join(choice.read_by) or "own code", ", ".join(choice.read_by)),
            )
        )
    notes = [Note(question, text) for question, text in _sentences(found) if text]
    title = f"Which scaling should {found.result.label} get at {found.longest} tokens?"
    numbers = tuple(_numbers(found, choice) for choice in found.choices)
    whole = ("swap", *columns), (("", tuple(rows)),), tuple(notes), numbers
    return Sheet(title, *whole, left=True, spare=(took, *several, short, *scores[::-1]))


def _difference(choice: Choice, found: Recommendation, sign: int) -> str:
    text = plusminus(choice.change.mean, choice.change.half, "+", DIGITS)
    if choice.name == found.baseline or not choice.change.n:
        return text
    if choice.p <= stats.LEVEL:
        verdict = "better" if sign * choice.change.mean < 0 else "worse"
        return f"{text} {verdict}" + (", within the margin" if choice.equal else "")
    return f"{text} " + ("equal within the margin" if choice.equal else "not told apart")


def _numbers(found: Recommendation, choice: Choice) -> dict[str, Any]:
    scores = {m.name: c for m, c in zip(found.metrics, choice.scores, strict=True)}
    return {
        "swap": choice.name,
        "length": found.longest,
        "baseline": found.baseline,
        "difference": choice.change.mean,
        "half": choice.change.half,
        "n": choice.change.n,
        "p": choice.p,
        "equal": choice.equal,
        **{metric: cell.mean for metric, cell in scores.items()},
        "short": choice.short.mean,
        "effective": choice.effective,
        "seconds": choice.seconds,
        "runs_in": " ".join(choice.read_by),
        "rope_scaling": json.dumps(choice.scaling) if choice.scaling else "",
    }


def _sentences(found: Recommendation) -> list[tuple[str, str]]:
    chosen, why = choose(found)
    return [
        ("What to choose", why),
        ("For config.json", _config(found, chosen) if chosen and not found.as_if else ""),
        ("Whether this text can tell", _can_tell(found)),
        ("How sure", _sure(found)),
        ("How to read the table", _form(found)),
    ]


def choose(found: Recommendation) -> tuple[Choice | None, str]:
    """The choice, and why: of those that no test tells from the best by any metric, else by the
    first, the model as it is, or one that most programs run, and of these the best by the first.
    """
    if all(math.isnan(choice.scores[0].mean) for choice in found.ranked):
        return None, f"Nothing has a score at {found.longest} tokens."
    by = [
        [c for c in found.ranked if c.scores[i].best and c.scores[i].n]
        for i in range(len(found.metrics))
    ]
    by_all = [c for c in by[0] if all(c in good for good in by if good)]
    chosen = max(by_all or by[0], key=lambda c: (not c.way, len(c.read_by)))
    said = [
        f"Not told from the best by {metric.words}: {_names_of(good, found)}."
        for metric, good in zip(found.metrics, by, strict=True)
        if good
    ]
    close = [c for c in found.ranked if c.equal or c.name == found.baseline]
    if len(close) > 1:
        unit = found.metrics[0].unit
        within = f"Within {found.margin:g} {unit} of {found.baseline}"
        said.append(f"{within}: {_names_of(close, found)}.")
    unchanged = [c for c in found.ranked if len(c.read_by) == len(READ_BY["default"])]
    if unchanged:
        names = join(c.name for c in unchanged)
        said.append(f"Run unchanged in {join(READ_BY['default'])}: {names}.")
        if chosen not in unchanged and len(unchanged) > 1:
            said.append(_best_of(unchanged, found))
    if by_all or len(found.metrics) == 1:
        enough = "" if chosen.way else ": these scores tell no swap to be better"
        said.insert(
            0, f"Choose the model {AS_IT_IS}{enough}." if enough else f"Choose {chosen.name}."
        )
    else:
        other = [
            f"{join(c.name for c in good)} for {metric.words}"
            for metric, good in zip(found.metrics[1:], by[1:], strict=True)
            if good and chosen not in good
        ]
        said.insert(0, f"Choose {chosen.name} for text, and {join(other)}: none is best by all.")
    return chosen, " ".join(said)


def _best_of(choices: Sequence[Choice], found: Recommendation) -> str:
    """Which of the choices no test tells from the best of them, by each metric that tells any."""
    by: dict[str, list[str]] = {}
    for i, metric in enumerate(found.metrics):
        every = {c.name: c.scores[i].values for c in choices}
        scored = {name: sample for name, sample in every.items() if sample}
        best = stats.best([*scored.values()], metric.sign, DIGITS)
        if not all(best):
            names = join(name for name, one in zip(scored, best, strict=True) if one)
            by.setdefault(names, []).append(metric.words)
    if not by:
        return "No score tells these apart."
    each = "; ".join(f"{names} by {join(words)}" for names, words in by.items())
    return f"Of these, not told from the best: {each}."


def _names_of(choices: Sequence[Choice], found: Recommendation) -> str:
    return "all" if len(choices) == len(found.ranked) else join(c.name for c in choices)


def _config(found: Recommendation, chosen: Choice) -> str:
    if chosen.scaling is not None:
        return _lines(found, chosen, chosen.scaling)
    said = f"{chosen.name} needs own code: no rope_type of config.json stands for it."
    for choice in found.ranked:  # the best first
        if choice.way and choice.scaling is not None:
            lines = _lines(found, choice, choice.scaling)
            by = found.metrics[0].words
            return f"{said} The best with one, by {by}, is {choice.name}: {lines}"
    return said


def _lines(found: Recommendation, chosen: Choice, scaling: Mapping[str, Any]) -> str:
    """What config.json says of a choice, and the command that writes it."""
    own = dict(scaling)
    lines = {name: own.pop(name) for name in ("rope_theta", LONGEST)}
    lines |= {} if own["rope_type"] == "default" else {"rope_scaling": own}
    said = [f"{json.dumps(lines)[1:-1]}."]
    if found.result.config["train"]["init_from"].startswith("hf:"):
        said.append(
            "Where config.json has rope_parameters, rope_theta and the scaling stand in it instead."
        )
    if chosen.way and _exportable(found.result):
        model, spec = found.result.config["train"]["init_from"], chosen.way.swap
        asked = (f"--model={model}", f"--swap={spec}", f"--length={found.longest}", "--out=DIR")
        said.append(f"The folder with it is written by {shlex.join(('pe-jax', 'export', *asked))}.")
        if "factor" in own and spec.isidentifier() and own["rope_type"] != "dynamic":
            said.append(
                f"It was scored with the factor that each length needs, and config.json has that "
                f"of {found.longest} at every length: what this changes at {found.lengths[0]} is "
                f"scored by --swaps='{spec}(factor={own['factor']:g})'."
            )
    return " ".join(said)


def _exportable(result: Result) -> bool:
    """Whether pe-jax export writes the model: from its folder, or as a Llama."""
    if not result.config["train"]["init_from"].startswith("gguf:"):
        return True
    try:
        export.llama(LmConfig(**result.config["lm"]))
    except ValueError:
        return False
    return True


def _can_tell(found: Recommendation) -> str:
    metric, gain = found.metrics[0], found.own_gain
    if gain is None:
        return (
            "Whether a longer context helps on it is not known: give --lengths with the training "
            "length and one below it."
        )
    gained = gain._replace(mean=metric.sign * gain.mean)
    text = (
        f"From {found.lengths[0]} to {found.result.config['eval']['reference']} tokens, within its "
        f"training, the model as it is gains {plusminus(*gained[:2], digits=DIGITS)} {metric.unit}"
    )
    if metric.unit != "bits per byte":
        return f"{text}."
    if gained.mean - gained.half > LEAST_GAIN:
        return f"{text}: far tokens matter here."
    if gained.mean > LEAST_GAIN:
        return f"{text}: too few places to say that far tokens matter."
    return (
        f"{text}, which is not above {LEAST_GAIN}: this text cannot show whether far tokens are "
        "used, only whether a swap does harm. Prompts as records tell, or other text."
    )


def _sure(found: Recommendation) -> str:
    """What difference could have been told: 80 % power at 5 %, two-sided."""
    from scipy import special

    halves = [c.change.half for c in found.choices if c.change.half > 0]
    n = max((c.change.n for c in found.choices), default=0)
    if n < 2:
        return f"One {found.replicate} allows no tests."
    if not halves:
        return f"All of the {count(n, found.replicate)} give the same: they say nothing of others."
    more = special.stdtrit(n - 1, 0.8) / special.stdtrit(n - 1, 0.975)
    least = statistics.median(halves) * (1 + more)
    unit = found.metrics[0].unit
    return (
        f"{count(n, found.replicate)}: a difference of {least:.2g} {unit} would "
        "be told in four cases of five, by the median scatter of the pairs and before the "
        "correction for several swaps; smaller ones may be there."
    )


def _form(found: Recommendation) -> str:
    truth = (
        f"The model was scored as if trained at {found.result.train.length} tokens; {AS_IT_IS}, it "
        "reads all these lengths by its training, which is the truth that swaps are held against. "
        if found.as_if
        else ""
    )
    over = f"{found.replicate}s"
    return (
        f"{truth}Differences are from {found.baseline}, paired over {over}, ± half of the 95 % "
        "interval by Student's t. Better and worse: a paired t test at 5 % (McNemar's exact test "
        "where a score is right or wrong), corrected by Holm's method. Equal: two one-sided tests "
        f"at 5 % hold it within {found.margin:g}. Bold: not told from the best of its column by "
        "such tests; none where more than a third of the rows would be."
    )
