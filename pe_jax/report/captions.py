"""The captions of a page's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pe_jax.record import Result
from pe_jax.report import figures, labels, plane
from pe_jax.report.cells import described

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CUT = (
    "An arrow head at the frame: the line of its colour, or its interval, goes on beyond the axes."
)


def captions(
    results: Sequence[Result],
    metric: str,
    drawn: Mapping[str, Figure],
    baseline: str | None = None,
) -> dict[str, str]:
    """A caption for each of the figures `drawn` of the results, by name; `curves` is of this
    metric, and `positions` differences to `baseline` (`figures.against`).
    """
    said = {
        "curves": f"{described(metric).title} against evaluation length: means over seeds with "
        "their 95 % intervals.",
        "positions": " ".join(_positions(results, baseline)),
        "training": "Validation bits per byte at the training length while training: means over "
        "the seeds that have a finite value, with their 95 % intervals. A cross: a seed has none "
        "from there on. The axis ends at 8 bits, which a model has that knows nothing.",
        "rates": " ".join(_rates(results, metric)),
    }
    return {
        name: said[name] + (f" {CUT}" if plane.is_cut(figure) else "")
        for name, figure in drawn.items()
        if name in said
    }


def _positions(results: Sequence[Result], baseline: str | None) -> Iterator[str]:
    metric, base = figures.position_metric(results), figures.against(results, baseline)
    if metric and base:
        name = labels.names(results)[base.id]
        unit = metric.unit[:1].upper() + metric.unit[1:]
        yield (
            f"{unit} against the position in the longest window, minus those of {name} at the same "
            "tokens, paired over seeds: means with their 95 % intervals. Upright lines: training "
            "lengths."
        )


def _rates(results: Sequence[Result], metric: str) -> Iterator[str]:
    what = described(metric).title
    if any(result.rates for result in results):
        yield "Validation bits per byte at the training length against the learning rate"
        yield "(a ring: the rate that was chosen; a rate at which a seed diverged has no value):"
    else:
        yield f"{what} at the training length against the learning rate:"
    yield "means over seeds with their 95 % intervals."
