"""The scaling that a pretrained model should get, from the scores of a run of no steps: one table,
the best swap first, with paired differences. `answer` gives the numbers, `sheet` prints them.
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
from pe_jax.pretrained.config import ALL, max_position_embeddings, read_by, rope_parameters
from pe_jax.record import AS_TRAINED, Replica, Result, Way
from pe_jax.report import stats
from pe_jax.report.differences import Difference, against, difference
from pe_jax.report.sheet import Note, Printed, Sheet, number
from pe_jax.report.study import Study
from pe_jax.report.table import Cell, in_percent
from pe_jax.report.words import join, plusminus, rounded
from pe_jax.specs.swap import swap

DIGITS = 3
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
    difference: Difference
    """The first metric minus that of the baseline."""
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
    """Its fields in config.json: of rope_scaling, rope_theta and LONGEST; None where it needs code
    of its own."""
    read_by: tuple[str, ...]
    """The programs that compute it as it is."""


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The choices, the best first by the first metric."""

    result: Result
    metrics: tuple[Metric, ...]
    lengths: tuple[int, ...]
    baseline: str
    choices: tuple[Choice, ...]
    own_gain: stats.Interval | None
    """What the model as it is gains from the shortest length to that of training; None where no
    length below that of training was scored."""

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    @property
    def ranked(self) -> list[Choice]:
        """The choices; of a model scored as if trained at fewer tokens than it was without the
        model as it is, which is the truth then.
        """
        return [c for c in self.choices if c.way or not _as_if(self.result)]

    @property
    def chosen(self) -> Choice | None:
        """Of the choices that no test tells from the best by any metric, else by the first, the
        model as it is or one that most programs run, and of several the best; None without scores.
        """
        best = [[c for c in self.ranked if _is_best(c, i)] for i in range(len(self.metrics))]
        by_all = [c for c in best[0] if all(c in others for others in best if others)]
        return max(by_all or best[0], key=lambda c: (not c.way, len(c.read_by)), default=None)


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
    asked = [study.metrics[name] for name in config["metrics"] if name in study.metrics]
    of_text = [metric for metric in asked if isinstance(metric, TextMetric)]
    plain = [metric for metric in of_text if not getattr(metric, "compares", "")]
    first = (plain or of_text or asked)[0]
    metrics = (first, *(metric for metric in asked if metric != first))
    percent = next(filter(in_percent, metrics), None)
    lengths = {length for evaluated in study.evaluated.values() for length in evaluated.lengths}
    lengths = tuple(sorted({*config["lengths"], *lengths}))
    ways = tuple(dict.fromkeys(way for _, way, _, _ in study.scores))
    names, reference, as_if = _names(ways), config["reference"], _as_if(result)
    ranked = [way for way in ways if way or not as_if]

    def values(length: int, way: Way, metric: Metric = first) -> Mapping[Replica, float]:
        return study.scores[result.id, way, metric.name, length].values

    means = {way: _mean(values(lengths[-1], way)) for way in ways}
    order = sorted(ways, key=lambda way: (math.isnan(means[way]), first.sign * means[way]))
    usual = AS_TRAINED if as_if else next(way for way in order if way in ranked)
    base = way_of(baseline, ways) if baseline else usual
    of_base = values(lengths[-1], base)
    others = [way for way in order if way != base]
    samples = [values(lengths[-1], way) for way in others]
    tested = against(samples, of_base, margin, best=not (baseline or as_if))
    differences = dict(zip(others, tested, strict=True))
    differences[base] = dataclasses.replace(difference(of_base, of_base), p=math.nan, p_within=0.0)
    best = {}
    for metric in metrics:
        samples = [values(lengths[-1], way, metric) for way in ranked]
        marks = stats.best(samples, metric.sign, DIGITS)
        best[metric.name] = {way for way, mark in zip(ranked, marks, strict=True) if mark}
    choices = []
    for way in order:
        cells = []
        for metric in metrics:
            scores = study.scores[result.id, way, metric.name, lengths[-1]]
            cell = Cell.of(scores, study.evaluated[result.id, metric.name].replicas)
            cells.append(dataclasses.replace(cell, best=way in best[metric.name]))
        scaling = _scaling(result, encodings, way, lengths[-1])
        curve = {n: _mean(values(n, way, percent)) for n in lengths} if percent else {}
        choices.append(
            Choice(
                names[way],
                way,
                differences[way],
                tuple(cells),
                stats.paired(values(lengths[0], way), values(lengths[0], AS_TRAINED)),
                _effective(curve, result.train.length),
                study.scores[result.id, way, first.name, lengths[-1]].seconds,
                scaling,
                read_by(scaling, encodings) if scaling else () if way else ALL,
            )
        )
    gain = None
    if lengths[0] < reference and reference in lengths:
        gain = stats.paired(values(lengths[0], AS_TRAINED), values(reference, AS_TRAINED))
    return Recommendation(result, metrics, lengths, names[base], tuple(choices), gain)


def _as_if(result: Result) -> bool:
    return result.config["eval"]["reference"] > result.train.length


def _names(ways: Sequence[Way]) -> dict[Way, str]:
    """Files of the user's are named without their folders, where that is clear."""
    whole = {way: str(way) or AS_IT_IS for way in ways}
    last = {way: re.sub(r"[^+,(]*/", "", name) for way, name in whole.items()}
    return last if len({*last.values()}) == len(ways) else whole


def _mean(values: Mapping[Replica, float]) -> float:
    return statistics.fmean(values.values()) if values else math.nan


def way_of(name: str, ways: Sequence[Way]) -> Way:
    """The way of this name, with or without its folders. ValueError, with the nearest names, if
    there is none.
    """
    names = _names(ways)
    for way, known in names.items():
        if name in (known, str(way)):
            return way
    raise ValueError(
        f"no swap that was scored is called {name!r}{nearest(name, names.values(), 3)} "
        f"Known: {', '.join(names.values())}."
    )


def _effective(means: Mapping[int, float], train: int) -> int | None:
    short = [mean for n, mean in means.items() if 4 * n <= train]
    if not short or not (base := statistics.fmean(short)):
        return None
    return max((n for n, mean in means.items() if mean >= KEPT * base), default=None)


def _scaling(
    result: Result, encodings: tuple[Encoding, ...], way: Way, length: int
) -> dict[str, Any] | None:
    members = [e.at(length) for e in (swap(encodings, way.swap) if way.swap else encodings)]
    gemma = result.config.get("lm", {}).get("norm") == "sandwich"
    if way.swap and gemma and len(encodings) == 2:  # config.json scales its layers without a window
        return None
    try:
        own = rope_parameters(members, encodings)
    except ValueError:
        return None
    return own | {LONGEST: max_position_embeddings(members[0], length)}


def sheet(found: Recommendation) -> Sheet:
    """The table with its answer."""
    metric, *others = found.metrics
    shortest = found.lengths[0]
    effective = any(choice.effective for choice in found.choices)
    change, took = f"{metric.unit} at {found.longest}:\nminus {found.baseline}", "seconds\na window"
    scores = [f"{m.unit}:\n{m.words}" for m in others]
    short, several = f"at {shortest}:\nminus {AS_IT_IS}", ["effective\nlength"] if effective else []
    columns = [change, *scores, *several, short, took, "runs in"]
    of_metric = zip(*(choice.scores for choice in found.choices), strict=True)
    bold = [stats.unless_many([cell.best for cell in column]) for column in of_metric]
    rows = []
    for i, c in enumerate(found.choices):
        verdict = "" if c.name == found.baseline else c.difference.verdict(metric.sign)
        verdict += ", within the margin" if verdict and c.difference.equivalent else ""
        mean, half, _ = c.difference.change
        text = " ".join(filter(None, [plusminus(mean, half, "+", DIGITS), verdict]))
        rows.append(
            (
                Printed(c.name, c.name, run=found.result.id),
                Printed(text, mean, c.scores[0].reason, bold=bold[0][i]),
                *(
                    Printed(plusminus(s.mean, s.half, digits=DIGITS), s.mean, s.reason, marks[i])
                    for s, marks in zip(c.scores[1:], bold[1:], strict=True)
                ),
                *([number(c.effective)] if effective else []),
                Printed(plusminus(c.short.mean, c.short.half, "+", DIGITS), c.short.mean),
                Printed("n/a") if c.seconds is None else Printed(rounded(c.seconds), c.seconds),
                Printed(", ".join(c.read_by) or "own code", ", ".join(c.read_by)),
            )
        )
    notes = [Note("Answer", _line(found))]
    if found.own_gain:
        gain = plusminus(metric.sign * found.own_gain.mean, found.own_gain.half, digits=DIGITS)
        to = found.result.config["eval"]["reference"]
        words = f"the model as it is gains {gain} {metric.unit} from {shortest} to {to} tokens."
        notes.append(Note("Context", f"Within its training {words}"))
    title = f"Which scaling should {found.result.label} get at {found.longest} tokens?"
    return Sheet(
        title,
        ("swap", *columns),
        (("", tuple(rows)),),
        tuple(notes),
        tuple(_numbers(found, choice) for choice in found.choices),
        left=True,
        spare=(took, *several, short, *scores[::-1]),
    )


def _numbers(found: Recommendation, choice: Choice) -> dict[str, Any]:
    return {
        "swap": choice.name,
        "length": found.longest,
        "baseline": found.baseline,
        "difference": choice.difference.change.mean,
        "half": choice.difference.change.half,
        "n": choice.difference.change.n,
        "p": choice.difference.p,
        "equal": choice.difference.equivalent,
        **{m.name: cell.mean for m, cell in zip(found.metrics, choice.scores, strict=True)},
        "short": choice.short.mean,
        "effective": choice.effective,
        "seconds": choice.seconds,
        "runs_in": " ".join(choice.read_by),
        "rope_scaling": json.dumps(choice.scaling) if choice.scaling else "",
    }


def _is_best(choice: Choice, metric: int) -> bool:
    return choice.scores[metric].best and bool(choice.scores[metric].n)


def _line(found: Recommendation) -> str:
    """The choice, others that are better by another metric, and config.json."""
    chosen = found.chosen
    if chosen is None:
        return f"Nothing has a score at {found.longest} tokens."
    parts = [f"Choose {chosen.name}." if chosen.way else f"Keep the model {AS_IT_IS}."]
    for i, metric in enumerate(found.metrics):
        better = [c.name for c in found.ranked if _is_best(c, i)]
        if better and chosen.name not in better:
            parts.append(f"Better by {metric.words}: {join(better)}.")
    if _as_if(found.result) or not (chosen.way or chosen.scaling):
        return " ".join(parts)
    if chosen.scaling is None:
        parts.append(f"{chosen.name} needs own code.")
        chosen = next((c for c in found.ranked if c.way and c.scaling), None)
        if chosen is None:
            return " ".join(parts)
        parts.append(f"The best without is {chosen.name}.")
    own = dict(chosen.scaling or {})
    lines = {name: own.pop(name) for name in ("rope_theta", LONGEST)}
    lines |= {} if own["rope_type"] == "default" else {"rope_scaling": own}
    parts.append(f"config.json: {json.dumps(lines)[1:-1]}.")
    model, lm = found.result.config["train"]["init_from"], found.result.config.get("lm", {})
    if chosen.way and (model.startswith("hf:") or lm.get("activation") == "silu"):  # a Llama
        asked = (f"--model={model}", f"--swap={chosen.way.swap}", f"--length={found.longest}")
        command = shlex.join(("pe-jax", "export", *asked, "--out=DIR"))
        parts.append(f"{command} writes the folder.")
    return " ".join(parts)
