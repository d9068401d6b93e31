"""Scores beside published ones: which are held against each other, and how far the orders agree."""

import csv
import io
import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import scipy.stats
from commands import Lab
from drawn import texts
from studies import make_record, write

from pe_jax.metrics import METRICS
from pe_jax.record import AS_TRAINED, CorpusRecord, Replica, Row, Way
from pe_jax.report import published, stats
from pe_jax.report.published import COLUMNS, PublishedNumber, PublishedTable, read
from pe_jax.report.study import Study
from pe_jax.storage import atomic, records

FILES = sorted((Path(__file__).parents[2] / "results" / "reference").glob("*.csv"))
SPECS = ("rope", "alibi", "t5", "nope", "fire")
LENGTHS = (20, 40, 60, 80)


def result(spec, level, task=("reverse_string", {}), way=AS_TRAINED, metric="accuracy", **lm):
    """A result whose score at length n of seed s is level - n / 10 + s."""
    name, fields = task
    made = make_record(spec, [1.0] * 5, window=False)
    config = {
        "pe": {"spec": spec},
        "task": {"name": name, **fields},
        "lm": {"causal": False, "layers": 3, "model": 64, "heads": 8, **lm},
        "train": {"length": 40, "steps": 3000, "batch": 64},
    }
    rows = tuple(
        Row(
            replica=Replica("seed", s),
            metric=metric,
            length=n,
            value=level - n / 10 + s,
            way=scored,
        )
        for s in range(3)
        for n in LENGTHS
        for scored in {AS_TRAINED, way}
    )
    train = replace(made.train, length=40, steps=3000, labels=2)
    corpus = CorpusRecord(source=name, hash="")
    config_id = f"{spec}-{name}-{lm}"
    return replace(made, id=config_id, config=config, rows=rows, train=train, corpus=corpus)


def entry(
    spec, value, task="reverse_string", at="beyond", unit="accuracy in %", swap="", variant=""
) -> PublishedNumber:
    better = "lower" if unit in ("perplexity", published.NATS) else "higher"
    told = "Somebody 2024, table 1", "read in the paper", "encoders of 5 layers"
    return PublishedNumber(task, spec, at, swap, variant, value, better, unit, *told)


def hold(results, references):
    return published.matched(Study.of(results), references)


def notes(task):
    """What stands below the scores of a task."""
    return " ".join(published.sheets([task])[1].notes)


def reference(*entries) -> PublishedTable:
    return PublishedTable("some", tuple(entries))


def ranked(ours, published=(90.0, 80.0, 75.0, 70.0, 65.0)) -> list:
    results = [result(spec, level) for spec, level in zip(SPECS, ours, strict=True)]
    return hold(results, [reference(*map(entry, SPECS, published))])


def test_nats_a_token_are_held_against_the_bits_of_all_bytes_times_ln_2():
    results = [make_record(s, [2.0, 3.0, 3.5, 4.0, 5.0]) for s in ("rope", "t5")]
    lines = [entry(s, 3.0, "text", "4x", "nats a token") for s in ("rope", "t5")]
    (held,) = hold(results, [reference(*lines)])
    bits = 3.5 + 0.25 + 0.01  # nonoverlapping at 256, the mean of three seeds
    assert held.lines[0].ours[0].mean == pytest.approx(bits * math.log(2))
    pieces = [replace(r, tokenizer=replace(r.tokenizer, spec="bpe:2048")) for r in results]
    (held,) = hold(pieces, [reference(*lines)])
    assert held.lines[0].ours[0].mean == pytest.approx(bits)


def test_critical_values_are_those_of_all_orders():
    for n, critical in {4: 1.00, 5: 0.90, 6: 0.83, 7: 0.71}.items():
        first = range(n)
        squares = [
            sum((a - b) ** 2 for a, b in zip(first, p, strict=True))
            for p in itertools.permutations(first)
        ]
        most = stats.SQUARES[n]
        assert sum(s <= most for s in squares) / len(squares) <= 0.05
        assert sum(s <= most + 2 for s in squares) / len(squares) > 0.05
        assert round(stats.critical(n), 2) == critical


def test_rho_is_spearmans_with_ties():
    a, b = [1.0, 2.0, 2.0, 4.0, 5.0], [3.0, 1.0, 4.0, 4.0, 9.0]
    assert stats.spearman(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic)
    assert math.isnan(stats.spearman([1.0, 1.0], [1.0, 2.0]))
    assert math.isnan(stats.spearman([math.inf, math.inf], [1.0, 2.0]))


@pytest.mark.parametrize(
    ("ours", "published", "order"),
    [
        ((95, 94, 93, 91, 92), (90, 80, 75, 70, 65), (5, 0.9, 9, 10)),
        ((95, 94, 91, 92, 93), (90, 80, 75, 70, 65), (5, 0.6, 7, 10)),
        ((95, 90, 93), (99, 80, 70), (3, 0.5, 2, 3)),
        ((95, 96, 96), (70, 70, 80), (3, 0.5, 1, 2)),  # equal in print: left out; here: not alike
    ],
)
def test_orders_are_compared_by_rho_and_by_pairs(ours, published, order):
    results = [result(spec, level) for spec, level in zip(SPECS, ours, strict=False)]
    lines = [entry(spec, value) for spec, value in zip(SPECS, published, strict=False)]
    (held,) = hold(results, [reference(*lines)])
    assert held.orders[0] == pytest.approx(order)


def test_ours_is_the_mean_beyond_training_and_what_a_side_lacks_is_told():
    held = hold(
        [result("rope", 95), result("nope", 90)], [reference(entry("rope", 99.0), entry("path", 1))]
    )[0]
    assert texts(published.sheets([held])[1]) == [
        ["rope", "99.00", "89.00 ± 2.48"],
        ["path", "1.00", "n/a"],
        ["nope", "n/a", "84.00 ± 2.48"],
    ]
    titles = published.sheets([held])[1].columns[1:]
    assert titles == ("mean beyond 40: published", "mean beyond 40: ours")


def test_a_place_is_a_length_or_near_a_multiple_of_that_of_training():
    for at, mean in (("60", 90), ("2x", 88), ("1.98x", 88), ("3x", None)):
        (held,) = hold([result("rope", 95)], [reference(entry("rope", 9.0, at=at))])
        cell = held.lines[0].ours[0]
        assert cell.mean == pytest.approx(mean) if mean else not cell.n


def test_a_variant_is_the_same_however_it_is_written():
    ours = result(
        "rope", 95, ("dyck", {"types": 2}), Way(variant="behind_closing=True, deepest=12")
    )
    wanted = entry("rope", 9.0, "dyck(types=2)", variant="deepest=12,behind_closing=True")
    assert hold([ours], [reference(wanted)])[0].lines[0].ours[0].n == 3


def test_fields_that_the_reference_names_must_be_equal_and_others_may_differ():
    mine = [
        replace(
            result("rope", 95, ("copy", {"variant": variant, "alphabet": 20})),
            id=variant,
            corpus=CorpusRecord(source=variant, hash=""),
        )
        for variant in ("cmc", "rsc")
    ]
    held = hold(mine, [reference(entry("rope", 9.0, "copy(variant='rsc')"))])
    assert [one.runs[0].id for one in held] == ["rsc"]


def test_an_encoding_is_found_by_the_fields_of_its_config():
    ours = result("dape+learned(length=64)", 95)
    ours.config["pe"] |= {"dape": {"prior": "alibi"}, "learned": {"length": 64}}
    fits = hold([ours], [reference(entry("dape(prior='alibi')+learned", 9.0))])
    assert fits[0].lines[0].ours[0].n == 3
    with pytest.raises(ValueError, match="no number of these runs"):
        hold([ours], [reference(entry("dape(prior='fire')+learned", 9.0))])
    with pytest.raises(ValueError, match="no number of these runs"):
        hold([ours], [reference(entry("dape(prior='alibi')", 9.0))])


def test_perplexity_is_held_against_bits_per_byte():
    text = [make_record(spec, [2.0 + i] * 5, window=False) for i, spec in enumerate(("t5", "rope"))]
    lines = [entry(s, v, "text", "2x", unit="perplexity") for s, v in (("t5", 9.0), ("rope", 8.0))]
    held = hold(text, [reference(*lines)])[0]
    assert held.columns[0].metric == "same_targets"
    assert (held.orders[0].alike, held.orders[0].pairs) == (0, 1)


def test_the_settings_of_both_sides_are_said():
    said = notes(ranked([95, 94, 93, 92, 91])[0])
    assert "Setting: encoders of 5 layers." in said
    assert "3 layers, width 64, 8 heads, 3,000 steps, batches of 64" in said


def test_groups_that_may_not_be_ranked_have_tables_of_their_own():
    results = [result(s, 90, layers=layers) for s in ("rope", "t5") for layers in (2, 3)]
    held = hold(results, [reference(entry("rope", 9.0), entry("t5", 8.0))])
    assert [one.heading for one in held] == ["2 layers", "3 layers"]
    assert [row[1] for row in texts(published.sheets(held)[0])] == [
        "reverse_string, 2 layers",
        "reverse_string, 3 layers",
    ]


def test_a_group_with_one_encoding_of_a_reference_has_no_table_beside_one_with_two():
    lone = result("rope", 90, layers=2)
    pair = [result(spec, 90, layers=3) for spec in ("rope", "t5")]
    told = [reference(entry("rope", 9.0), entry("t5", 8.0))]
    assert [one.heading for one in hold([lone, *pair], told)] == ["3 layers"]
    assert [line.ours[0].n for line in hold([lone], told)[0].lines] == [3, 0]


def test_the_page_and_its_folder_have_the_tables(tmp_path, unsaved):
    results = [result(spec, 95 - i) for i, spec in enumerate(SPECS)] + [result("integer", 60)]
    table = reference(*(entry(spec, 90.0 - i) for i, spec in enumerate(SPECS)))
    written = write(results, tmp_path, references=[table])
    assert {"published.md", "published.csv"} <= {path.name for path in written}
    html = (tmp_path / "report.html").read_text()
    assert 'class="na" data-value="nan">n/a<' in html and 'data-value="89.0">89.00 ± 2.48<' in html
    assert "reverse_string, beside some" in html
    rows = list(csv.DictReader(io.StringIO((tmp_path / "published.csv").read_text())))
    assert [row["published"] for row in rows] == ["90.0", "89.0", "88.0", "87.0", "86.0", ""]
    assert {round(float(row["rho"]), 9) for row in rows} == {1.0}


HEADER = ",".join(COLUMNS)


def file(tmp_path, *lines, header=HEADER) -> Path:
    path = tmp_path / "some.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


GOOD = "reverse_string,rope,beyond,,,50,higher,accuracy in %,A,read in the paper,B"


def test_a_wrong_line_is_told_in_one_line(tmp_path):
    for wrong, message in (
        (GOOD.replace("50", "fifty"), "line 2: value is no number, 'fifty'"),
        (GOOD.replace("50", "nan"), "value is no number, 'nan'"),
        (GOOD.replace("higher", "up"), "better is 'up': write higher or lower"),
        (GOOD.replace("beyond", "far"), "at is 'far': write beyond, a length as in 24"),
        (GOOD.replace("rope", "rope(base"), "line 2: cannot read 'rope"),
        (GOOD.replace("beyond,,,", "beyond,,ignore,"), "line 2: cannot read"),
        (f"{GOOD}\n{GOOD}", "two numbers of rope for reverse_string at 'beyond'"),
        ("", "holds no numbers"),
    ):
        with pytest.raises(ValueError) as error:
            read(file(tmp_path, wrong))
        assert message in str(error.value) and "\n" not in str(error.value)


def test_a_file_of_a_spreadsheet_is_read_without_its_mark(tmp_path):
    path = file(tmp_path, GOOD)
    path.write_text(path.read_text(), "utf-8-sig")
    assert read(path).entries[0].spec == "rope"


def test_a_wrong_header_is_told_with_the_nearest_column(tmp_path):
    with pytest.raises(ValueError, match="unknown column 'encodng'"):
        read(file(tmp_path, GOOD, header=HEADER.replace("spec", "encodng")))
    with pytest.raises(ValueError, match="unknown column 'setings'; did you mean 'setting'?"):
        read(file(tmp_path, GOOD, header=HEADER.replace("setting", "setings")))
    with pytest.raises(ValueError, match="lacks the column 'setting'"):
        read(file(tmp_path, GOOD, header=",".join(COLUMNS[:-1])))


def test_a_missing_file_is_told_with_the_nearest_one(tmp_path):
    path = file(tmp_path, GOOD)
    with pytest.raises(ValueError, match=r"no file '.*/smoe.csv'; did you mean 'some.csv'\?"):
        read(path.with_name("smoe.csv"))
    with pytest.raises(ValueError, match="is no CSV file"):
        path.write_bytes(b"\xff\xfe")
        read(path)


def test_a_command_with_a_reference_of_nothing_writes_nothing(tmp_path):
    lab = Lab(tmp_path, tmp_path)
    runs, wrong = tmp_path / "runs", file(tmp_path, GOOD)
    atomic.write(runs / "runs.jsonl", records.encode(make_record("rope", [2.0] * 5)) + "\n")
    for named in (wrong, wrong.with_name("none.csv")):
        flags = f"--workdir={runs}", f"--out={tmp_path / 'out'}", f"--reference={named}"
        done = lab.start("report", *flags).wait()
        assert done.code == 2 and len(done.err.splitlines()) == 1
        assert not (tmp_path / "out").exists()


def test_a_reference_of_other_tasks_says_what_both_sides_have():
    with pytest.raises(ValueError) as error:
        hold([result("rope", 95)], [reference(entry("t5", 9.0, "odds_first"))])
    said = str(error.value)
    assert (
        "It has odds_first, with the encodings t5; the runs are of reverse_string with rope" in said
    )


def test_the_files_of_this_project_name_tasks_and_fields_that_exist():
    from pe_jax.report.published import fields_of, member
    from pe_jax.tasks import section

    assert FILES
    for one in (entry for path in FILES for entry in read(path).entries):
        name, fields = member(one.task)
        section.make({"name": name, **fields, **fields_of(one.variant)})
        assert one.status.startswith("read in the ")
        assert one.unit in {
            *(metric.unit for metric in METRICS.values()),
            "perplexity",
            "nats a token",
        }
        assert 0 <= one.value <= 100 or one.unit == "perplexity"


def test_what_is_swapped_in_is_a_line_of_its_own():
    made = result("rope", 90.0, way=Way(swap="rerope(window=32)+log_n"))
    told = [
        entry("rope", 80.0, at="80"),
        entry("rope", 95.0, at="80", swap="rerope(window=32)+log_n"),
        entry("rope", 85.0, at="80", swap="ntk_mixed"),
    ]
    (held,) = hold([made], [reference(*told)])
    assert [column.variant for column in held.columns] == [""]
    assert [(line.spec, line.published[0], line.ours[0].n) for line in held.lines] == [
        ("rope", 80.0, 3),
        ("rope, rerope(window=32)+log_n", 95.0, 3),
        ("rope, ntk_mixed", 85.0, 0),
    ]
    assert held.orders[0].n == 2
