"""Figures of results, which are indexed on the way, and of their baselines by label."""

from pe_jax.report import figures
from pe_jax.report.study import Study


def _indexed(results, metric="same_targets"):
    study = Study.of(results)
    return study, [*study.runs.values()], study.metrics.get(metric)


BETTER, OPEN, WORSE = figures.BETTER, figures.OPEN, figures.WORSE
training = figures.training


def _id(results, label):
    return next((result.id for result in results if result.label == label), label)


def curves(results, metric="same_targets", **options):
    return figures.curves(*_indexed(results, metric), **options)


def bars(result, metric, width):
    study, (run,), described = _indexed([result], metric)
    return figures.bars(study, run, described, width)


def positions(results, baseline=None):
    return figures.positions(*_indexed(results)[:2], baseline=_id(results, baseline))


def against(results, baseline=None):
    return figures.against(*_indexed(results)[:2], _id(results, baseline))


def rates(results, metric="same_targets"):
    return figures.rates(*_indexed(results, metric))


def heat(results, width):
    return figures.heat(*_indexed(results, "accuracy")[:2], width)
