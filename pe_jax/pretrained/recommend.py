"""The scaling that a pretrained model should get, from the scores of a run of no steps: one table,
the best swap first, with paired differences. `answer` gives the numbers, `sheet` prints them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax.encoding import Encoding
from pe_jax.metric import Metric, TextMetric
from pe_jax.pretrained.export import with_scaling
from pe_jax.pretrained.served import fixed, programs
from pe_jax.record import AS_TRAINED, Result, Way
from pe_jax.report import stats
from pe_jax.report.differences import Difference, against
from pe_jax.report.phrases import join, plusminus
from pe_jax.report.sheet import Printed, Sheet
from pe_jax.report.study import Cell, Study, minus
from pe_jax.specs.swap import swap

DIGITS = 3
AS_IT_IS = "as it is"
WITHIN = "kl", "changed"


@dataclasses.dataclass(frozen=True)
class Choice:
    """The model as it is, or with a swap, at the longest length."""

    way: Way
    difference: Difference
    """The first metric minus that of the baseline."""
    scores: tuple[Cell, ...]
    """By each metric; `best` where no test tells it from the best one."""
    short: stats.Interval
    """The first metric at the shortest length minus that of the model as it is."""
    scaling: Mapping[str, Any] | None
    """Its fields in config.json; None: it needs code of its own, or the programs asked for serve it
    in another form than it is scored in."""
    within: tuple[stats.Interval, ...] = ()
    """At the training length, where `changed` is scored: the first metric minus that of the model
    as it is, the divergence from that, and the share of first choices that change."""

    @property
    def name(self) -> str:
        return str(self.way) or AS_IT_IS


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The choices, the best first by the first metric."""

    result: Result
    metrics: tuple[Metric, ...]
    lengths: tuple[int, ...]
    baseline: str
    """The choice that the others are compared with: the best, or in a run as if trained at fewer
    tokens the model as it is."""
    choices: tuple[Choice, ...]
    serve: Sequence[str] = ()

    @property
    def ranked(self) -> list[Choice]:
        """In a run as if trained at fewer tokens without the model as it is, the truth there."""
        return [c for c in self.choices if c.way or not _as_if(self.result)]

    @property
    def chosen(self) -> Choice | None:
        """Of the choices that no test tells from the best by any metric, else by the first, the
        model as it is or one that needs no code, and of several the best; None without scores.
        """
        best = [[c for c in self.ranked if c.scores[i].best] for i in range(len(self.metrics))]
        by_all = [c for c in best[0] if all(c in others for others in best if others)]
        return max(by_all or best[0], key=lambda c: (not c.way, bool(c.scaling)), default=None)


def recommend(
    result: Result,
    encodings: tuple[Encoding, ...],
    margin: float = 0.01,
    serve: Sequence[str] = (),
    family: str = "",
) -> Recommendation:
    """The numbers of a run of no steps of a model with these encodings, whose config.json has
    `family` as its model_type. Differences of the first metric within `margin` count as equal.
    `serve` names programs (served.py) that must serve what is chosen in the form that is scored.
    """
    study, config = Study.of([result]), result.config["eval"]
    asked = [study.metrics[name] for name in config["metrics"] if name in study.metrics]
    of_text = [metric for metric in asked if isinstance(metric, TextMetric)]
    plain = [metric for metric in of_text if not getattr(metric, "compares", "")]
    first = (plain or of_text or asked)[0]
    metrics = (first, *(metric for metric in asked if metric != first))
    lengths = {length for evaluated in study.evaluated.values() for length in evaluated.lengths}
    lengths = tuple(sorted({*config["lengths"], *lengths}))
    ways = tuple(dict.fromkeys(way for _, way, _, _ in study.scores))
    as_if = _as_if(result)
    ranked = [way for way in ways if way or not as_if]

    def cell(way: Way, metric: Metric = first, length: int = lengths[-1]) -> Cell:
        return study.scores[result.id, way, metric.name, length]

    means = {way: cell(way).mean for way in ways}
    order = sorted(ways, key=lambda way: (math.isnan(means[way]), first.sign * means[way]))
    base = AS_TRAINED if as_if else order[0]
    others = [way for way in order if way != base]
    tested = against([*map(cell, others)], cell(base), margin, best=not as_if)
    differences = dict(zip(others, tested, strict=True))
    (itself,) = against([cell(base)], cell(base))
    differences[base] = dataclasses.replace(itself, p=math.nan, p_within=0.0)
    best = {}
    for metric in metrics:
        samples = [cell(way, metric).values for way in ranked]
        marks = stats.best(samples, metric.sign, DIGITS)
        best[metric] = {way for way, mark in zip(ranked, marks, strict=True) if mark}
    choices = []
    for way in order:
        cells = [dataclasses.replace(cell(way, m), best=way in best[m]) for m in metrics]
        short = [cell(w, length=lengths[0]) for w in (way, AS_TRAINED)]
        within = ()
        if {"kl", "changed"} <= {m.name for m in metrics} and result.train.length in lengths[:-1]:
            at_L = [cell(w, length=result.train.length) for w in (way, AS_TRAINED)]
            compared = (cell(way, study.metrics[m], result.train.length) for m in WITHIN)
            within = minus(*at_L).interval, *(c.interval for c in compared)
        choices.append(
            Choice(
                way,
                differences[way],
                tuple(cells),
                minus(*short).interval,
                _scaling(family, encodings, way, lengths[-1], ways, serve),
                within,
            )
        )
    return Recommendation(result, metrics, lengths, str(base) or AS_IT_IS, tuple(choices), serve)


def _as_if(result: Result) -> bool:
    return result.config["eval"]["reference"] > result.train.length


# None where the fixed form of the swap, which programs serve, is scored as well.
def _scaling(
    family: str,
    encodings: tuple[Encoding, ...],
    way: Way,
    length: int,
    ways: Sequence[Way],
    serve: Sequence[str],
) -> dict[str, Any] | None:
    swapped = swap(encodings, way.swap) if way.swap else encodings
    members = [e.at(length) for e in swapped]
    twin = fixed(encodings, way.swap, length) if way.swap else None
    if twin and Way(swap=twin) in ways:
        return None
    try:
        config = with_scaling({"model_type": family}, members, length, encodings)
    except ValueError:
        return None
    scaling = {name: value for name, value in config.items() if name != "model_type" and value}
    return scaling if {*serve} <= {*programs(swapped, scaling, length)} else None


def sheet(asked: Recommendation) -> Sheet:
    """The table with its answer."""
    metric, *others = asked.metrics
    value = f"{metric.unit}\nat {asked.lengths[-1]}"
    change = f"at {asked.lengths[-1]}:\nminus {asked.baseline}"
    scores = [f"{m.unit}:\n{m.words}" for m in others]
    shorter, L = [f"at {asked.lengths[0]}:\nminus {AS_IT_IS}"], asked.result.train.length
    if asked.choices[0].within:
        units = [m.unit for name in WITHIN for m in asked.metrics if m.name == name]
        shorter += [f"at {L}:\nminus {AS_IT_IS}", *(f"at {L}:\n{unit}" for unit in units)]
    shorter = [*dict.fromkeys(shorter)]  # L may be the shortest length
    of_metric = zip(*(choice.scores for choice in asked.choices), strict=True)
    bold = [stats.unless_many([cell.best for cell in column]) for column in of_metric]
    rows, numbers = [], []
    for i, c in enumerate(asked.choices):
        verdict = "" if c.name == asked.baseline else c.difference.verdict(metric.sign)
        verdict += ", within the margin" if verdict and c.difference.equivalent else ""
        first, (mean, half, n) = c.scores[0], c.difference.change
        text = " ".join(filter(None, [plusminus(mean, half, "+", DIGITS), verdict]))
        shown = plusminus(first.mean, math.nan, digits=DIGITS)
        rows.append(
            (
                Printed(c.name, c.name, run=asked.result.id),
                Printed(shown, first.mean, first.reason, bold[0][i]),
                Printed(text, mean),
                *(
                    Printed(plusminus(s.mean, s.half, digits=DIGITS), s.mean, s.reason, marks[i])
                    for s, marks in zip(c.scores[1:], bold[1:], strict=True)
                ),
                *(
                    Printed(plusminus(i.mean, i.half, "+" * ("minus" in name), DIGITS), i.mean)
                    for name, i in zip(shorter, (c.short, *c.within)[-len(shorter) :], strict=True)
                ),
                Printed("own code" if c.scaling is None else "config.json", str(c.scaling is None)),
            )
        )
        numbers.append(
            {
                "swap": c.name,
                "length": asked.lengths[-1],
                "baseline": asked.baseline,
                "difference": mean,
                "half": half,
                "n": n,
                "p": c.difference.p,
                "equal": c.difference.equivalent,
                **{m.name: cell.mean for m, cell in zip(asked.metrics, c.scores, strict=True)},
                "short": c.short.mean,
                **{
                    f"{name}_within": i.mean
                    for name, i in zip(("difference", *WITHIN), c.within, strict=False)
                },
                "config": json.dumps(c.scaling) if c.scaling else "",
            }
        )
    return Sheet(
        f"Which scaling should {asked.result.label} get at {asked.lengths[-1]} tokens?",
        ("swap", value, change, *scores, *shorter, "needs"),
        (("", tuple(rows)),),
        lead=_line(asked),
        numbers=tuple(numbers),
        left=True,
        spare=(*shorter[:-3], *scores[::-1], *shorter[-2:]),
    )


# The choice, others that are better by another metric, and config.json.
def _line(asked: Recommendation) -> str:
    chosen = asked.chosen
    if chosen is None:
        return f"Nothing has a score at {asked.lengths[-1]} tokens."
    parts = [f"Choose {chosen.name}." if chosen.way else f"Keep the model {AS_IT_IS}."]
    for i, metric in enumerate(asked.metrics):
        chance = getattr(metric, "chance", None)
        cells = [c.scores[i] for c in asked.choices if c.scores[i].n]
        low = [metric.sign * (cell.mean - (chance or 0)) + cell.half for cell in cells]
        if chance is not None and low and min(low) >= 0:
            parts.append(f"No row is better than chance by {metric.words}, {chance:.3g}.")
    for i, metric in enumerate(asked.metrics):
        better = [c.name for c in asked.ranked if c.scores[i].best]
        if better and chosen.name not in better:
            parts.append(f"Better by {metric.words}: {join(better)}.")
    if _as_if(asked.result):
        return " ".join(parts)
    if chosen.scaling is None:
        unserved = f", or is not served so by {join(asked.serve)}" if asked.serve else ""
        parts.append(f"{chosen.name} needs own code{unserved}.")
        chosen = next((c for c in asked.ranked if c.way and c.scaling), None)
        if chosen is None:
            return " ".join(parts)
        parts.append(f"The best without is {chosen.name}.")
    parts.append(f"config.json: {json.dumps(chosen.scaling)[1:-1]}.")
    if chosen.way and chosen.within:
        bits, kl, changed = (plusminus(i.mean, i.half, digits=DIGITS) for i in chosen.within)
        parts.append(
            f"Served so at every length, it costs {bits} {asked.metrics[0].unit} at "
            f"{asked.result.train.length}, {kl} nats per token of divergence, and changes "
            f"{changed} % of the first choices there."
        )
    model, lm = asked.result.config["train"]["init_from"], asked.result.config.get("lm", {})
    if chosen.way and (model.startswith("hf:") or lm.get("activation") == "silu"):  # a Llama
        options = (f"--model={model}", f"--swap={chosen.way.swap}", f"--length={asked.lengths[-1]}")
        command = shlex.join(("pe-jax", "export", *options, "--out=DIR"))
        parts.append(f"{command} writes the folder.")
    return " ".join(parts)
