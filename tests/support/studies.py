"""A study of text that no run has made: seven encodings whose scores are known."""

import msgspec

from pe_jax.record import VERSION, Result
from pe_jax.report import notes, page, sheets, table
from pe_jax.report.page import Report
from pe_jax.report.study import Study
from pe_jax.storage.records import encode


def tables_of(results, metric=""):
    """The tables of results, by one metric or by all."""
    found = table.tables(Study.of(results))
    return [one for one in found if metric in (one.metric.name, "")]


def table_of(results, metric="same_targets"):
    """The table by one metric of results of one group."""
    (found,) = tables_of(results, metric)
    return found


def sheet_of(results, metric="same_targets"):
    """That table as it prints."""
    (found,) = sheets.extrapolation([table_of(results, metric)])
    return found


def facts_of(results, metric="same_targets"):
    """The facts below that table, in one text."""
    return " ".join(notes.facts(table_of(results, metric)))


def write(results, out, commands=(), **options):
    """The report of results, written into a folder."""
    return page.write(Report.of(results, **options), out, commands)


def html_of(results, **options):
    """The page of results."""
    return page.page(Report.of(results, **options), "study")


def make_record(label, offsets, **options):
    """The result that `written` describes."""
    return parsed(written(label, offsets, **options))


def parsed(data):
    return msgspec.convert(data, Result, str_keys=True)


def written(label, offsets, *, seeds=(0, 1, 2), limit=None, diverged=(), window=True):
    """The JSON of a record: same_targets has offset + 0.01 * seed, one offset a length."""
    lengths = (64, 128, 256, 512, 1024)
    rows, curves = [], []
    for seed in seeds:
        replica = {"kind": "seed", "number": seed}
        for swap in ("", "window") if window else ("",):
            for metric, extra in (("same_targets", 0.0), ("nonoverlapping", 0.25)):
                for length, offset in zip(lengths, offsets, strict=True):
                    shown = offsets[0] + 0.02 if swap and length > 64 else offset
                    row = dict(replica=replica, way={"swap": swap}, metric=metric, length=length)
                    if seed in diverged:
                        row |= dict(value=None, reason="diverged", at=120)
                    elif limit and length > limit:
                        row |= dict(value=None, reason="beyond_positions", at=limit)
                    else:
                        row |= dict(value=shown + extra + 0.01 * seed)
                    rows.append(row)
        if seed not in diverged and not limit:
            positions = [1, 2, 3, 4.5, 6.5, 9.5, 13.5, 19, 27, 38, 54, 76, 108, 152]
            positions += [215, 304, 431, 609, 861]
            values = [
                offsets[0] + 3 / p**0.5 + (max(0.0, offsets[-1] - offsets[0]) if p > 64 else 0)
                for p in positions
            ]
            curves.append(
                dict(
                    replica=replica,
                    metric="nonoverlapping",
                    length=1024,
                    position=positions,
                    value=[None, *values[1:]],
                )
            )
    return {
        "version": VERSION,
        "id": f"{label.replace('(', '-').replace(')', '')}-1a2b3c4d",
        "label": label,
        "config": {
            "pe": {"spec": label},
            "train": {"length": 64, "steps": 350},
            "eval": {"lengths": list(lengths)},
        },
        "rows": rows,
        "curves": curves,
        "targets": {"same_targets": 16384, "nonoverlapping": 16384},
        "parameters": {"total": 120000, "encoding": len(label) * 16},
        "train": {"length": 64, "steps": 350, "ms_per_step": 41.25, "loss": [2.1, 2.2, 2.1]},
        "seconds": {"train": 33.0, "evaluate": 12.0, "total": 50.1},
        "peak_memory_mib": 900.0,
        "corpus": {"source": "stdlib", "hash": "0123456789abcdef" * 4, "python": "3.11.7"},
        "seeds": list(seeds),
        "commit": "abc1234",
        "versions": {"python": "3.11.7", "jax": "0.10.2"},
        "device": {"platform": "cpu", "kind": "cpu", "count": 1, "threads": 2},
        "started": "2026-01-02T03:04:05Z",
    }


def make_records():
    return [
        make_record("alibi", [2.50, 2.49, 2.48, 2.48, 2.47]),
        make_record("learned", [2.60] * 5, limit=64, window=False),
        make_record("nope", [3.10, 3.20, 3.30, 3.40, 3.50], window=False),
        make_record("rope", [2.45, 2.60, 3.30, 4.00, 4.40]),
        make_record("sinusoidal", [2.70, 3.60, 4.20, 4.60, 4.80], diverged=(2,)),
        make_record("t5", [2.47, 2.47, 2.48, 2.60, 2.80]),
        make_record("transformer_xl", [2.45, 2.44, 2.43, 2.43, 2.42]),
    ]


def save_runs(folder, records):
    for result in records:
        (folder / result.id).mkdir(parents=True)
        (folder / result.id / "result.json").write_text(encode(result), "utf-8")
