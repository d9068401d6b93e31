"""The verdicts of studies by the rules that their configs state, from records.

    python -m experiments.studies.verdicts STUDY [FOLDER]

STUDY is rope_base, code_8, noise, hybrids, carriers, markov_masked, masked_text, objectives,
chinese, hierarchical, tasks_solved, code_5m or scaling_ruler; FOLDER has its records, by default
results/STUDY. The docstring of configs/STUDY.py has the predictions that are numbered here.
"""

from __future__ import annotations

import csv
import itertools
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.stats import spearmanr

from configs import (
    carriers,
    code_8,
    hierarchical,
    hybrids,
    markov_masked,
    noise,
    rope_base,
    scaling_ruler,
    tasks_solved,
)
from configs.carriers import DELTA, KIMI
from configs.masked_text import DIFFUSION, LENGTH, SWAPS
from pe_jax.record import AS_TRAINED, Replica, Result, Way
from pe_jax.report import stats
from pe_jax.report.phrases import plusminus
from pe_jax.report.study import HEADROOM, Group, Study, load
from pe_jax.specs.parse import parse

ROOT = Path(__file__).resolve().parents[2]
Values = Mapping[Replica, float]


def words(holds: bool | None) -> str:
    return {True: "holds", False: "fails", None: "undecided"}[holds]


class Difference(NamedTuple):
    """A mean of paired differences, with p by a two-sided t test, adjusted by Holm's method."""

    mean: float
    half: float
    p: float

    @property
    def told(self) -> int:
        """1 above 0, -1 below 0, 0 where the test does not tell."""
        return int(math.copysign(1, self.mean)) if self.p <= stats.LEVEL else 0

    def __str__(self) -> str:
        value = plusminus(self.mean, self.half, digits=4)
        return f"{value} (p {self.p:.2g}{', significant' if self.told else ''})"


def tested(samples: Mapping[str, Values]) -> dict[str, Difference]:
    """The differences of a family, by their names."""
    p = [stats.p_values([own], dict.fromkeys(own, 0.0))[0] for own in samples.values()]
    intervals = [stats.interval([*own.values()]) for own in samples.values()]
    return {
        name: Difference(interval.mean, interval.half, adjusted)
        for name, interval, adjusted in zip(samples, intervals, stats.holm(p), strict=True)
    }


def judged(number: int, differences: Mapping[str, Difference], solved: bool = True) -> str:
    """The verdict on a prediction by which all of these differences are above 0."""
    least = min(difference.told for difference in differences.values()) if solved else 0
    verdict = "contradicted" if least < 0 else words(True if least else None)
    each = "; ".join(f"{name} {difference}" for name, difference in differences.items())
    return f"{number}. {verdict}{'' if solved else ' (not solved at L)'}: {each}"


def less(a: Values, b: Values) -> Values:
    return {replica: a[replica] - b[replica] for replica in sorted(a.keys() & b.keys())}


def values(study: Study, run: Result, metric: str, length: int) -> Values:
    return study.scores[run.id, AS_TRAINED, metric, length].values


def gain(study: Study, run: Result, metric: str, length: int) -> Values:
    """The bits at the training length less those at another."""
    return less(values(study, run, metric, run.train.length), values(study, run, metric, length))


# rope_base

# Files of results/reference with RoPE of base 10,000 at L and 2 L: the head size, that of the usual
# shape of such a model, not read in the tables, and L. The prediction names the first three.
PUBLISHED = {"press": (128, 512), "kerple": (64, 512), "dape": (64, 512)}
PUBLISHED |= {"press_1024": (128, 1024), "xpos": (64, 1024), "kazemnejad2023_code": (128, 1024)}


class Rise(NamedTuple):
    """The bits per byte at 2 L less those at L, by seed, of a model with a share of short pairs."""

    share: float
    rises: list[float]
    further: float
    """The mean bits at 4 L less those at L."""
    length: int
    theta: float
    head: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.rises)

    def __str__(self) -> str:
        return f"L {self.length}, base {self.theta:g}, heads of {self.head}"


def rope_rises(study: Study) -> Iterator[Rise]:
    for run in study.runs.values():
        config, length = run.config, run.train.length
        head, theta = config["lm"]["model"] // config["lm"]["heads"], config["pe"]["rope"]["base"]
        own, more = (gain(study, run, "same_targets", n * length) for n in (2, 4))
        share, rise = rope_base.short_pairs(theta, head, length), [-value for value in own.values()]
        yield Rise(share, rise, -_mean(more), length, theta, head)


def published_rises() -> Iterator[tuple[float, float, str]]:
    """The share of short pairs of published models, their rise in bits a token, and the source."""
    for name, (head, length) in PUBLISHED.items():
        with (ROOT / f"results/reference/{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["spec"] == "rope"]
        at, beyond = (float(row["value"]) for row in rows if row["at"] in ("1x", "1.98x", "2x"))
        share = rope_base.short_pairs(1e4, head, length)
        yield share, math.log2(beyond / at), rows[0]["source"]


def of_rope_base(study: Study) -> Iterator[str]:
    cells = sorted(rope_rises(study), key=lambda cell: (cell.share, cell.mean))
    yield f"{len(cells)} models: share of short pairs, rise at 2 L in bits per byte"
    yield from (f"  {cell.share:.3f}  {cell.mean:6.3f}  {cell}" for cell in cells)
    none = [cell for cell in cells if cell.share == 0]
    many = [cell for cell in cells if cell.share > 0.3]
    for number, group, holds, bound in (
        (1, none, lambda rise: rise < 0.1, "share 0: below 0.1"),
        (2, many, lambda rise: rise > 1, "share above 0.3: above 1"),
    ):
        broken = [cell for cell in group if not holds(cell.mean)]
        verdict = words(not broken if group else None)
        yield f"{number}. {bound}: {verdict} ({len(broken)} of {len(group)} against it)"
        yield from (f"     {cell}" for cell in broken)

    def rho(of: Sequence[Rise], by: str, rise: str = "mean") -> float:
        ours, theirs = ([getattr(cell, name) for cell in of] for name in (by, rise))
        return float(np.asarray(spearmanr(ours, theirs))[0])

    some, value = [cell for cell in cells if cell.share], rho(cells, "share")
    yield f"3. Spearman's rho {value:.2f}, at least 0.7: {words(value >= 0.7)}"
    yield f"Not predicted, rho of the {len(some)} with a share above 0: {rho(some, 'share'):.2f}"
    further = [rho(of, "share", "further") for of in (cells, some)]
    yield f"  of the rise at 4 L: {further[0]:.2f} of all, {further[1]:.2f} of these"
    bases = [rho(cells, "theta", rise) for rise in ("mean", "further")]
    yield f"  of the base in place of the share: {bases[0]:.2f} at 2 L, {bases[1]:.2f} at 4 L"
    yield "On the same axis (share, rise in bits a token):"
    yield from (
        f"  {share:.3f}  {rise:6.3f}  {source}" for share, rise, source in published_rises()
    )


# code_8, code_5m

BEFORE = ("forget_gate", "kerple_log", "transformer_xl")


def _text(study: Study, encodings: Sequence[str]) -> tuple[dict[str, Result], float]:
    # The runs at the training length by encoding, and what the reference has less at 4 L than its
    # model has at L
    (group,) = study.groups
    runs = {run.label: run for run in group.runs}
    model = runs["kerple_log"]
    (reference,) = group.oracles[model.id]
    longer = reference.train.length
    own = values(study, model, "same_targets", model.train.length)
    least = values(study, reference, "same_targets", longer)
    room = statistics.fmean(own.values()) - statistics.fmean(least.values())
    return {name: runs[name] for name in encodings}, room


def _order(study: Study, runs: Mapping[str, Result], pairs: Sequence[tuple[str, str]], length: int):
    gains = {name: gain(study, run, "same_targets", length) for name, run in runs.items()}
    order = tested({f"{a} over {b}": less(gains[a], gains[b]) for a, b in pairs})
    if all(difference.mean > 0 for difference in order.values()):
        return order, "holds"
    against = any(difference.told < 0 for difference in order.values())
    return order, "contradicted" if against else "fails, and is not contradicted"


def of_code_8(study: Study) -> Iterator[str]:
    runs, room = _text(study, code_8.ENCODINGS)
    length = runs["kerple_log"].train.length
    gains = tested(
        {
            f"{name} at {times * length}": gain(study, run, "same_targets", times * length)
            for name, run in runs.items()
            for times in (2, 4)
        }
    )
    yield f"1. The reference is {room:.4f} bits below KERPLE at 4 L: {words(room >= 0.05)}"
    shares = {}
    for name, run in runs.items():
        four = gain(study, run, "same_targets", 4 * length)
        shares[name] = stats.interval([100 * value / room for value in four.values()])
        told = gains[f"{name} at {4 * length}"].told
        uses = told > 0 and shares[name].mean >= 25
        status = "uses the text" if uses else "loses" if told < 0 else "robust, context unused"
        yield f"   {name}: gain at 2 L {gains[f'{name} at {2 * length}']}"
        yield f"     at 4 L {gains[f'{name} at {4 * length}']}"
        share = plusminus(shares[name].mean, shares[name].half, digits=0)
        status = status if room >= 0.05 or told < 0 else "no headroom"
        yield f"     share {share} %, {len(four)} seeds: {status}"
    told = [gains[f"{name} at {2 * length}"].told > 0 for name in BEFORE]
    yield f"2. Gains at 2 L of {', '.join(BEFORE)} are significant: {words(all(told))}"
    below = all(share.mean < 25 for share in shares.values())
    yield f"3. All shares are below 25 %: {words(below if room >= 0.05 else None)}"
    pairs = [*((name, "alibi") for name in BEFORE), ("alibi", "t5")]
    order, verdict = _order(study, runs, pairs, 4 * length)
    yield f"4. The order at 4 L: {verdict}"
    yield from (f"     {name}: {difference}" for name, difference in order.items())


def of_code_5m(study: Study) -> Iterator[str]:
    runs, room = _text(study, (*BEFORE, "alibi"))
    length = runs["kerple_log"].train.length
    yield f"1. The reference is {room:.4f} bits below KERPLE at 4 L: {words(room >= 0.05)}"
    shares = {}
    for name, run in runs.items():
        four = gain(study, run, "same_targets", 4 * length)
        shares[name] = 100 * statistics.fmean(four.values()) / room
        yield f"   {name}: share {shares[name]:.0f} %, {len(four)} seeds"
    small = Study.of(load(ROOT / "results/code_8"))
    theirs, most = _text(small, ("kerple_log",))
    before = gain(small, theirs["kerple_log"], "same_targets", 128).values()
    more = shares["kerple_log"] - 100 * statistics.fmean(before) / most
    verdict = words(more >= 10 if room >= 0.05 else None)
    yield f"2. KERPLE's share is {more:+.0f} points above that in results/code_8: {verdict}"
    order, verdict = _order(study, runs, [(name, "alibi") for name in BEFORE], 4 * length)
    yield f"3. The order at 4 L: {verdict}"
    yield from (f"     {name}: {difference}" for name, difference in order.items())


# noise


def _source(run: Result) -> str:
    if len(run.seeds) > 1:
        return "seeds"
    if "/orders/" in run.config["data"]["source"]:
        return "order"
    usual = noise.get_config().train
    return "horizon" if run.config["train"]["steps"] != usual.steps else "rate"


def of_noise(study: Study) -> Iterator[str]:
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    changes: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for run in study.runs.values():
        for length in (64, 1024):
            scores = values(study, run, "same_targets", length).values()
            found[key := (run.label, _source(run), length)] += scores
            if field := {"horizon": "steps", "rate": "rate"}.get(key[1]):
                changes[key].append(run.config["train"][field])
    sd = {key: statistics.stdev(scores) for key, scores in found.items()}
    yield "Standard deviations in bits per byte, with 95 % intervals"
    for (name, source, length), scores in sorted(found.items()):
        n = len(scores)
        low, high = (
            sd[name, source, length] * math.sqrt((n - 1) / special.chdtri(n - 1, p))
            for p in (0.025, 0.975)
        )
        share = (sd[name, source, length] / sd[name, "seeds", length]) ** 2
        yield (
            f"  {name} at {length}, {source}: {sd[name, source, length]:.4f} ({low:.4f} to "
            f"{high:.4f}), {100 * share:.0f} % of that of seeds, n {n}"
        )
    for (name, source, length), changed in sorted(changes.items()):
        rho = float(np.asarray(spearmanr(changed, found[name, source, length]))[0])
        yield f"  {name} at {length}, Spearman's rho of {source} and score {rho:.2f}"
    for name, length in itertools.product(noise.ENCODINGS, (64, 1024)):
        left = sd[name, "seeds", length] ** 2 - sd[name, "order", length] ** 2
        yield f"  {name} at {length}, initial weights (seeds less order): variance {left:.2g}"
    n = noise.VALUES
    spread = math.sqrt(special.fdtri(n - 1, n - 1, 0.975))

    def ratio(key, other) -> float:
        return sd[key] / sd[other]

    def line(said: str, value: float, low: float, high: float, more: str = "") -> str:
        return f"   {said}: {words(low <= value <= high)} ({value:.2f}{more})"

    def wide(value: float) -> str:
        return f", {value / spread:.2f} to {value * spread:.2f}"

    def seeds(name: str, length: int) -> tuple[str, str, int]:
        return name, "seeds", length

    yield "1. Standard deviations over seeds at 16 L over those at L"
    own = {name: ratio(seeds(name, 1024), seeds(name, 64)) for name in noise.ENCODINGS}
    yield line("kerple_log, at most 2", own["kerple_log"], 0, 2)
    yield line("rope, at least 10", own["rope"], 10, math.inf)
    yield "2. Standard deviations of rope at 16 L over that of seeds, at least 0.5"
    for source in ("horizon", "rate"):
        value = ratio(("rope", source, 1024), seeds("rope", 1024))
        is_open = value / spread < 0.5 < value * spread
        yield line(source, value, 0.5, math.inf, f"{wide(value)}{', open' * is_open}")
    yield "3. The same of the order at L, 0.5 to 0.87 (a quarter to three quarters of the variance)"
    for name in noise.ENCODINGS:
        value = ratio((name, "order", 64), seeds(name, 64))
        yield line(name, value, math.sqrt(0.25), math.sqrt(0.75), wide(value))
    needed = {
        name: 2 * (1.96 + 0.84) ** 2 * (sd[name, "seeds", 1024] / difference) ** 2
        for name, difference in (("kerple_log", 0.02), ("rope", 0.1))
    }
    holds = needed["kerple_log"] < 15 and needed["rope"] > 100
    yield (
        f"4. Seeds at 16 L: {needed['kerple_log']:.1f} for 0.02 bits of kerple_log, fewer than 15; "
        f"{needed['rope']:.0f} for 0.1 of rope, more than 100: {words(holds)}"
    )


# hybrids, carriers


class Use(NamedTuple):
    """Whether a model uses the context at a length; None: it is undecided."""

    used: bool | None
    share: float  # of the headroom, in percent; NaN: there is none, or it has not solved its task
    text: str


def uses_of(
    study: Study,
    group: Group,
    runs: Mapping[Any, Result],
    times: int,
    floor: Result | None = None,
) -> dict[Any, Use]:
    """By the rules of configs/hybrids.py, at `times` L; `floor` is a model whose gain others must
    exceed.
    """
    task, length = group.runs[0].config["task"]["name"], group.train_length
    metric, at, out = "last_bits" if task == "markov" else "accuracy", times * length, {}
    if metric == "accuracy":
        for name, run in runs.items():
            there = values(study, run, metric, at)
            solved = [s for s, v in values(study, run, metric, length).items() if v >= 99]
            known = len(solved) >= 2 and {*solved} <= there.keys()
            used = all(there[s] >= 90 for s in solved) if known else None
            text = f"{_mean(there):.0f} % ({len(solved)} seeds solve L)"
            out[name] = Use(used, math.nan, text)
        return out
    own = {f"{name}": gain(study, run, metric, at) for name, run in runs.items()}
    gains = above = tested(own)
    if floor:
        least = gain(study, floor, metric, at)
        above = tested({name: less(of, least) for name, of in own.items()})
    for name, run in runs.items():
        share = _mean(values(study, run, HEADROOM.name, at))
        solved = _mean(values(study, run, "above_bayes", length)) <= 0.01
        gained = gains[f"{name}"]
        text = f"{gained}, share {share:.0f} %{'' if solved else ', not solved at L'}"
        text += f", above windows {above[f'{name}']}" if floor else ""
        share = share if solved else math.nan
        told = gained.told > 0 and above[f"{name}"].told > 0
        decided = share < 25 or (share >= 25 and told)  # neither, of NaN
        out[name] = Use(share >= 25 if decided else None, share, text)
    return out


def _mean(of: Values) -> float:
    return statistics.fmean(of.values()) if of else math.nan


def _by_spec(runs: Sequence[Result]) -> dict[str, Result]:
    specs = [run.config["pe"]["spec"] for run in runs]
    twice = {spec for spec in specs if specs.count(spec) > 1}
    if twice:
        sys.exit(f"two runs of {', '.join(sorted(twice))}: delete the folder of the first")
    return dict(zip(specs, runs, strict=True))


def counted(cases: int, holding: Sequence[bool], need: float = 1.0) -> str:
    """The verdict on a prediction of so many cases by those that are decided."""
    decided = 2 * len(holding) >= cases
    verdict = words(sum(holding) >= need * len(holding) if decided else None)
    return f"{verdict} ({sum(holding)} of {len(holding)} decided of {cases})"


Shape = tuple[str, str]
"""The encoding of the global layers, and which these are."""


def of_hybrids(study: Study) -> Iterator[str]:
    every = itertools.product(hybrids.GLOBAL, hybrids.LAYERS)
    shapes: dict[str, Shape] = {str(parse(hybrids.hybrid(*shape))): shape for shape in every}
    uses = {}  # (task, shape, times) of models that have solved their task
    shares: dict[Shape, float] = {}  # on Markov chains at 4 L
    for group in study.groups:
        named = _by_spec(group.runs)
        runs = {shapes[label]: run for label, run in named.items() if label in shapes}
        floor = named[str(parse(hybrids.hybrid("", "")))]
        task = group.runs[0].config["task"]["name"]
        for times in (4, 16):
            for shape, use in uses_of(study, group, runs, times, floor).items():
                yield f"{task}, {shape} at {times} L: {use.text}"
                if use.used is not None:
                    uses[task, shape, times] = use.used
                if (task, times) == ("markov", 4) and not math.isnan(use.share):
                    shares[shape] = use.share

    for task in hybrids.RATES:
        of = {key[1:]: used for key, used in uses.items() if key[0] == task}
        nope = [used for (shape, _), used in of.items() if shape[0] == "nope"]
        rope = [not used for (shape, n), used in of.items() if (shape[0], n) == ("rope", 16)]
        yield f"1. {task}: hybrids with NoPE use the context at 4 L and 16 L: {counted(4, nope)}"
        yield f"2. {task}: no hybrid with RoPE uses it at 16 L: {counted(2, rope)}"
    whole = shares.keys() == {*shapes.values()}
    order, (one, two) = ("nope", "partial_rope", "p_rope", "rope"), hybrids.LAYERS
    pairs = [((a, n), (b, n)) for n in (one, two) for a, b in itertools.pairwise(order)]
    falls = [shares[a] > shares[b] for a, b in pairs] if whole else []
    yield f"3. Shares fall from nope to rope: {counted(6, falls, 5 / 6)}"
    rises = [shares[name, two] > shares[name, one] for name in order] if whole else []
    yield f"4. Two global layers use more than one: {counted(4, rises)}"


def of_carriers(study: Study) -> Iterator[str]:
    uses: dict[tuple[str, str, int], bool] = {}
    gains: dict[str, Values] = {}  # from L to 16 L of Markov chains, where they are solved
    for group in study.groups:
        runs, task = _by_spec(group.runs), group.runs[0].config["task"]["name"]
        for times in (4, 16, 64) if task == "markov" else (4, 16):
            for name, use in uses_of(study, group, runs, times).items():
                yield f"{task}, {name} at {times} L: {use.text}"
                if use.used is not None:
                    uses[task, name, times] = use.used
                if (task, times) == ("markov", 16) and not math.isnan(use.share):
                    far = times * group.train_length
                    gains[name] = gain(study, runs[name], "last_bits", far)

    def decided(names: Sequence[str], times: Sequence[int], use: bool, *tasks: str) -> list[bool]:
        cases = itertools.product(tasks, names, times)
        return [uses[case] == use for case in cases if case in uses]

    recurrent = decided(carriers.RECURRENT, (4, 16, 64), True, "markov")
    yield f"1. A recurrence with NoPE uses the context of chains: {counted(9, recurrent)}"
    rope = decided([carriers.ROPE], [16], False, *carriers.MODELS)
    yield f"2. RoPE beside it does not at 16 L: {counted(2, rope)}"
    nope = decided([DELTA], [16], True, *carriers.MODELS)
    yield f"3. NoPE beside it does: {counted(2, nope)}"
    both = [(DELTA, "forget_gate"), (KIMI, "forget_gate")]
    parts = [(DELTA, carriers.CONVOLUTION), (DELTA, carriers.WHOLE)]
    for number, said, pairs in (4, "More than forget_gate", both), (5, "It needs both", parts):
        known = [(a, b) for a, b in pairs if {a, b} <= gains.keys()]
        order = tested({f"{a} over {b}": less(gains[a], gains[b]) for a, b in known})
        told = [d.told > 0 for d in order.values() if d.told]
        yield f"{number}. {said}: {counted(2, told)}"
        yield from (f"     {name}: {difference}" for name, difference in order.items())


# tasks_solved


def of_tasks_solved(study: Study) -> Iterator[str]:
    reach: dict[tuple[str, str], float | None] = {}  # in L; None where too few have solved
    for run in study.runs.values():
        task, length = run.config["task"], run.train.length
        name = "copy" if "UniqueCopy" in task["name"] else task["name"]
        at = {n: values(study, run, "exact_match", n) for n in run.config["eval"]["lengths"]}
        solved = [seed for seed, value in at[length].items() if value >= 99]
        key = name, run.config["pe"]["spec"].partition("(")[0]
        reach[key] = None
        if len(solved) >= 4:
            held, left = {}, solved
            for n, own in sorted(at.items()):
                left = [seed for seed in left if own.get(seed, 0.0) >= 90]
                held[n] = len(left) >= 4
            reach[key] = (stats.reach(held, length).length or 0) / length
        means = ", ".join(f"{n}: {_mean(own):.0f}" for n, own in at.items())
        far = "undecided" if reach[key] is None else f"generalises to {reach[key]:g} L"
        seeds = f"{len(solved)} of {len(at[length])} seeds have solved it"
        yield f"{' '.join(key)}: {seeds}, {far} ({means} %)"

    def verdict(keys: Sequence[tuple[str, str]], least: float = 0.0, below: float = math.inf):
        known = [reach.get(key) for key in keys]
        holds = all(least <= far < below for far in known if far is not None)
        return words(None if holds and None in known else holds)

    alone = [("addition", name) for name in tasks_solved.PLAIN]
    yield f"1. position_coupling to 6 L: {verdict([('addition', 'position_coupling')], 6)}"
    yield f"2. abacus to 5 L: {verdict([('addition', 'abacus')], 5)}"
    yield f"3. No other encoding adds to 1.5 L: {verdict(alone, below=1.5)}"
    yield f"4. nope copies to 1.5 L: {verdict([('copy', 'nope')], 1.5)}"
    ropes = [("copy", "rope"), ("addition", "rope")]
    yield f"5. rope not to 1.1 L: {verdict(ropes, below=1.1)}"


# scaling_ruler


def of_scaling_ruler(study: Study) -> Iterator[str]:
    (run,) = study.runs.values()
    fixed, *others = scaling_ruler.SWAPS

    def of(swap: str, metric: str, length: int = 16384) -> Values:
        return study.scores[run.id, Way(swap=swap), metric, length].values

    def far(swap: str) -> Values:
        return of(swap, "records")

    found = tested({swap: less(far(swap), far(fixed)) for swap in others})
    yield from (f"{swap} less {fixed}: {difference} nats" for swap, difference in found.items())
    order = ("rerope", "yarn", "ntk", "lm_infinite")
    steps = tested({f"{b} less {a}": less(far(b), far(a)) for a, b in itertools.pairwise(order)})
    against = any(step.told < 0 for step in steps.values())
    holds = all(step.mean > 0 for step in steps.values())
    yield f"1. {' < '.join(order)}: {words(False if against else holds or None)}"
    yield from (f"     {name}: {step}" for name, step in steps.items())
    signs = {"rerope": -1, "lm_infinite": 1, "streaming": 1}
    against = any(found[swap].told == -sign for swap, sign in signs.items())
    holds = all(found[swap].told == sign for swap, sign in signs.items())
    yield f"2. Better and worse than {fixed}: {words(False if against else holds or None)}"
    kept = []
    for task in scaling_ruler.TASKS:
        exact = _mean(of("", f"{task}_exact", 4096))
        nats = [_mean(of(swap, task)) for swap in order]
        same = sum(a < b for a, b in itertools.combinations(nats, 2))
        kept += [same] if exact >= 20 else []
        yield f"     {task}: {exact:.0f} % at 4,096 as it is, {same} of 6 pairs in the order"
    yield f"3. The same order in RULER: {words(min(kept) >= 5 if kept else None)}"


# markov_masked


def of_markov_masked(study: Study) -> Iterator[str]:
    runs: dict[str, Result] = {}
    for group in study.groups:
        kind = "" if group.runs[0].config["task"]["masked"] else "decoder "
        runs |= {kind + spec: run for spec, run in _by_spec(group.runs).items()}
    solved, shares = set(), {}
    for name, run in runs.items():
        above = _mean(values(study, run, "above_bayes", 64))
        solved |= {name} if above <= 0.01 else set()
        further = markov_masked.LENGTHS[1:]
        shares[name] = {n: values(study, run, HEADROOM.name, n) for n in further}
        said = ", ".join(f"{_mean(share):.0f} % at {n}" for n, share in shares[name].items())
        yield f"{name}: {above:.3f} bits above the best prediction at 64, shares {said}"
    shares["0"] = {1024: dict.fromkeys(shares.get("rope", {1024: ()})[1024], 0.0)}
    sided, symmetric = str(parse(markov_masked.SIDED)), {"nope", "alibi", "kerple_log"}
    known = {sided} | symmetric <= runs.keys()
    holds = sided in solved and not solved & symmetric if known else None
    yield f"1. One-sided heads solve the task, and no symmetric bias does: {words(holds)}"
    pairs = {  # by prediction, of the model with the larger share and the other one
        2: [("rope", "decoder rope", 256), ("sinusoidal", "decoder sinusoidal", 256)],
        3: [("0", "rope", 1024), ("0", "sinusoidal", 1024)],
        4: [(sided, "t5", 1024)],
    }
    every = itertools.chain.from_iterable(pairs.values())
    every = [(a, b, n) for a, b, n in every if {a, b} <= shares.keys()]
    found = tested({f"{a} over {b}": less(shares[a][n], shares[b][n]) for a, b, n in every})
    for number, of in pairs.items():
        names = {name for a, b, _ in of for name in (a, b)}
        keys = [f"{a} over {b}" for a, b, _ in of]
        differences = {key: found[key] for key in keys if key in found}
        yield judged(number, differences, names <= solved | {"0"})
    theirs: dict[str, Values] = {}
    decoders = Study.of(load(ROOT / "results/markov"))
    for run in decoders.runs.values():
        name = run.label.replace("kerple_log", sided)
        if run.train.length == 64 and _mean(values(decoders, run, "above_bayes", 64)) <= 0.01:
            theirs[name] = values(decoders, run, HEADROOM.name, 1024)
    ours = {name: shares[name][1024] for name in solved}
    n, rho = _ranks(ours, theirs)
    yield f"Spearman's rho at 1,024 with decoders of eight symbols {rho:.2f} of {n}"


# masked_text, objectives, chinese


def rises(study: Study, group: Group, metric: str, times: int) -> dict[str, Values]:
    """By encoding, each seed's loss at `times` L less that at L; without those that are n/a."""
    length = group.train_length
    found = {
        label: less(values(study, run, metric, times * length), values(study, run, metric, length))
        for label, run in _by_spec(group.runs).items()
    }
    seeds = {label: len(run.seeds) for label, run in _by_spec(group.runs).items()}
    return {label: rise for label, rise in found.items() if len(rise) == seeds[label]}


def _listed(of: Mapping[str, Values]) -> Iterator[str]:
    for label, seeds in sorted(of.items(), key=lambda item: _mean(item[1])):
        each = ", ".join(f"{value:+.3f}" for value in seeds.values())
        yield f"     {label} {_mean(seeds):+.3f} ({each})"


def _ranks(a: Mapping[str, Values], b: Mapping[str, Values]) -> tuple[int, float]:
    both = sorted(a.keys() & b.keys())
    ours, theirs = ([_mean(of[label]) for label in both] for of in (a, b))
    return len(both), float(np.asarray(spearmanr(ours, theirs))[0]) if len(both) > 2 else math.nan


def of_masked_text(study: Study) -> Iterator[str]:
    (group,) = study.groups
    lost = rises(study, group, "masked_tokens", 8)
    table, right = "learned(clip=True)", "first_choices"
    steep, flat = ("rope", "sinusoidal", table), ("alibi", "kerple_log", "t5", "nezha")
    known = {*steep, *flat} <= lost.keys()
    up = known and all(min(lost[name].values()) >= 0.05 for name in steep)
    holds = up and all(_mean(lost[name]) <= 0.02 for name in flat) if known else None
    decoders = Study.of(load(ROOT / "results/encodings"))
    (theirs,) = decoders.groups
    n, rho = _ranks(lost, rises(decoders, theirs, "same_targets", 8))
    verdict = words(holds and rho >= 0.7 if known else None)
    yield f"1. Losses at 8 L, and their order: {verdict}"
    yield from _listed(lost)
    yield f"   Spearman's rho with decoders {rho:.2f} of {n}, at least 0.7"
    most = -min(_mean(seeds) for seeds in lost.values())
    yield f"2. The largest gain is {most:.3f} bits, at most 0.02: {words(most <= 0.02)}"

    def of(label: str, swap: str, metric: str, length: int) -> Values:
        run = _by_spec(group.runs)[label]
        return study.scores[run.id, Way(swap=swap), metric, length].values

    hierarchical = of(table, "hierarchical", right, 3 * LENGTH)
    found = tested(
        {
            "ntk(length=64) less ntk": less(
                of("rope", "ntk(length=64)", "masked_tokens", 4 * LENGTH),
                of("rope", "ntk", "masked_tokens", 4 * LENGTH),
            ),
            "decoders' base less that of both sides": less(
                *(of("rope", swap, "masked_tokens", 4 * LENGTH) for swap in reversed(DIFFUSION))
            ),
            "cropped less hierarchical": less(of(table, "", right, LENGTH), hierarchical),
            "hierarchical less repeated": less(hierarchical, of(table, "", right, 3 * LENGTH)),
        }
    )

    first, base, *others = found
    yield judged(3, {first: found[first]})
    far = {swap: _mean(of("rope", swap, "masked_tokens", 8 * LENGTH)) for swap in SWAPS["rope"]}
    said = ", ".join(f"{swap} {bits:.3f}" for swap, bits in far.items())
    best = min(far, key=far.__getitem__) == "window"
    yield f"4. The window is the best of rope's swaps: {words(best)} ({said})"
    yield judged(5, {name: found[name] for name in others})
    yield judged(6, {base: found[base]})


def of_objectives(study: Study) -> Iterator[str]:
    metrics = {0.3: "masked_tokens", None: "same_targets", "uniform": "diffusion_bound"}
    names = {0.3: "encoders", None: "decoders", "uniform": "diffusion models"}
    rates = {group.runs[0].config["task"].get("rate"): group for group in study.groups}
    lost: dict[str, dict[str, Values]] = {}
    hidden: dict[str, dict[str, float]] = {}  # bits at L of hidden tokens, of those that count
    for rate, group in rates.items():
        name, metric, own = names[rate], metrics[rate], _by_spec(group.runs)
        at = {n: _mean(values(study, r, metric, r.train.length)) for n, r in own.items()}
        every = rises(study, group, metric, 8)
        of = lost[name] = {n: every[n] for n in every if at[n] <= at["nope"] - 0.05}
        named = ("rope", "sinusoidal", "alibi", "kerple_log")
        up = all(min(of[n].values()) >= 0.05 for n in named[:2] if n in of)
        flat = all(_mean(of[n]) <= 0.02 for n in named[2:] if n in of)
        verdict = words(up and flat if {*named} <= of.keys() or not (up and flat) else None)
        yield f"1. Losses of {name} at 8 L: {verdict}"
        yield from _listed(of)
        if rate:
            hidden[name] = {
                n: _mean(values(study, own[n], "masked_tokens", own[n].train.length)) for n in of
            }
    worse = [  # of each objective the pairs whose first loses more in every seed
        {
            (a, b)
            for a, b in itertools.permutations(of, 2)
            if min(less(of[a], of[b]).values()) >= 0.02
        }
        for of in lost.values()
    ]
    same, reversed_ = (
        sum(len(a & {pair[::step] for pair in b}) for a, b in itertools.combinations(worse, 2))
        for step in (1, -1)
    )
    both = same + reversed_
    verdict = words(not reversed_ if both >= 8 else None)
    yield f"2. No order is reversed: {verdict} ({reversed_} of {both} are)"
    for a, b in itertools.combinations(lost, 2):
        n, rho = _ranks(lost[a], lost[b])
        yield f"   Spearman's rho of {a} and {b} {rho:.2f} of {n}"
    bound = lost["diffusion models"].get("rope", {})
    tokens = rises(study, rates["uniform"], "masked_tokens", 8).get("rope", {})
    more = less(tokens, bound).values()
    smaller = min(more) > 0 if more else None
    most = f"{_mean(tokens):+.3f} of hidden tokens"
    yield f"3. rope loses less by the bound: {words(smaller)} ({most})"
    ours, theirs = hidden["encoders"], hidden["diffusion models"]
    more = {n: theirs[n] - ours[n] for n in sorted(ours.keys() & theirs.keys())}
    each = ", ".join(f"{n} {bits:+.3f}" for n, bits in more.items())
    verdict = words(min(more.values()) > 0 if more else None)
    yield f"4. Encoders have fewer bits: {verdict} (by {each})"


def of_chinese(study: Study) -> Iterator[str]:
    texts = {
        "poems" if "poems" in group.runs[0].config["data"]["source"] else "novels": group
        for group in study.groups
    }
    found = {name: rises(study, group, "same_targets", 16) for name, group in texts.items()}
    for name, lost in found.items():
        flat, steep = ("kerple_log", "alibi"), ("rope", "sinusoidal")
        known = {*flat, *steep} <= lost.keys()
        holds = known and all(_mean(lost[label]) < 0.02 for label in flat)
        holds = holds and all(min(lost[label].values()) > 0.05 for label in steep)
        yield f"1. Rises to 16 L in {name}: {words(holds if known else None)}"
        yield from _listed(lost)
    n, rho = _ranks(found["poems"], found["novels"])
    holds = 35 * rho > 29 - 1e-6 if n == 6 else None
    yield f"2. Spearman's rho {rho:.3f} of {n}, at least 29/35 of six: {words(holds)}"
    most = -min(_mean(seeds) for seeds in found["poems"].values())
    yield f"3. The largest gain in poems is {most:.3f} bits, below 0.02: {words(most < 0.02)}"


def of_hierarchical(study: Study) -> Iterator[str]:
    near, far = hierarchical.LENGTH, hierarchical.TIMES * hierarchical.LENGTH
    own, new_rows = hierarchical.SPECS
    runs: dict[Any, Result] = {}
    for run in study.runs.values():
        further = run.train.steps if run.config["train"]["init_from"] else 0
        key = run.config["pe"]["spec"], run.train.length, further
        if key in runs:
            sys.exit(f"{run.label} has two runs of these lengths and steps: keep the chosen one")
        runs[key] = run

    def right(spec: str, trained: int, further: int, at: int) -> Values:
        return values(study, runs[spec, trained, further], "first_choices", at)

    after = less(right(own, far, 2000, far), right(own, near, 2000, near))
    found = tested(
        {
            "32 less 96 bytes": less(right(own, near, 0, near), right(own, near, 0, far)),
            "96 less 32 bytes, and one point": {seed: v + 1 for seed, v in after.items()},
            "over new rows": less(right(own, far, 500, far), right(new_rows, far, 500, far)),
        }
    )
    yield from (judged(n, {name: found[name]}) for n, name in enumerate(found, 1))


VERDICTS = {
    "rope_base": of_rope_base,
    "code_8": of_code_8,
    "noise": of_noise,
    "hybrids": of_hybrids,
    "carriers": of_carriers,
    "markov_masked": of_markov_masked,
    "masked_text": of_masked_text,
    "objectives": of_objectives,
    "chinese": of_chinese,
    "hierarchical": of_hierarchical,
    "tasks_solved": of_tasks_solved,
    "code_5m": of_code_5m,
    "scaling_ruler": of_scaling_ruler,
}


def main() -> None:
    name, *folder = sys.argv[1:] or [""]
    if name not in VERDICTS:
        sys.exit(f"the first argument is one of {', '.join(VERDICTS)}, got {name!r}")
    study = Study.of(load(*(folder or [ROOT / "results" / name])))
    print("\n".join(VERDICTS[name](study)))


if __name__ == "__main__":
    main()
