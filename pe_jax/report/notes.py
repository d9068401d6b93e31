"""The notes of a table: what was measured, and how to read it. `page.summary` says what came out.

Every sentence is computed from the results, so none can disagree with the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pe_jax.metric import Metric
from pe_jax.record import AS_TRAINED, HELD_OUT, Process, Result
from pe_jax.report import headroom, reference_rows, stats
from pe_jax.report.cells import (
    SOLVED,
    Table,
    TableRow,
    by_replica,
    described,
    rate,
    values,
)
from pe_jax.report.groups import draws, other_text
from pe_jax.report.labels import WINDOW
from pe_jax.report.sheet import Note
from pe_jax.report.stats import Rank
from pe_jax.report.words import capital, count, each, join


def notes(results: Sequence[Result], table: Table) -> tuple[Note, ...]:
    """What a reader must know to use the table's numbers, one sentence or two each."""
    metric = described(table.metric)
    own: dict[str, Iterable[str]] = {
        "What was measured": [" ".join(filter(None, _measured(results, table)))],
        "How the models were trained": [setting(results, table.metric), *rates(results, table)],
        "What is doubtful": [f"{why}." for why in (*edges(results, table), *doubts(results))],
        "What differs": filter(None, [differing(results)]),
        "What more context is worth": reference_rows.worth(results, table),
        "What does not look further": _blind(results, table),
        "What had no effect": _without_effect(results, table),
        "How the models rank": _ranks(table),
        "What is not compared": _unsolved(table),
        "What is not bold": _not_bold(table),
    }
    general: dict[str, Iterable[str]] = {
        "How to read the columns": [_columns(table, metric)],
        "What bold means": [_bold(results, table, metric)],
        "How to read the rows": [
            *_models(results),
            *_swaps(table),
            *reference_rows.note(table),
            *reference_rows.task_note(table),
        ],
    }
    return (
        *(Note(question, text) for question, texts in own.items() for text in texts),
        *(Note(question, text, True) for question, texts in general.items() for text in texts),
    )


def _columns(table: Table, metric: Metric) -> str:
    if any(row.beyond for row in table.rows):
        return (
            "Mean beyond a length: over all evaluated lengths beyond it, of which the table may "
            f"show a few. {capital(metric.reach)}: the longest evaluated length up to which "
            f"more than half of the {table.replicate}s have at least 90 % (≥: no length beyond it "
            "was evaluated)."
            + f" A seed solves the training length with at least {SOLVED:g} %, and a model whose "
            "mean is below is not compared with others beyond it: it has no rank, no bold and no "
            "test there, and stands below them." * any(row.solved is not None for row in table.rows)
        )
    helped = "negative" if metric.better == "lower" else "positive"
    return (
        "Gain: the value at the longest length minus the one at the training length, paired over "
        f"{table.replicate}s; {helped} means that the longer context helps. Effective length: the "
        "longest evaluated length up to which the mean is at most 1 % worse than at the training "
        "length (≥: no length beyond it was evaluated)."
        + (" Seconds a window: at the longest length, one at a time." * (table.replicate != "seed"))
    )


def _bold(results: Sequence[Result], table: Table, metric: Metric) -> str:
    rows = "model as it is and its swaps" if table.of_swaps else "models as trained"
    return (
        f"Bold: the {metric.best} mean of a column among the {rows} {_marked(results, table)}. "
        "None is bold where more than a third of the rows would be."
    )


UNSOLVED = f"the mean at the longest length of training is below {SOLVED:g} %"
"""Why a model of a task is not compared with others beyond the training length."""


def _unsolved(table: Table) -> Iterator[str]:
    """Which models are not compared beyond the training length."""
    trained = [row for row in table.rows if row.trained]
    aside = [row.label for row in trained if not row.compared]
    if aside:
        all_of = len(aside) == len(trained)
        which = "no model" if all_of else f"not {join(aside)}"
        yield f"Compared beyond {table.train_length}: {which}, since {UNSOLVED}."


SAME = ("same_targets", "last_bits")
"""Metrics whose targets are the same at every length, so that a change comes from context alone."""
STILL = 1e-4
"""Bits. A value that changes by less from the training length to FAR times it (where this was not
evaluated, to the longest length) does not depend on what lies beyond the training length."""
FAR = 16


def _blind(results: Sequence[Result], table: Table) -> Iterator[str]:
    """Which models, as trained and with swaps, do not look beyond the training length."""
    train, by_id = table.train_length, {result.id: result for result in results}
    far = FAR * train if FAR * train in table.evaluated else table.lengths[-1]
    if table.metric not in SAME or far == train:
        return
    still = []
    for row in table.rows:
        if row.trained or (row.way.swap and row.together and row.way != WINDOW):
            near_by, far_off = (
                values(by_replica(by_id[row.run], table.metric, length, row.way))
                for length in (train, far)
            )
            shared = near_by.keys() & far_off.keys()
            if shared and all(abs(far_off[key] - near_by[key]) < STILL for key in shared):
                still.append(row.label)
    if still:
        verb = "does" if len(still) == 1 else "do"
        yield (
            f"{join(still)} {verb} not look beyond {train}: from {train} to {far} tokens the value "
            f"changes by less than {STILL:.4f} in every {table.replicate}."
        )


def _not_bold(table: Table) -> Iterator[str]:
    """In which columns too many rows are as good as the best."""
    rows = [row for row in table.rows if row.candidate]
    columns = []
    for i, length in enumerate(table.lengths):
        cells = [row.cells[i] for row in rows if row.compared or length <= table.train_length]
        if sum(cell.n > 0 for cell in cells) > 1 and not any(cell.best for cell in cells):
            columns.append(length)
    if columns:
        yield (
            f"Nothing is bold at {join(columns)}: more than a third of the rows are as good as the "
            "best, or not told apart from it."
        )


def _marked(results: Sequence[Result], table: Table) -> str:
    """Which other cells of a column are bold."""
    seeds = [row.replicas for row in table.rows if row.candidate]
    told = "and all that this study cannot tell from it"
    if len(seeds) < 2:
        return told
    if max(seeds) == 1:
        return f"{told}; one {table.replicate} allows no test, so nothing is bold"
    pairs = count(math.comb(len(seeds), 2), "pair")
    scores = (
        {row.replica: row.value}
        for result in results
        for row in result.rows
        if row.metric == table.metric and row.value is not None
    )
    if table.replicate == "sample" and stats.yes_or_no(scores):
        return (
            f"{told}: equal as printed, or not told apart by McNemar's exact test at 5 % "
            f"(corrected by Holm's method over the {pairs} of rows of a column); means over "
            "several lengths by a paired t test"
        )
    return (
        f"{told}: equal as printed, or not told apart by a paired t test over "
        f"{table.replicate}s at 5 % (corrected by Holm's method over the {pairs} of a column)"
    )


def _models(results: Sequence[Result]) -> Iterator[str]:
    parents = [result.parent for result in results if result.parent and result.train.steps]
    if any(not parent.source for parent in parents):
        yield (
            "A from B: training with A began at the final parameters of a model trained with B, "
            "with a new optimizer."
        )
    for label, name in sorted({(p.label, p.id) for p in parents if p.source}):
        yield (
            f"A from {label}: training with A began at the parameters of the pretrained model "
            f"{name}, the same for every seed, with a new optimizer."
        )


def _swaps(table: Table) -> Iterator[str]:
    train = table.tokens or table.train_length
    ways = {row.way for row in table.rows if not row.method}
    if WINDOW in ways:
        yield (
            f"Window {train}: the same checkpoints, evaluated with a causal window of {train} "
            "tokens in every layer."
        )
    if any(way.memory for way in ways):
        yield (
            f"Memory M: the same checkpoints, evaluated by segments of {train} tokens: in every "
            "layer a segment attends to itself and to the layer's inputs at the M tokens before "
            "it, as in Transformer-XL. In the other rows every token "
            "attends to all tokens before it in its window."
        )
    if any(way.variant for way in ways):
        yield (
            "A, field=value: the checkpoints of A, scored on samples of the task with that value "
            "of the field and no further training."
        )
    if any(way.swap and way != WINDOW for way in ways):
        yield "A, B: the checkpoints of A, evaluated with B swapped in and no further training."


def _without_effect(results: Sequence[Result], table: Table) -> Iterator[str]:
    swapped = [row for row in table.rows if row.way.swap and row.way != WINDOW]
    same = [row.label for row in swapped if _equals_as_trained(results, row, table)]
    if same:
        yield f"No effect on these scores, equal to the bit at every length: {'; '.join(same)}."


def _equals_as_trained(results: Sequence[Result], row: TableRow, table: Table) -> bool:
    """Whether a swap's values equal the values of the model as trained, to the bit, at every
    length.
    """
    result = next(result for result in results if result.id == row.run)
    swapped, trained = (
        {
            (one.replica, one.length): one.value
            for one in result.rows
            if (one.metric, one.way) == (table.metric, way)
        }
        for way in (row.way, AS_TRAINED)
    )
    return swapped == trained and any(value is not None for value in swapped.values())


def _ranks(table: Table) -> Iterator[str]:
    ranked = sorted((-row.rank.mean, row.label, row.rank) for row in table.rows if row.rank)
    if len({mean for mean, _, _ in ranked}) > 1:  # of equal models there is no order
        best = ", ".join(f"{label} {_rank(rank)}" for _, label, rank in ranked[:3])
        bounded = not math.isnan(ranked[0][2].low)
        ends = f"; in brackets the 95 % bootstrap interval over {table.replicate}s" * bounded
        three = f", the three highest of {len(ranked)}" if len(ranked) > 3 else ""
        yield (
            f"Mean reciprocal rank over lengths beyond training{three} (1: the best at every "
            f"length in every {table.replicate}{ends}): {best}."
        )


def _rank(rank: Rank) -> str:
    mean, low, high = rank
    return f"{mean:.2f}" + ("" if math.isnan(low) else f" [{low:.2f}, {high:.2f}]")


def _measured(results: Sequence[Result], table: Table) -> Iterator[str]:
    """The metric's sentence with the split, how many tokens were scored, and the scored text where
    it is not the text of training.
    """
    scoring = results[0].config.get("eval", {})
    metric = described(table.metric)
    part: str = scoring.get("split", "test")
    split = HELD_OUT.get(part) or part
    alike = "for all models and seeds" if table.replicate == "seed" else "with every swap"
    sentence = metric.sentence.replace("{split}", split).replace("{alike}", alike)
    oracle = headroom.BAYES if draws(results[0]) else headroom.LONGER
    sentence = sentence.replace("{oracle}", oracle)
    sentence = sentence.replace("{last}", str(scoring.get("last") or "L/2"))
    yield capital(sentence)
    yield _scored(results, table.metric)
    if other := other_text(results[0]):
        told = any(condition.name == "scored" for condition in table.apart)  # by the heading
        which = "The scored text" + ("" if told else f", {other.source},")
        yield f"{which} is not the one that the models were trained on."


def _scored(results: Sequence[Result], metric: str) -> str:
    targets = {result.targets[metric] for result in results if metric in result.targets}
    if not targets:
        return ""
    held = {n for result in results for n in result.target_bytes.get(metric, {}).values()}
    size = ""
    if held - targets:  # tokens are not bytes
        size = f" ({each([*held], 'byte')})"
    return f"{join(f'{n:,}' for n in sorted(targets))} tokens{size} are scored at each length."


# How the models were trained


FEW = 8  # models up to which a sentence names all


def setting(results: Sequence[Result], metric: str) -> str:
    """How the models were trained, on what, and what ± means."""
    train, spec = results[0].train, results[0].tokenizer.spec
    replicas = [result.replicas(metric) for result in results]
    numbers, of = [len(each) for each in replicas], replicas[0][0].kind
    if set(numbers) == {1}:
        spread = f"one {of}, so there are no intervals"
    else:
        spread = f"{each(numbers, of)}, ± is the half width of their 95 % interval by Student's t"
    if draws(results[0]):
        config = results[0].config
        kind = "decoders" if config.get("lm", {}).get("causal", True) else "encoders"
        trained = config.get("train", {})
        fixed, every = trained.get("curriculum") == "fixed", trained.get("loss") == "all"
        chance = ""
        if train.labels:
            chance = f" A token guessed at random is right in {100 / train.labels:.3g} %."
        return (
            f"Trained as {kind} on {train.steps:,} batches of samples of "
            f"{results[0].corpus.source}, of {'length' if fixed else 'lengths up to'} "
            f"{train.length}{', with a loss of all tokens' if every else ''}; {spread}.{chance}"
        )
    if not train.steps:
        known = results[0].parameters
        size = f" ({known.total:,} parameters)" if known else ""
        return (
            f"Trained by others, on up to {train.length:,} tokens{size}; scored on "
            f"{results[0].corpus.source}, in its own tokens; {spread}."
        )
    python = join(sorted({r.corpus.python for r in results if r.corpus.python}) or [""])
    corpus = results[0].corpus.source + (f" of Python {python}" if python else "")
    tokens = "tokens" if spec == "bytes" else f"tokens ({spec})"
    return (
        f"Trained on windows of {train.length} {tokens} of {corpus} for {train.steps:,} steps; "
        f"{spread}."
    )


def rates(results: Sequence[Result], table: Table) -> Iterator[str]:
    """How learning rates were chosen: a sentence for each set of rates that were tried."""
    alike: dict[tuple, dict[float | None, list[str]]] = {}
    called = {row.run: row.label for row in table.rows if row.trained}
    for result in results:
        if result.rates and result.id in called:
            tried = tuple(sorted(one.rate for one in result.rates))
            seeds = tuple(sorted({seed for one in result.rates for seed in one.valid}))
            by_rate = alike.setdefault((tried, seeds), {})
            by_rate.setdefault(rate(result), []).append(called[result.id])
    for (tried, seeds), by_rate in alike.items():
        names = "; ".join(
            f"{one:g} for {join(labels) if len(labels) <= FEW else count(len(labels), 'model')}"
            for one, labels in sorted(by_rate.items())
        )
        many = any(len(labels) > FEW for labels in by_rate.values())
        yield (
            f"The learning rate is that of {join(f'{one:g}' for one in tried)} with the lowest "
            f"{validated(results)} at the training length "
            f"({'seed' if len(seeds) == 1 else 'mean of seeds'} {join(seeds)}): {names}"
            f"{' (table.csv has that of each)' if many else ''}."
        )


def validated(results: Sequence[Result]) -> str:
    """The score by which a learning rate is chosen."""
    if draws(results[0]):
        return "bits per token of validation samples"
    return "bits per byte of validation text"


def edges(results: Sequence[Result], table: Table) -> Iterator[str]:
    """Which models chose the highest or lowest rate tried, so that a better one may lie beyond."""
    by_id = {result.id: result for result in results}
    ends: dict[str, list[str]] = {}
    for row in table.rows:
        if row.trained and row.rate_edge:
            more = len(by_id[row.run].rates) - len(by_id[row.run].config["train"]["rates"])
            after = f", after {more} more than train.rates names" if more else ""
            end = f"the {row.rate_edge} tried, {row.rate:g}{after}"
            ends.setdefault(end, []).append(row.label)
    if ends:
        told = "; ".join(f"{end}, for {join(labels)}" for end, labels in ends.items())
        yield f"The chosen learning rate is {told}: a better one may lie beyond"


# The code, versions and devices of runs, and what is doubtful


THEN = ", then "  # between the commits of one run in a record


def differing(results: Sequence[Result]) -> str:
    """In which commits, versions and devices the runs, or the processes that scored them, differ;
    "" if in none.
    """
    runs = list(_parts(results))
    code = [result.label for result in results if THEN in result.commit]
    devices = [result.label for result in results if result.devices]
    for what, changed in (("code", code), ("devices", devices)):
        if changed:
            runs.append(f"the {what} changed while {join(changed)} went on")
    scored_by = [process for result in results for process in result.scored_by]
    known = [process for process in scored_by if process != Process()]
    scores = list(_parts(known))
    told = []
    if runs:
        told.append(f"The runs differ in what carried them out: {'; '.join(runs)}.")
    if scores and scores != runs:
        told.append(f"The scores differ in what computed them: {'; '.join(scores)}.")
    if 0 < len(known) < len(scored_by):
        told.append("What computed some of the scores is not recorded.")
    return " ".join(told)


def doubts(results: Sequence[Result]) -> Iterator[str]:
    """What is doubtful about the models' encodings, and about the text that was held out."""
    yield from dict.fromkeys(advice for result in results for advice in result.advice)
    corpus, scored = results[0].corpus, results[0].scored
    split = results[0].config.get("eval", {}).get("split", "test")
    yield from corpus.doubts(["valid"] if scored else dict.fromkeys([split, "valid"]))
    yield from scored.doubts([split]) if scored else ()


def _parts(processes: Sequence[Process]) -> Iterator[str]:
    """The commits, versions and devices in which processes differ."""
    commits = {commit for process in processes for commit in process.commit.split(THEN)}
    if len(commits) > 1:
        yield f"{count(len(commits), 'commit')} of the code"
    for name in sorted({name for process in processes for name in process.versions}):
        versions = {p.versions.get(name, "unknown") for p in processes if p.versions}
        if len(versions) > 1:
            yield f"{name} {join(sorted(versions))}"
    kinds = {f"{p.device.kind} ({p.device.platform})" for p in processes if p.device}
    if len(kinds) > 1:
        yield f"on {join(sorted(kinds))}"
