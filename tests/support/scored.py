"""Results of text whose values are given, made without training."""

from pe_jax import record
from pe_jax.record import AS_TRAINED, Replica, Result, Row


def rows(values, *, metric="same_targets", kind="seed", way=AS_TRAINED):
    """A row for each replica and length: `values` has a {length: value} for each replica."""
    return tuple(
        Row(replica=Replica(kind, number), way=way, metric=metric, length=length, value=value)
        for number, by_length in enumerate(values)
        for length, value in by_length.items()
    )


def scored(label, values, *, length=64, config=None, more=(), **options):
    """A result trained at `length` tokens, with the rows of `values`, and `more` rows. `config` is
    {section: {field: value}}, over that of its text.
    """
    lengths = sorted({n for by_length in values for n in by_length})
    whole = {
        "pe": {"spec": label},
        "train": {"length": length, "steps": 350, "batch": 8},
        "eval": {"lengths": lengths, "last": 32, "split": "test"},
    }
    for section, fields in (config or {}).items():
        whole[section] = whole.get(section, {}) | fields
    return Result(
        id=f"{label}-{length}-1a2b3c4d",
        label=label,
        config=whole,
        seeds=tuple(range(len(values))),
        corpus=record.CorpusRecord(source="stdlib", hash="0123456789abcdef" * 4),
        train=record.Training(length=length, steps=350),
        rows=(*rows(values, **options), *more),
    )
