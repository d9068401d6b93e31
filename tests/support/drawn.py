"""Results of tasks whose samples are drawn, made without training: their accuracies are known."""

from dataclasses import replace

from pe_jax import record
from pe_jax.record import AS_TRAINED, Replica, Result

LENGTHS = (20, 40, 80, 160, 320)
TRAIN = 40
EDGES = (0.1, 0.3, 0.5, 0.7, 0.9)  # the middles of the bins of depth


def drawn(task, spec, reach, *, seeds=(0, 1, 2), labels=2, lengths=LENGTHS, **more) -> Result:
    """A result on a task whose seed s is right in 100 % up to `reach` + s times the training
    length, and beyond it as often as a token guessed at random, plus s.

    `reach` None: no value. `more` are fields of the result.
    """
    rows, curves = [], []
    for seed in seeds:
        for length in lengths:
            end = None if reach is None else TRAIN * (reach + seed)
            right = None if end is None else 100.0 if length <= end else 100 / labels + seed
            shared = dict(replica=Replica("seed", seed), length=length, value=right)
            if right is None:
                shared |= dict(reason=record.Reason.BEYOND_POSITIONS, at=TRAIN)
            rows.append(record.Row(metric="accuracy", **shared))
            if right is not None:
                shared["value"] = 100.0 if right == 100 else 0.0
                rows.append(record.Row(metric="exact_match", **shared))
    return Result(
        id=f"{task}-{spec}-1a2b3c4d",
        label=spec,
        config={
            "task": {"name": task},
            "pe": {"spec": spec},
            "lm": {"causal": False, "layers": 3},
            "train": {"length": TRAIN, "steps": 3000, "rate": 1e-3},
            "eval": {"lengths": list(lengths), "samples": 128},
        },
        seeds=tuple(seeds),
        corpus=record.CorpusRecord(source=task, hash=f"{task:a<64}"),
        tokenizer=record.Vocabulary(spec=record.SYMBOLS, vocabulary=3),
        train=record.Training(length=TRAIN, steps=3000, tokens=41, labels=labels),
        **{"rows": tuple(rows), "curves": tuple(curves)} | more,
    )


def pretrained(result: Result, kind="place", **fields) -> Result:
    """The result as that of a model that was not trained: its replicas are places or samples."""

    def scored(parts):
        return tuple(replace(p, replica=Replica(kind, p.replica.number)) for p in parts)

    config, changes = result.config, {"train": {"steps": 0}, "eval": {"split": "all"}}
    config = config | {name: config.get(name, {}) | fields for name, fields in changes.items()}
    made = dict(rows=scored(result.rows), curves=scored(result.curves), config=config)
    return replace(result, **made | {"train": replace(result.train, steps=0)} | fields)


def guessed(task, labels=2, way=AS_TRAINED, lengths=LENGTHS):
    """What methods without a model score: the most frequent target as chance, a guess 10 more."""
    return tuple(
        record.Baseline(name=name, metric="accuracy", length=length, value=value, way=way)
        for length in lengths
        for name, value in (("most frequent", 100 / labels), ("guess", 100 / labels + 10))
    )


def depths(value, seeds=(0, 1, 2), lengths=LENGTHS):
    """Curves of accuracy by depth, of value(seed, length, depth)."""
    return tuple(
        record.Curve(
            replica=Replica("seed", seed),
            length=length,
            position=EDGES,
            value=tuple(value(seed, length, depth) for depth in EDGES),
            metric="accuracy",
        )
        for seed in seeds
        for length in lengths
    )


def texts(sheet):
    """The cells of a sheet as they print, row by row."""
    return [[cell.text for cell in row] for row in sheet.rows]
