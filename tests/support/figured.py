"""Figures of results, which are indexed on the way, and of their baselines by label."""

from pe_jax.report import figures
from pe_jax.report.study import Study


def _indexed(results):
    study = Study.of(results)
    return study, [*study.runs.values()]


def _of(drawn):
    return drawn and drawn.figure


def curves(results, metric="same_targets", **options):
    study, runs = _indexed(results)
    return _of(figures.curves(study, runs, study.metrics[metric], **options))


def positions(results, baseline=None):
    id = next((result.id for result in results if result.label == baseline), baseline)
    return _of(figures.positions(*_indexed(results), id))


def training(results):
    return _of(figures.training(results))


def rates(results):
    return _of(figures.rates(results))


def heat(results):
    return _of(figures.heat(*_indexed(results)))
