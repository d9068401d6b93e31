"""The sentences of a report on how the models were trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pe_jax.record import SYMBOLS, Result
from pe_jax.report.cells import Table, rate
from pe_jax.report.words import count, each, join

FEW = 8  # models up to which a sentence names all


def setting(results: Sequence[Result]) -> str:
    """How the models were trained, on what, and what ± means."""
    train, spec = results[0].train, results[0].tokenizer.spec
    seeds = [len(result.seeds) for result in results]
    of = results[0].replicate
    if set(seeds) == {1}:
        spread = f"one {of}, so there are no intervals"
    elif of == "depth":
        spread = f"one passkey at each of {each(seeds, of)}, so there are no intervals"
    else:
        spread = f"{each(seeds, of)}, ± is the half width of their 95 % interval by Student's t"
    if spec == SYMBOLS:
        config = results[0].config
        kind = "decoders" if config.get("lm", {}).get("causal", True) else "encoders"
        fixed = config.get("train", {}).get("curriculum") == "fixed"
        return (
            f"Trained as {kind} on {train.steps:,} batches of samples of "
            f"{results[0].corpus.source}, of {'length' if fixed else 'lengths up to'} "
            f"{train.length}; {spread}.{_chance(train.labels)}"
        )
    if results[0].replicate != "seed":
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


def _chance(labels: int | None) -> str:
    return f" A token guessed at random is right in {100 / labels:.3g} %." if labels else ""


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
            "bits per byte of validation text at the training length "
            f"({'seed' if len(seeds) == 1 else 'mean of seeds'} {join(seeds)}): {names}"
            f"{' (table.csv has that of each)' if many else ''}."
        )


def edges(results: Sequence[Result], table: Table) -> Iterator[str]:
    """Which models chose the highest or lowest rate tried, so that a better one may lie beyond."""
    found: dict[tuple[str, float], list[str]] = {}
    called = {row.run: row.label for row in table.rows if row.trained}
    for result in results:
        tried = [one.rate for one in result.rates]
        for end, extreme in (("highest", max), ("lowest", min)) if result.id in called else ():
            if len(set(tried)) > 1 and rate(result) == extreme(tried):
                found.setdefault((end, extreme(tried)), []).append(called[result.id])
    if found:
        ends = [
            f"the {end} tried, {one:g}, for {join(names)}" for (end, one), names in found.items()
        ]
        yield f"The chosen learning rate is {'; '.join(ends)}: widen train.rates"
