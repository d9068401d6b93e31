"""Scores beside published ones: which are compared, and how they are printed."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from drawn import texts
from studies import make_record, write

from pe_jax.metrics import METRICS
from pe_jax.record import AS_TRAINED, CorpusRecord, Replica, Row, Way
from pe_jax.report import published
from pe_jax.report.published import COLUMNS, PublishedNumber, read
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
    about = "Somebody 2024, table 1", "read in the paper", "encoders of 5 layers", "some"
    return PublishedNumber(task, spec, at, swap, variant, value, better, unit, *about)


def scores(results, *entries):
    return published.matched(Study.of(results), [entries])


def test_nats_a_token_are_compared_with_the_bits_of_all_bytes_times_ln_2():
    rope = make_record("rope", [2.0, 3.0, 3.5, 4.0, 5.0])
    bits = 3.5 + 0.25 + 0.01  # nonoverlapping at 256, the mean of three seeds
    pieces = replace(rope, tokenizer=replace(rope.tokenizer, spec="bpe:2048"))
    for made, mean in ((rope, bits * math.log(2)), (pieces, bits)):
        (score,) = scores([made], entry("rope", 3.0, "text", "4x", published.NATS))
        assert score.ours.mean == pytest.approx(mean)


def test_ours_is_the_mean_beyond_training_and_what_a_side_lacks_is_not_there():
    (sheet,) = published.sheets(
        scores([result("rope", 95), result("nope", 90)], entry("rope", 99.0), entry("path", 1.0))
    )
    assert texts(sheet) == [
        ["rope", "99.00", "89.00 ± 2.48"],
        ["path", "1.00", "n/a"],
        ["nope", "n/a", "84.00 ± 2.48"],
    ]
    assert sheet.columns[1:] == ("mean beyond 40: published", "mean beyond 40: ours")
    said = " ".join(sheet.notes)
    assert "Setting: encoders of 5 layers." in said and "3 layers, width 64, 8 heads" in said


@pytest.mark.parametrize(("at", "mean"), [("60", 90), ("2x", 88), ("1.99x", 88), ("3x", None)])
def test_a_place_is_a_length_or_a_multiple_of_that_of_training(at, mean):
    (score,) = scores([result("rope", 95)], entry("rope", 9.0, at=at))
    assert score.ours.mean == pytest.approx(mean) if mean else not score.ours.n


def test_a_variant_of_the_task_is_a_column_of_its_own():
    ours = result("rope", 95, ("dyck", {"types": 2}), Way(variant="deepest=12"))
    lines = [entry("rope", 9.0, "dyck(types=2)", "60", variant=v) for v in ("", "deepest=12")]
    (sheet,) = published.sheets(scores([ours], *lines))
    assert sheet.columns[1::2] == ("at 60: published", "at 60, deepest=12: published")
    assert [row["seeds"] for row in sheet.numbers] == [3, 3]


def test_fields_that_the_reference_names_must_be_equal_and_others_may_differ():
    mine = [
        replace(
            result("rope", 95, ("copy", {"variant": variant, "alphabet": 20})),
            id=variant,
            corpus=CorpusRecord(source=variant, hash=""),
        )
        for variant in ("cmc", "rsc")
    ]
    (score,) = scores(mine, entry("rope", 9.0, "copy(variant='rsc')"))
    assert score.run == "rsc"


def test_an_encoding_is_found_by_the_fields_of_its_config():
    ours = result("dape+learned(length=64)", 95)
    ours.config["pe"] |= {"dape": {"prior": "alibi"}, "learned": {"length": 64}}
    (fits,) = scores([ours], entry("dape(prior='alibi')+learned", 9.0))
    assert fits.ours.n == 3
    for other in ("dape(prior='fire')+learned", "dape(prior='alibi')"):
        with pytest.raises(ValueError, match="no number of these runs"):
            scores([ours], entry(other, 9.0))


def test_perplexity_stands_beside_bits_per_byte():
    (score,) = scores(
        [make_record("t5", [2.0] * 5)], entry("t5", 9.0, "text", "2x", unit="perplexity")
    )
    assert score.metric == "same_targets"


def test_groups_have_tables_of_their_own():
    results = [result(s, 90, layers=layers) for s in ("rope", "t5") for layers in (2, 3)]
    sheets = published.sheets(scores(results, entry("rope", 9.0), entry("t5", 8.0)))
    titles = [f"reverse_string, {layers} layers, beside some" for layers in (2, 3)]
    assert [sheet.title for sheet in sheets] == titles


def test_the_page_and_its_folder_have_the_tables(tmp_path, unsaved):
    results = [result(spec, 95 - i) for i, spec in enumerate(SPECS)] + [result("integer", 60)]
    table = [entry(spec, 90.0 - i) for i, spec in enumerate(SPECS)]
    written = write(results, tmp_path, references=[table])
    assert {"published.md", "published.csv"} <= {path.name for path in written}
    html = (tmp_path / "report.html").read_text()
    assert 'class="na" data-value="nan">n/a<' in html and 'data-value="89.0">89.00 ± 2.48<' in html
    assert "reverse_string, beside some" in html
    rows = list(csv.DictReader(io.StringIO((tmp_path / "published.csv").read_text())))
    assert [row["published"] for row in rows] == ["90.0", "89.0", "88.0", "87.0", "86.0", ""]


HEADER = ",".join(COLUMNS)


def file(tmp_path, *lines, header=HEADER) -> Path:
    path = tmp_path / "some.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


GOOD = "reverse_string,rope,beyond,,,50,higher,accuracy in %,A,read in the paper,B"


def test_a_wrong_line_raises(tmp_path):
    for wrong, message in (
        (GOOD.replace("50", "fifty"), "line 2: value is no number, 'fifty'"),
        (GOOD.replace("50", "nan"), "value is no number, 'nan'"),
        (GOOD.replace("higher", "up"), "better is 'up': write higher or lower"),
        (GOOD.replace("beyond", "far"), "at is 'far': write beyond, a length as in 24"),
        (GOOD.replace("rope", "rope(base"), "line 2: cannot read 'rope"),
        (f"{GOOD}\n{GOOD}", "two numbers of rope for reverse_string at 'beyond'"),
        ("", "holds no numbers"),
    ):
        with pytest.raises(ValueError) as error:
            read(file(tmp_path, wrong))
        assert message in str(error.value) and "\n" not in str(error.value)


def test_a_file_of_a_spreadsheet_is_read_without_its_mark(tmp_path):
    path = file(tmp_path, GOOD)
    path.write_text(path.read_text(), "utf-8-sig")
    assert read(path)[0].spec == "rope"


def test_a_wrong_header_raises(tmp_path):
    with pytest.raises(ValueError, match="unknown column 'encoding'"):
        read(file(tmp_path, GOOD, header=HEADER + ",encoding"))
    with pytest.raises(ValueError, match="lacks the column 'setting'"):
        read(file(tmp_path, GOOD, header=",".join(COLUMNS[:-1])))


def test_a_missing_file_is_told_with_the_nearest_one(tmp_path):
    path = file(tmp_path, GOOD)
    with pytest.raises(ValueError, match=r"no file '.*/smoe.csv'; did you mean 'some.csv'\?"):
        read(path.with_name("smoe.csv"))
    with pytest.raises(ValueError, match="is no CSV file"):
        path.write_bytes(b"\xff\xfe")
        read(path)


def test_a_command_with_a_reference_of_nothing_writes_nothing(lab, tmp_path):
    runs, wrong = tmp_path / "runs", file(tmp_path, GOOD)
    atomic.write(runs / "runs.jsonl", records.encode(make_record("rope", [2.0] * 5)) + "\n")
    for named in (wrong, wrong.with_name("none.csv")):
        flags = f"--workdir={runs}", f"--out={tmp_path / 'out'}", f"--reference={named}"
        done = lab.start("report", *flags).wait()
        assert done.code == 2 and len(done.err.splitlines()) == 1
        assert not (tmp_path / "out").exists()


def test_a_reference_of_other_tasks_says_what_both_sides_have():
    with pytest.raises(ValueError) as error:
        scores([result("rope", 95)], entry("t5", 9.0, "odds_first"))
    said = "It has odds_first, with the encodings t5; the runs are of reverse_string with rope"
    assert said in str(error.value)


def test_the_files_of_this_project_name_tasks_and_fields_that_exist():
    from pe_jax.tasks import section
    from pe_jax.terms import Term

    units = {*(metric.unit for metric in METRICS.values()), "perplexity", "nats a token"}
    assert FILES
    for one in (entry for path in FILES for entry in read(path)):
        name, fields, _ = Term.of(one.task)
        section.make({"name": name, **fields, **Term.of(f"_({one.variant})")[1]})
        assert one.status.startswith("read in the ")
        assert one.unit in units
        assert 0 <= one.value <= 100 or one.unit == "perplexity"


def test_what_is_swapped_in_is_a_line_of_its_own():
    made = result("rope", 90.0, way=Way(swap="rerope(window=32)+log_n"))
    told = [
        entry("rope", 80.0, at="80"),
        entry("rope", 95.0, at="80", swap="rerope(window=32)+log_n"),
        entry("rope", 85.0, at="80", swap="ntk_mixed"),
    ]
    assert [(s.name, s.entry.value, s.ours.n) for s in scores([made], *told)] == [
        ("rope", 80.0, 3),
        ("rope, rerope(window=32)+log_n", 95.0, 3),
        ("rope, ntk_mixed", 85.0, 0),
    ]
