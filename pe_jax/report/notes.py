"""The notes of a table: facts on its numbers, and a glossary of the terms that occur in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pe_jax.record import HELD_OUT, Result, few
from pe_jax.report.groups import draws, other_text
from pe_jax.report.phrases import capital, commit, each, join
from pe_jax.report.sheet import FIRST, Note
from pe_jax.report.stats import DOCUMENTS
from pe_jax.report.study import HEADROOM
from pe_jax.report.table import CROP, NEAR_BAYES, SOLVED, SOLVED_BEYOND, Table, in_percent
from pe_jax.report.table import rate as rate_of

GLOSSARY = {
    "±": "half of the 95 % interval by Student's t over {replicates}",
    "(±)": "half of the 95 % interval over documents, weighted by their bytes, of the mean over "
    "seeds; none where records hold no sums over documents, as of earlier releases, and "
    f"where the documents weigh less than {DOCUMENTS} of equal size",
    "Bold": "the best mean of a column and all means that round to it or that no test tells from "
    "it at 5 % (paired t test over {replicates}, McNemar's exact test where a score is right or "
    "wrong; p values adjusted by Holm's method over all pairs of rows of the column); none where "
    "these are several and more than a third of the compared rows",
    "Change": "the value at the longest length minus that at the training length, paired over "
    "{replicates}",
    "Effective length": "the longest evaluated length up to which the mean is at most 1 % worse "
    "than at the training length",
    "Mean beyond": "over all evaluated lengths beyond training; a table of more than seven "
    "shows some",
    "Solved length": "the longest evaluated length up to which more than half of the {replicates} "
    f"have at least {SOLVED_BEYOND:g} %; a seed has solved the training length with {SOLVED:g} %",
    "90 % used up to": "the longest evaluated length up to which more than half of the "
    "{replicates} use at least 90 % of the headroom",
    "≥": "no longer length was evaluated",
    "Seconds a window": "at the longest length, one at a time",
    "Rows": "A from B is A initialised from the parameters of B, with a new optimizer; A, B is A "
    "with B swapped in and A, field=value is A on samples of the task with that value, without "
    "further training. Window L: {window} in every layer. Memory M: "
    "segments of the training length; each also attends to the layer's inputs at the M "
    "tokens before it, as in Transformer-XL",
    "Reference": "A, cropped to L is the value of A at L at every longer length; A, trained at E "
    "is at each length E the value of A trained at E on the same text for as many steps; without "
    "bold and test",
    "No model": "most frequent target is the target that its place has most often in other "
    "samples, most frequent symbol that of all places together; 3-gram is how often each label "
    "came behind the last three tokens in other samples; Bayes is the prediction that is best on "
    "average, given the tokens so far; guess is a simple method of the task's own",
    "Difference": "paired over {replicates}, ± half of the 95 % interval by Student's t",
    "Better, worse": "paired t test over {replicates} at 5 %, two-sided (McNemar's exact test "
    "where a score is right or wrong), p values adjusted by Holm's method over the rows of a "
    "column, over all pairs of them where the first row is the baseline and was not named",
    "Equal": "to the bit",
    "Equivalent": "two one-sided paired t tests at 5 % (exact binomial tests where a score is "
    "right or wrong), adjusted in the same way, hold the mean difference within the margin",
    "Seeds": "how many a two-sided paired t test at 5 %, divided by the number of rows, needs for "
    "a power of 80 %; sd is that of the paired differences, or of the scores of one model; of 3 "
    "seeds the true sd may be 0.5 to 6 times as large",
    "Seeds of one model": "how many of each an unpaired t test at 5 % needs for a power of 80 %, "
    "uncorrected, with the n − 1 degrees of a paired one; sd is that of the scores",
    "B − A": "paired over the {replicates} that both have; better: two-sided paired t test at 5 % "
    "(McNemar's exact test where a score is right or wrong), p values adjusted by Holm's method "
    "over all differences of a metric",
}
THEN = ", then "  # between the commits of one run in a record


def facts(table: Table) -> tuple[Note, ...]:
    """What was measured and how the models were trained, and what limits a comparison."""
    found: dict[str, Iterable[str]] = {
        "Metric": _metric(table),
        "Training": [_training(table), *_rates(table)],
        FIRST: _cautions(table),
        "Provenance": _provenance(table.runs),
    }
    return tuple(Note(name, text) for name, texts in found.items() for text in texts)


def glossary(table: Table) -> tuple[Note, ...]:
    """A sentence for each term of the GLOSSARY that occurs in the table."""
    rows = table.rows
    samples, ways = any(row.beyond for row in rows), any(row.way for row in rows)
    blocks = {row.block for row in rows if row.method}
    occurs = {
        "(±)": table.replicate == "seed" and not draws(table.runs[0]),
        "±": any(cell.half >= 0 for row in rows for cell in (*row.cells, row.summary)),
        "Bold": any(cell.best for row in rows for cell in (*row.cells, row.summary)),
        "Change": not samples,
        "Effective length": not samples and any(row.effective is not None for row in rows),
        "Mean beyond": samples,
        capital(table.metric.reach): samples,
        "≥": any(row.censored for row in rows),
        "Seconds a window": any(row.seconds is not None for row in rows),
        "Rows": ways or any(run.parent and run.train.steps for run in table.runs),
        "Reference": "reference" in blocks,
        "No model": bool(blocks - {"reference"}),
    }
    window = "attention to tokens less than L away"
    if table.runs[0].config.get("lm", {}).get("causal", True):
        window = "causal attention to the last L tokens"
    return terms([term for term in GLOSSARY if occurs.get(term)], f"{table.replicate}s", window)


def terms(occur: Iterable[str], replicates: str, window: str = "") -> tuple[Note, ...]:
    """The notes on these terms of the GLOSSARY."""
    texts = {term: GLOSSARY[term].format(replicates=replicates, window=window) for term in occur}
    return tuple(Note(term, f"{capital(text)}.", general=True) for term, text in texts.items())


def _metric(table: Table) -> Iterator[str]:
    run, name = table.runs[0], table.metric.name
    scoring = run.config.get("eval", {})
    part: str = scoring.get("split", "test")
    text = table.metric.sentence
    for field, value in {
        "split": HELD_OUT.get(part) or part,
        "alike": "for all models and seeds" if table.replicate == "seed" else "with every swap",
        "oracle": "the Bayes-optimal prediction" if draws(run) else "a model trained at it",
        "reference": f"{scoring.get('reference') or run.train.length:,} tokens",
        "last": str(scoring.get("last") or "L/2"),
        "rate": f"{100 * (scoring.get('rate') or 0):.3g} %",
    }.items():
        text = text.replace(f"{{{field}}}", value)
    yield capital(text)
    targets = {run.targets[name] for run in table.runs if name in run.targets}
    held = {n for run in table.runs for n in run.target_bytes.get(name, {}).values()}
    if targets and getattr(table.metric, "compares", "") != "keys":  # of longppl's places, a part
        size = f" ({each([*held], 'byte')})" if held - targets else ""  # tokens are not bytes
        shown = join(f"{n:,}" for n in sorted(targets))
        yield f"{shown} tokens{size} are scored at each length."


def _training(table: Table) -> str:
    run, train = table.runs[0], table.runs[0].train
    numbers = [row.replicas for row in table.rows if row.run and not row.method]
    spread = each(numbers, table.replicate)
    source, lm = run.corpus.source, run.config.get("lm", {})
    if draws(run):
        kind = "Decoders" if lm.get("causal", True) else "Encoders"
        fixed = run.config.get("train", {}).get("curriculum") == "fixed"
        chance = f" Chance: {100 / train.labels:.3g} % of tokens." if train.labels else ""
        loss = ", loss of all tokens" * (run.config.get("train", {}).get("loss") == "all")
        at = f"{'length' if fixed else 'lengths up to'} {train.length}"
        return f"{kind}, {train.steps:,} batches of {source} at {at}{loss}; {spread}.{chance}"
    if not train.steps:
        size = f" ({run.parameters.total:,} parameters)" if run.parameters else ""
        real = (run.config.get("eval", {}).get("reference") or 0) <= train.length
        of = f"{'Pretrained' if real else 'Taken as pretrained'} on up to {train.length:,} tokens"
        return f"{of}{size}; scored on {source}, in its own tokens; {spread}."
    python = sorted({run.corpus.python for run in table.runs if run.corpus.python})
    text = source + (f" of Python {join(python)}" if python else "")
    spec = "" if run.tokenizer.spec == "bytes" else f" ({run.tokenizer.spec})"
    if rate := run.config.get("task", {}).get("rate"):
        text += f", hidden tokens: {rate}"
    return f"Windows of {train.length} tokens{spec} of {text}, {train.steps:,} steps; {spread}."


def _rates(table: Table) -> Iterator[str]:
    called = {row.run: row.label for row in table.rows if row.trained}
    chosen: dict[tuple[float, ...], dict[float, list[str]]] = {}
    for run in table.runs:
        if run.id in called and (rate := rate_of(run)):
            tried = tuple(sorted(one.rate for one in run.rates))
            chosen.setdefault(tried, {}).setdefault(rate, []).append(called[run.id])
    text = "samples" if draws(table.runs[0]) else "text"
    unit = f"bits per {'token' if draws(table.runs[0]) else 'byte'} of validation {text}"
    for tried, by_rate in chosen.items():
        names = "; ".join(f"{rate:g} for {few(own)}" for rate, own in sorted(by_rate.items()))
        if tried:
            rates = join(f"{rate:g}" for rate in tried)
            names = f"of {rates}, that of the lowest {unit} at the training length: {names}"
        if tried or len(by_rate) > 1:
            yield f"Learning rate: {names}."


def _cautions(table: Table) -> Iterator[str]:
    trained, train = [row for row in table.rows if row.trained], table.train_length
    tried = {run.id: sorted(one.rate for one in run.rates) for run in table.runs if run.rates[1:]}
    rates = [(row.label, row.rate, tried[row.run]) for row in trained if row.run in tried]
    if edge := [f"{name} ({rate:g})" for name, rate, of in rates if rate in (of[0], of[-1])]:
        yield f"Learning rate at the edge of those tried: {join(edge)}."
    if aside := [row.label for row in trained if not row.compared]:
        names = join(aside) if len(aside) < len(trained) else "all models"
        far = f"below {SOLVED:g} %"
        if not in_percent(table.metric) or table.metric == HEADROOM:
            far = f"more than {NEAR_BAYES:g} bits above the Bayes-optimal prediction"
        yield f"Not compared beyond {train}: {names} (mean at {train} {far})."
    near = [r.label for r in trained if max(map(abs, r.change.values.values()), default=1) < 1e-4]
    if near and table.metric.name in CROP and table.evaluated[-1] > train:
        yield f"Does not look beyond {train} (each {table.replicate} within 1e-4): {join(near)}."
    run = table.runs[0]
    if other := other_text(run):
        yield f"The scored text, {other.source}, is not the text of training."
    split = run.config.get("eval", {}).get("split", "test")
    doubts = list(run.corpus.doubts(["valid"] if run.scored else dict.fromkeys([split, "valid"])))
    doubts += run.scored.doubts([split]) if run.scored else []
    yield from (f"{doubt}." for doubt in doubts)


def _provenance(runs: Sequence[Result]) -> Iterator[str]:
    values: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        values["commit"] |= {*map(commit, run.commit.split(THEN))}
        values["device"] |= {f"{one.kind} ({one.platform})" for one in [run.device] if one}
        for name, version in run.versions.items():
            values[name].add(version)
    differ = [f"{name} {join(sorted(of))}" for name, of in values.items() if len(of) > 1]
    if differ:
        yield f"The runs differ in {'; '.join(differ)}."
