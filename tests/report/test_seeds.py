"""Seeds that tell a difference, by scipy's noncentral t and simulation; components of variance."""

import statistics
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from scored import scored
from studies import table_of

from pe_jax.record import CorpusRecord, Replica
from pe_jax.report import stats
from pe_jax.report.differences import scatter, versus
from pe_jax.report.page import Report
from pe_jax.report.study import Study

SPLITS = {"train": 1000, "valid": 50, "test": 50}


def power(n, ratio, tests):
    bound = scipy.stats.t.ppf(1 - 0.025 / tests, n - 1)
    return scipy.stats.nct.sf(bound, n - 1, n**0.5 * ratio)


@pytest.mark.parametrize("tests", (1, 7))
@pytest.mark.parametrize("ratio", (0.05, 0.3, 1.0, 2.5, 8.0))
def test_one_seed_fewer_has_too_little_power(ratio, tests):
    n = stats.seeds_needed(1.0, ratio, tests)
    assert power(n, ratio, tests) >= 0.8 and (n == 2 or power(n - 1, ratio, tests) < 0.8)
    assert stats.seeds_needed(0.02, 0.02 * ratio, tests) == n


def test_the_numbers_are_those_of_textbooks():
    """Paired t tests, two-sided, 5 %, power 80 % (Cohen, 1988; G*Power)."""
    known = {0.2: 199, 0.5: 34, 0.8: 15, 1.0: 10}
    assert {d: stats.seeds_needed(1.0, d) for d in known} == known
    assert stats.seeds_needed(0.0, 0.01) == 2


def test_as_many_studies_tell_the_difference_as_the_power_says():
    rng, ratio = np.random.default_rng(0), 1.2
    n = stats.seeds_needed(1.0, ratio)
    draws = rng.normal(ratio, 1.0, (20000, n))
    told = scipy.stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05
    assert abs(told.mean() - power(n, ratio, 1)) < 0.01 < told.mean() - 0.79


BY_SEED = {"rope": (2.0, 2.1, 2.3), "alibi": (2.2, 2.25, 2.52), "t5": (2.0, 2.2, 2.2)}


def test_pairs_have_the_deviation_of_their_differences_over_seeds():
    results = [
        scored(label, [{64: value, 128: value + 1} for value in values])
        for label, values in BY_SEED.items()
    ]
    rows = Report.of(results, baseline="rope").sheets["seeds"][0].numbers
    assert [(row["encoding"], row["over"], row["length"], row["n"]) for row in rows] == [
        (label, "seed, minus rope", length, 3) for label in ("t5", "alibi") for length in (64, 128)
    ]
    for row in rows:
        pairs = zip(BY_SEED[row["encoding"]], BY_SEED["rope"], strict=True)
        sd = statistics.stdev(a - b for a, b in pairs)
        assert row["sd"] == pytest.approx(sd)
        assert row["0.1 bits"] == stats.seeds_needed(row["sd"], 0.1, tests=2)
    two = [replace(run, rows=run.rows[:4]) for run in results]  # of two seeds
    assert Report.of(two, baseline="rope").sheets["seeds"] == []


def noisy(label, number, values, seeds=(0,), bytes=SPLITS, **fields):
    """A run with values by seed at 64, and 10 times as much at 128; `fields` of its config."""
    config = {"data": {"source": "stdlib"}, "run": {"seeds": list(seeds)}, "train": {"rate": 0.01}}
    for path, value in fields.items():
        section, _, name = path.partition("_")
        config[section] = config.get(section, {}) | {name: value}
    made = scored(label, [{64: value, 128: 10 * value} for value in values], config=config)
    text = CorpusRecord(source="stdlib", hash=f"{number:064}", bytes=bytes)
    return replace(made, id=f"{label}-{number:08}", seeds=tuple(seeds), corpus=text)


def test_components_are_the_variances_over_what_one_run_changes_alone():
    rng = np.random.default_rng(0)
    runs, wanted = [], {}
    for label in ("rope", "kerple_log"):
        values = {source: rng.normal(2.0, 0.1, 8).tolist() for source in ("seed", "a", "b", "c")}
        runs.append(noisy(label, 0, values["seed"], seeds=range(8)))
        for i, factor in enumerate(np.linspace(0.95, 1.05, 8).tolist()):
            of = [(values[name][i],) for name in "abc"]
            runs.append(noisy(label, 1 + i, of[0], data_source=f"files:{i}"))
            runs.append(noisy(label, 11 + i, of[1], train_steps=round(350 * factor)))
            runs.append(noisy(label, 21 + i, of[2], train_rate=0.01 * factor))
        names = ("seed", "data.source", "train.steps", "train.rate")
        wanted |= {(label, path): of for path, of in zip(names, values.values(), strict=True)}
        # What is no noise: a rate three times as high, another text, two changes, another seed.
        runs.append(noisy(label, 31, (9.0,), train_rate=0.03))
        runs.append(noisy(label, 32, (9.0,), data_source="files:x", bytes={"train": 7}))
        runs.append(noisy(label, 33, (9.0,), train_rate=0.0101, train_steps=351))
        other = noisy(label, 34, (9.0,), seeds=(5,), train_rate=0.0099)
        row = replace(other.rows[0], replica=Replica("seed", 5))
        runs.append(replace(other, rows=(row,)))
    study = Study.of(runs)
    found = scatter(study, [], "same_targets")
    assert {key[:2] for key in found} == wanted.keys() and {key[3] for key in found} == {0}
    for (label, source, length, _), values in found.items():
        times = 1 if length == 64 else 10
        assert sorted(values) == pytest.approx(sorted(times * v for v in wanted[label, source]))
    (sheet,) = Report.of(runs).sheets["seeds"]
    rows = {(r["encoding"], r["over"], r["length"]): r for r in sheet.numbers}
    own = rows["rope", "train.steps", 128]
    sd = 10 * np.std(wanted["rope", "train.steps"], ddof=1)
    assert own["sd"] == pytest.approx(sd) and own["n"] == 8
    assert own["0.03 bits"] == stats.seeds_needed(2**0.5 * own["sd"], 0.03)


def test_runs_that_differ_in_seeds_alone_are_no_study_of_noise():
    results = [scored(label, [{64: v} for v in values]) for label, values in BY_SEED.items()]
    compared = versus([table_of(results)], "rope")
    assert {key[3] for key in scatter(Study.of(results), compared, "same_targets")} == {2}
