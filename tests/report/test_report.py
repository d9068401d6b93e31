"""Tables, figures and the page from synthetic records with known numbers."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape

import figured as figures
import numpy as np
import pytest
import scipy.stats
from drawn import drawn, pretrained, texts
from rich.console import Console
from studies import (
    facts_of,
    html_of,
    make_record,
    make_records,
    parsed,
    save_runs,
    sheet_of,
    table_of,
    written,
)
from studies import write as write_report

from pe_jax import record
from pe_jax.record import Reason, Way
from pe_jax.report import frame, labels, notes, sheet, sheets, style
from pe_jax.report.page import Report
from pe_jax.report.selection import Selection
from pe_jax.report.study import load
from pe_jax.report.style import looks
from pe_jax.report.table import rate, shortened
from pe_jax.storage.records import encode, put_state, write


@pytest.fixture(scope="module")
def records():
    return make_records()


@pytest.fixture(scope="module")
def table(records):
    return table_of(records)


def row_of(table, label):
    return next(row for row in table.rows if row.label == label)


def test_cells_are_the_t_intervals_of_the_seeds(table):
    cell = row_of(table, "rope").cells[2]
    values = [3.30, 3.31, 3.32]
    low, high = scipy.stats.t.interval(0.95, 2, np.mean(values), scipy.stats.sem(values))
    assert (cell.mean, cell.n, cell.reason) == (pytest.approx(3.31), 3, "")
    assert (cell.mean - cell.half, cell.mean + cell.half) == pytest.approx((low, high))


def test_rows_are_ordered_by_the_longest_length_with_swaps_in_a_second_block(table):
    wanted = ["transformer_xl", "alibi", "t5", "nope", "rope", "sinusoidal", "learned"]
    wanted += ["transformer_xl, cropped to 64"]
    swapped = ("rope", "transformer_xl", "t5", "alibi", "sinusoidal")
    wanted += [f"{name}, window 64" for name in swapped]
    assert [row.label for row in table.rows] == wanted


def test_best_is_the_lowest_mean_of_the_models_as_trained_and_its_equals(table):
    best = {(row.label, i) for row in table.rows for i, c in enumerate(row.cells) if c.best}
    assert best == {("rope", 0)} | {("transformer_xl", i) for i in range(5)}


def test_of_one_model_with_swaps_no_bold_value_is_worse_than_another():
    found = table_of([make_record("rope", [2.45, 2.60, 3.30, 4.00, 4.40])])
    assert {row.label: [cell.best for cell in row.cells] for row in found.rows} == {
        "rope": [False] * 5,
        "rope, window 64": [False, True, True, True, True],  # at 64 both are equal
        "rope, cropped to 64": [False] * 5,
    }


def test_gain_and_effective_length(table):
    found = {row.label: (row.change.mean, row.effective, row.censored) for row in table.rows}
    assert found["alibi"] == (pytest.approx(-0.03), 1024, True)
    assert found["t5"] == (pytest.approx(0.33), 256, False)
    assert found["rope"] == (pytest.approx(1.95), 64, False)
    assert found["learned"][1:] == (64, False) and math.isnan(found["learned"][0])


def test_a_length_that_ran_out_of_memory_leaves_the_effective_length_open():
    result = make_record("alibi", [2.5] * 5)
    failed = dict(value=None, reason=Reason.OUT_OF_MEMORY)
    rows = tuple(replace(row, **failed) if row.length == 1024 else row for row in result.rows)
    row = table_of([replace(result, rows=rows)]).rows[0]
    assert (row.effective, row.censored) == (512, True)
    assert row.cells[-1].reason == row.change.reason == "out of memory"


def test_a_length_that_some_seeds_cannot_serve_ends_the_effective_length():
    result = make_record("alibi", [2.5] * 5)
    failed = dict(value=None, reason=Reason.NOT_FINITE)
    rows = tuple(
        replace(row, **failed) if row.length == 1024 and row.replica.number else row
        for row in result.rows
    )
    row = table_of([replace(result, rows=rows)]).rows[0]
    assert (row.effective, row.censored, row.cells[-1].n) == (512, False, 1)


def test_a_diverged_seed_is_left_out_and_told(table):
    row = row_of(table, "sinusoidal")
    assert [cell.n for cell in row.cells] == [2] * 5 and row.change.n == 2
    assert row.cells[0].mean == pytest.approx(2.705)
    assert sheets.extrapolation([table])[0].footnotes == [
        "n=2 of 3: seed 2 diverged at step 120",
        "beyond its 64 positions",
    ]


def test_values_that_are_not_finite_are_not_averaged():
    result = make_record("rope", [2.5] * 5, window=False)
    first, *rest = result.rows
    rows = (replace(first, value=math.inf), *rest)
    cell = table_of([replace(result, rows=rows)]).rows[0].cells[0]
    assert (cell.n, cell.mean) == (2, pytest.approx(2.515))
    assert cell.reason == "n=2 of 3: seed 0 not finite"


def test_equal_labels_are_told_apart_by_what_differs_in_their_configs():
    rates = []
    for i, tried_rate in enumerate((1e-3, 3e-3, 3e-3)):
        config = {"train": {"length": 64, "rate": tried_rate}, "log": {"wandb": i > 0}}
        config["train"]["remat"] = i > 0
        config |= {"pe": {"spec": "rope", "rope": {"base": 1e4}}}
        rates.append(replace(make_record("rope", [2.5] * 5), id=f"rope-{i:08d}", config=config))
    told = labels.names(rates)
    assert told["rope-00000000"] == "rope, rate 0.001"
    assert told["rope-00000002"] == "rope, rate 0.003 (00000002)"
    steps = [replace(rates[0], id=f"{n}", config={"train": {"steps": n}}) for n in (350, 1400)]
    assert [*labels.names(steps).values()] == ["rope, 350 steps", "rope, 1,400 steps"]
    tasks = [replace(drawn(task, "rope", 2), id=task) for task in ("passkey", "copy")]
    assert [*labels.names(tasks).values()] == ["rope, passkey", "rope, copy"]


def test_what_is_told_of_a_pretrained_model_has_its_places_and_parameters(tmp_path):
    save_runs(tmp_path, [pretrained(make_record("llama", [2.5] * 5))])
    (result,) = load(tmp_path)
    text = sheet.markdown([sheet_of([result])])
    assert "parameters |" not in text and "(120,000 parameters)" in text
    assert "seed" not in text and "3 places" in text and table_of([result]).heading == ""
    assert ">seeds<" not in html_of([result])
    found = frame.frame(tmp_path)
    assert set(found["place"]) == {0, 1, 2} and "seed" not in found


def test_a_window_of_a_pretrained_model_costs_the_median_of_those_timed_at_the_longest_length():
    made = pretrained(make_record("llama", [2.5] * 5, seeds=range(4)), seeds=(0,))
    by_place = (None, 1.0, 2.0, 6.0)  # programs are compiled in the first
    rows = [
        replace(row, seconds=by_place[row.replica.number] if row.length == 1024 else 9.0)
        for row in made.rows
    ]
    found = sheet_of([replace(made, rows=tuple(rows))])
    assert found.columns[-1] == "seconds a window" and texts(found)[0][-1] == "2.0"
    assert found.numbers[0]["seconds"] == 2.0


def test_frame_has_every_number_once(tmp_path, records):
    first, *others = records[0].rows
    rows = (replace(first, value=None), *others)
    save_runs(tmp_path, [replace(records[0], rows=rows), *records[1:]])
    found = frame.frame(str(tmp_path))
    assert found.equals(frame.frame(tmp_path))
    assert len(found) == sum(len(result.rows) for result in records)
    chosen = found.query("label == 'rope' and way == '' and metric == 'same_targets'")
    means = chosen.groupby("length")["value"].mean()
    assert means.to_dict() == pytest.approx({64: 2.46, 128: 2.61, 256: 3.31, 512: 4.01, 1024: 4.41})
    reasons = {"beyond its 64 positions", "diverged at step 120", "not finite"}
    assert set(found.query("value.isna()")["reason"]) == reasons


def test_frame_has_the_values_of_the_config_in_which_results_differ(records):
    def with_config(i, **config):
        return replace(records[i], config=config)

    found = frame.frame_of(
        [
            with_config(0, pe={"spec": "rope", "rope": {"base": 1e4}}, train={"rate": 1e-3}),
            with_config(1, pe={"spec": "alibi", "alibi": {"slope": 1.0}}, train={"rate": 1e-2}),
            with_config(2, pe={"spec": "rope", "rope": {"base": 5e5}}, eval={"lengths": [64, 128]}),
            with_config(3, pe={"spec": "nope"}, eval={"lengths": [64]}, run={"mesh": "seed:2"}),
        ]
    )
    columns = ["eval.lengths", "pe.rope.base", "pe.spec", "train.rate"]
    assert list(found)[list(found).index("train_length") + 1 :] == columns
    first = found.groupby("run", sort=False)[columns].nth(0).astype(object)
    assert first.where(first.notna(), None).values.tolist() == [
        [None, 1e4, "rope", 1e-3],
        [None, None, "alibi", 1e-2],
        ["64, 128", 5e5, "rope", None],
        ["64", None, "nope", None],
    ]


def tried(label, best):
    """A result that has tried three learning rates, of which this one was the best."""
    rates = [
        record.Tried(rate=rate, valid={seed: 2.0 if rate == best else 3.0 for seed in (0, 1)})
        for rate in (0.027, 0.003, 0.009)
    ]
    lower = record.Tried(rate=0.1, valid={0: 1.0, 1: None})  # a seed diverged
    result = make_record(label, [2.5] * 5, window=False)
    train = result.config["train"] | {"rates": [0.027, 0.003, 0.009, 0.1]}
    config = result.config | {"train": train}
    return replace(result, rates=(*rates, lower), config=config)


def test_the_facts_and_the_csv_tell_the_learning_rates_that_were_chosen():
    few = [tried("rope", 0.009), tried("t5", 0.027), tried("alibi", 0.009)]
    told = facts_of(few)
    assert "of 0.003, 0.009, 0.027 and 0.1" in told and "0.009 for rope, alibi; 0.027" in told
    rows = csv.DictReader(io.StringIO(sheet.csv([sheet_of(few)])))
    chosen = {row["encoding"]: row["rate"] for row in rows if "crop" not in row["encoding"]}
    assert chosen == {"rope": "0.009", "t5": "0.027", "alibi": "0.009"}
    many = [tried(f"e{i}", 0.009) for i in range(50)] + [tried(f"f{i}", 0.003) for i in range(4)]
    assert ": 0.003 for f0, f1, f2, f3; 0.009 for e0, e1, ..., e49 (50)." in facts_of(many)
    assert notes.facts(shortened(table_of(many), most=9))  # 12 rows of 54 runs
    assert [rate(result) for result in many] == [0.009] * 50 + [0.003] * 4
    config = {"train": {"rate": 1e-3}}
    alone = [replace(make_record("rope", [2.5] * 5), config=config)]
    assert table_of(alone).rows[0].rate == 1e-3 and "rate" not in facts_of(alone)
    two = [*alone, replace(make_record("t5", [2.5] * 5), config={"train": {"rate": 1e-2}})]
    assert "seeds. Learning rate: 0.001 for rope; 0.01 for t5." in facts_of(two)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "16,384 tokens are scored"),
        ({"train": {"length": 64, "steps": 350}}, "350 steps; 3 seeds"),
        ({"eval": {"split": "valid"}}, "validation documents"),
        ({"eval": {"last": 32}}, "the 32 tokens before"),
        ({"eval": {}}, "the L/2 tokens before"),
    ],
)
def test_the_facts_are_those_of_the_config(changes, said):
    data = written("rope", [2.5] * 5)
    data["config"] |= changes
    assert said in facts_of([parsed(data)])


def test_each_caution_is_one_line(records):
    """Text of the test in the training text, rates at an end of those tried, by model."""
    overlap = {"valid": record.Overlap(share=0.83), "test": record.Overlap(share=0.3)}

    def grid(label, *valid, **fields):
        rates = [record.Tried(rate=10.0**-i, valid={0: v}) for i, v in enumerate(valid)]
        return replace(make_record(label, [2.5] * 5, window=False), rates=tuple(rates), **fields)

    inner = grid("nope", 3.0, 2.0, 3.0), grid("fire", None, 2.0, 3.0)  # a seed diverged at 1
    corpus = replace(records[0].corpus, overlap=overlap)
    ends = [grid("rope", 2.0, 3.0, corpus=corpus), grid("t5", 3.0, 2.0)]
    nothing, told = (
        [note for note in notes.facts(table_of(runs)) if note.question == "Caution"]
        for runs in (inner, [*ends, *inner])
    )
    still = "Does not look beyond 64 (each seed within 1e-4):"
    assert nothing == [f"{still} fire and nope."]  # all values are equal
    assert [line.partition(" also stands")[0] for line in told] == [
        "Learning rate at the edge of those tried: rope (1) and t5 (0.1).",
        f"{still} fire, nope, rope and t5.",
        "30 % of the test text",
        "83 % of the validation text",
    ]
    assert f"**Caution.** {told[0]}" in sheet.markdown([sheet_of([*ends, *inner])])
    assert f"<dt>Caution</dt>\n<dd>{told[0]}" in html_of([*ends, *inner])


def test_only_what_differs_in_provenance_is_named(records):
    a, b, *rest = records
    gpu = record.Device(platform="gpu", kind="H100", count=1, threads=1)
    other = f"{a.commit}, then {'f' * 40}"
    dirty = f"{a.commit} (with uncommitted changes, files 12ab)"
    newer = b.versions | {"jax": "9.9"}
    for changes, parts in (
        ({}, []),
        ({"commit": other}, [f"commit {a.commit} and ffffffffffff"]),
        ({"commit": dirty}, [f"commit {a.commit} and {dirty}"]),
        ({"versions": newer, "device": gpu}, ["jax 0.10.2 and 9.9", "device H100 (gpu) and cpu"]),
    ):
        said = facts_of([a, replace(b, **changes), *rest])
        assert all(part in said for part in parts)
        assert ("The runs differ in" in said) == bool(parts)


def test_a_term_is_explained_where_it_occurs():
    """One record has swaps, one was initialised from another, one is alone."""
    plain = make_record("rope", [2.5] * 5, window=False)
    swapped = tuple(replace(row, way=Way(swap="pi")) for row in plain.rows)
    parent = record.Parent(
        id=plain.id, parameters="", label="t5", config="", commit="", new=(), dropped=()
    )
    for result, terms in (
        (plain, set()),
        (replace(plain, rows=(*plain.rows, *swapped)), {"Rows"}),
        (replace(plain, label="rope from t5", parent=parent), {"Rows"}),
    ):
        found = {note.question for note in notes.glossary(table_of([result]))}
        always = {"±", "(±)", "Change", "Effective length", "≥", "Reference"}
        assert found - {"Bold"} == always | terms and found <= notes.GLOSSARY.keys()


def test_one_seed_has_no_intervals():
    found = sheet_of([make_record("rope", [2.5, 2.6, 2.7, 2.8, 2.9], seeds=(0,))])
    assert texts(found)[0][1:7] == ["2.50", "2.60", "2.70", "2.80", "2.90", "+0.400"]


def test_terminal_prints_numbers_footnotes_and_bold(table):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(*sheet.terminal(sheets.extrapolation([table])))
    plain = console.export_text(clear=False)
    line = next(line for line in plain.splitlines() if "learned" in line)
    assert line.split()[:4] == ["learned", "2.61", "±", "0.02"] and line.count("n/a [2]") == 5
    assert "1024 (16x)" in plain and "[2] beyond its 64 positions" in plain
    assert re.search(r"\x1b\[1m *2\.43 ± 0\.02", console.export_text(styles=True))


def test_markdown_marks_the_best_and_keeps_columns_apart(table):
    lines = sheet.markdown(sheets.extrapolation([table])).splitlines()
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    assert rows[0][:3] == ["encoding", "64 (1x)", "128 (2x)"]
    assert rows[2][:2] == ["transformer_xl", "**2.46 ± 0.02**"]
    assert {len(row) for row in rows} == {9}
    piped = sheet.markdown(sheets.extrapolation([table_of([make_record("a|b", [2.5] * 5)])]))
    assert r"| a\|b " in piped


def test_latex_escapes_and_marks(table):
    text = sheet.latex(sheets.extrapolation([table]))
    assert r"transformer\_xl & \textbf{2.46\,{\scriptsize$\pm$\,0.02}}" in text
    assert r"n/a\textsuperscript{2}" in text and r"95 \%" in text
    assert r"\toprule" in text and r"\midrule rope, window 64" in text
    odd = sheet.latex(
        sheets.extrapolation([table_of([make_record("a_b[::2]&c%{d}~e^f", [2.5] * 5)])])
    )
    assert r"a\_b{[}::2{]}\&c\%\{d\}\textasciitilde{}e\textasciicircum{}f &" in odd


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
def test_latex_compiles(tmp_path, records, table):
    odd = table_of([make_record("a_b[::2]&c%{d}~e^f<g>|h\\i#$", [2.5] * 5)])
    many = table_of([make_record(f"e{i}", [2.5] * 5) for i in range(50)])
    document = f"\\documentclass{{article}}\\usepackage{{{sheet.PACKAGES}}}\\begin{{document}}\n"
    source = tmp_path / "table.tex"
    source.write_text(
        document + sheet.latex(sheets.extrapolation([table, odd, many])) + "\\end{document}\n",
        "utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "table.pdf").read_bytes()[:5] == b"%PDF-"
    assert "Overfull" not in done.stdout and "Float too large" not in done.stdout
    assert "multiply defined" not in done.stdout


def test_rows_can_be_chosen_ordered_and_named(tmp_path, records, unsaved):
    choice = Selection.of(["rope as RoPE", "alibi"])
    written = write_report(records, tmp_path / "study", choice=choice)
    table = (tmp_path / "study" / "table.csv").read_text("utf-8")
    rows = [row["encoding"] for row in csv.DictReader(io.StringIO(table))]
    assert rows[:3] == ["RoPE", "alibi", "RoPE, cropped to 64"]
    assert rows[3:5] == ["RoPE, window 64", "alibi, window 64"]
    html = (tmp_path / "study" / "report.html").read_text("utf-8")
    assert ">RoPE<" in html and "sinusoidal" not in html
    assert load(tmp_path / "study") == records  # nothing is lost by a choice
    assert {"curves.png", "positions.png"} <= {path.name for path in written}
    named = [*choice.study(records).runs.values()]
    assert looks(named)[named[0].id] == looks(records)[named[0].id]
    assert [*choice.study(records[::-1]).runs.values()] == named
    assert [*Selection().study(records).runs.values()] == records


def test_csv_reads_back_in_full(records, table):
    rows = list(csv.DictReader(io.StringIO(sheet.csv(sheets.extrapolation([table])))))
    assert len(rows) == len(table.rows)
    by_label = {row["encoding"]: row for row in rows}
    for row in table.rows:
        read = by_label[row.label]
        for length, cell in zip(table.lengths, row.cells, strict=True):
            assert int(read[f"n_{length}"]) == cell.n
            assert read[f"mean_{length}"] == (str(cell.mean) if cell.n else "")
    assert by_label["learned"]["not_computed"] == "beyond its 64 positions"
    assert (by_label["t5"]["effective_length"], by_label["t5"]["censored"]) == ("256", "False")


def test_curves_draw_the_means_and_names_stand_in_the_order_of_their_ends(records):
    figure = figures.curves(records)
    (axes,), (legend,) = figure.axes, figure.legends
    drawn = next(n for n in axes.lines if "rope" in str(n.get_label()))
    np.testing.assert_allclose(drawn.get_ydata(), [2.46, 2.61, 3.31, 4.01, 4.41])
    lines = axes.lines[: len(records)]
    styles = {(n.get_color(), str(n._dash_pattern), n.get_marker()) for n in lines}
    assert len(styles) == len(records)
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:2] == ["sinusoidal", "rope"] and names[-1] == "transformer_xl"
    assert "learned (to 64)" in names


def test_long_names_leave_room_for_the_axes():
    long = [make_record(f"rope {i}, {'lm.model 16, ' * 20}", [2.5 + i] * 5) for i in range(2)]
    figure = figures.curves(long)
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    assert axes.get_window_extent().width > 2 * figure.dpi
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_everything_says_that_validation_text_was_scored(tmp_path, unsaved):
    """Where nothing says so a reader takes scores for those of test text."""

    def made(split):
        both = [written("rope", [2.5] * 5), written("nope", [2.6] * 5)]
        for data in both:
            data["config"]["eval"]["split"] = split
        return [parsed(data) for data in both]

    for split, said in (("valid", True), ("test", False)):
        results, out = made(split), tmp_path / split
        write_report(results, out)
        texts = {path.name: path.read_text() for path in out.iterdir()}
        captions = [one.caption for _, one in Report.of(results).figures]
        parts = (texts["table.md"].split("\n")[0], texts["baseline.md"], texts["table.tex"])
        for text in (*captions, *parts, texts["report.html"], texts["table.csv"]):
            assert (re.search("validation text|valid,", text, re.IGNORECASE) is not None) is said


def test_figures_show_the_best_models_and_the_baseline():
    some = [make_record(f"e{i}", [2.9 - 0.02 * i, 3, 3, 3, 3.9 - 0.02 * i]) for i in range(20)]
    _, curves = Report.of(some, baseline="e0").figures[0]
    names = {name for name, _ in style.hits(curves.figure)}
    assert names == {"e0", *(f"e{i}" for i in range(8, 20))}
    assert "Shown: 13 of 20 models" in curves.caption


def test_swaps_are_in_the_order_of_their_numbers():
    result = make_record("rope", [2.5] * 5)
    rows = tuple(
        replace(row, way=row.way and Way(memory=size))
        for size in (48, 192)
        for row in result.rows
        if row.way or size == 48
    )
    found = table_of([replace(result, rows=rows)])
    assert [str(row.way) for row in found.rows if not row.method] == ["", "memory 48", "memory 192"]


def test_report_writes_the_same_bytes_twice(tmp_path, records):
    first = write_report(records, tmp_path / "a" / "study")
    second = write_report(list(reversed(records)), tmp_path / "b" / "study")
    expected = {"runs.jsonl", "table.md", "table.tex", "table.csv", "report.html"}
    expected |= {"baseline.md", "baseline.csv", "seeds.md", "seeds.csv"}
    drawn = ("curves", "positions")
    expected |= {f"{name}.{kind}" for name in drawn for kind in ("png", "pdf")}
    assert {path.name for path in first} == expected
    assert {path.name for path in (tmp_path / "a" / "study").iterdir()} == expected
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_page_is_self_contained_and_holds_the_numbers_and_the_commands(tmp_path, records, unsaved):
    hostile = make_record("<script>x</script>", [2.9] * 5)
    again = ["pe-jax report --workdir=DIR --out=results/study"]
    told = [replace(r, command="pe-jax sweep --workdir=w") for r in records]
    write_report([*told, hostile], tmp_path / "study", again)
    html = (tmp_path / "study" / "report.html").read_text("utf-8")
    assert "http" not in html and "src=" not in html and "<link" not in html
    assert "<script>x" not in html and "&lt;script&gt;x" in html
    assert html.count("<svg") == html.count("</svg>") == 2
    assert not re.search(r"@import|url\((?!#)", html) and html.count("createElementNS") == 1
    assert "<b>2.43 ± 0.02</b>" in html and "n/a<sup>2</sup>" in html
    assert "abc1234" in html and "jax 0.10.2" in html
    assert "pe-jax report --workdir=DIR --out=results/study</pre>" in html
    assert html.count("pe-jax sweep") == 1 and "--workdir=w\n" in html


@pytest.fixture(scope="module")
def html(records):
    return html_of(records)


def test_each_row_of_the_page_leads_to_the_config_of_its_run(records, html):
    for result in records:
        assert f'<a href="#{result.id}">' in html
        (config,) = re.findall(rf'<pre id="{re.escape(result.id)}">(.*?)</pre>', html, re.S)
        assert json.loads(unescape(config)) == result.config


def test_the_page_holds_the_points_of_its_curves(records, html):
    told = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    curves, positions = told
    told = dict(json.loads(curves))
    assert [text for *_, text in told["rope"]][-1] == "1024 tokens: 4.41 ± 0.02"
    assert set(dict(json.loads(positions))) == {r.label for r in records if r.curves}


def test_the_figures_of_training_are_drawn_where_results_have_it(records, html):
    progress = record.Progress(seed=0, step=(1, 2), loss=(1.0, 1.0), valid=(8.0, 3.0))
    trained = replace(records[0].train, progress=(progress,))
    some = [replace(records[0], train=trained), *records[1:]]
    made = html_of(some)
    assert "<h2>Training</h2>" in made and ">training step<" in made
    assert "<h2>Training</h2>" not in html


def test_load_sorts_by_id_and_names_what_is_damaged(tmp_path, records):
    save_runs(tmp_path, reversed(records))
    assert load(tmp_path) == records
    broken = tmp_path / "rope-1a2b3c4d" / "result.json"
    for text, why in (('{"id": "rope', "truncated"), ('{"version": 6}', "lacks .*label")):
        broken.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=rf"rope-1a2b3c4d.result.json is damaged \(.*{why}"):
            load(tmp_path)
        damages = []
        left = load(tmp_path, warn=damages.append)
        assert [r.id for r in left] == [r.id for r in records if r.id != "rope-1a2b3c4d"]
        assert len(damages) == 1 and damages[0].endswith("it is left out")


def test_a_run_that_stands_twice_counts_once_and_with_other_results_is_named(tmp_path, records):
    one, other = records[:2]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(encode, (one, other, one))))
    assert load(tmp_path) == [one, other]
    changed = replace(one, rows=one.rows[1:])
    (tmp_path / "runs.jsonl").write_text("\n".join(map(encode, (one, other, changed))))
    told = []
    assert load(tmp_path, warn=told.append) == [one, other]
    (line,) = told
    other = f"the run {one.id} has other results in {tmp_path}/runs.jsonl, line 1"
    assert f"line 3 is damaged ({other})" in line


def test_of_a_widened_grid_the_run_at_the_best_of_all_rates_is_shown(tmp_path, records):
    tried = [
        record.Tried(rate=rate, valid={0: 2.0}, run=f"run-{rate}") for rate in (1e-3, 3e-3, 9e-3)
    ]
    found = [replace(records[0], id=one.run) for one in tried]
    write(tmp_path / "first" / "result.json", replace(found[1], rates=tuple(tried[:2])))
    write(tmp_path / "tried" / "result.json", found[0])
    write(tmp_path / "best" / "result.json", replace(found[2], rates=tuple(tried)))
    assert [one.id for one in load(tmp_path)] == [found[2].id]


def test_the_records_of_a_folder_are_not_replaced_by_fewer(tmp_path, lab, records):
    path = tmp_path / "runs.jsonl"
    lines = [json.dumps(json.loads(encode(one))) for one in records[:2]]
    path.write_text("\n".join([*lines, '{"version": 99}']))
    before = path.read_bytes()
    done = lab.start("report", f"--workdir={path.parent}", f"--out={path.parent}").wait()
    assert done.code == 2 and "has the records that are read: name another folder" in done.err
    assert path.read_bytes() == before


def test_the_only_result_is_damaged_and_named(lab, tmp_path, records):
    (tmp_path / "runs.jsonl").write_text(encode(records[0]).replace(records[0].label, "other"))
    done = lab.start("report", f"--workdir={tmp_path}", f"--out={tmp_path / 'out'}").wait()
    assert done.code == 2 and not (tmp_path / "out").exists()
    assert "runs.jsonl, line 1 is damaged (it was changed after it was written" in done.err


def test_load_says_what_a_folder_needs_and_how_to_make_it(tmp_path):
    with pytest.raises(ValueError, match=r"needs \*/result.json or runs.jsonl; make some$"):
        load(tmp_path, remedy="make some")


def test_the_curves_of_a_folder_are_those_of_the_chosen_rows_and_metric(tmp_path, records):
    save_runs(tmp_path, records)
    figure = frame.curves(tmp_path, "nonoverlapping", ["rope as RoPE", "alibi"])
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"RoPE", "alibi"}
    np.testing.assert_allclose(figure.axes[0].lines[1].get_ydata(), [2.76, 2.75, 2.74, 2.74, 2.73])
    with pytest.raises(ValueError, match="'ppl'; the metrics are same_targets and nonoverlapping"):
        frame.curves(tmp_path, "ppl")


def test_a_metric_that_is_not_known_here_is_reported_by_its_name(records):
    rows = tuple(replace(row, metric="mine") for row in records[0].rows if not row.replica.number)
    table = table_of([replace(records[0], rows=rows)], "mine")
    assert table.title == "Bits per byte, mine (lower is better)"
    assert table.metric.sentence.startswith("The metric mine is not defined here")


def test_command_writes_the_report_prints_table_and_paths_and_names_a_failed_run(
    lab, tmp_path, records
):
    save_runs(tmp_path / "runs", records)
    failed = tmp_path / "runs/xpos-1a2b3c4d"
    write(failed / "queued.json", record.Planned(label="xpos", config={}))
    put_state(failed, record.Stage.FAILED, "this hook fails")
    done = lab.start("report", f"--workdir={tmp_path / 'runs'}", f"--out={tmp_path / 'out'}").wait()
    assert done.code == 0
    told = "1 of 8 runs not shown, failed: xpos: this hook fails."
    assert done.err.endswith(f"{told}\n") and done.err.count("\n") == 1
    for name in ("table.md", "report.html"):
        assert (tmp_path / "out" / name).read_text("utf-8").count(told) == 1
    assert "2.43 ± 0.02" in done.out
    assert done.out.splitlines()[-1] == str(tmp_path / "out" / "positions.pdf")
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


def test_rows_are_chosen_on_the_command_line(lab, tmp_path, records):
    save_runs(tmp_path / "runs", records)
    folders = [f"--workdir={tmp_path / 'runs'}", f"--out={tmp_path / 'out'}"]
    done = lab.start("report", *folders, "--row=t5 as T5", "--row=rope").wait()
    assert (done.code, done.err) == (0, "")
    assert "T5" in done.out and "alibi" not in done.out
    assert "&#39;--row=t5 as T5&#39;" in (tmp_path / "out" / "report.html").read_text("utf-8")
    wrong = lab.start("report", *folders, "--row=ropes").wait()
    assert wrong.code == 2 and len(wrong.err.splitlines()) == 1
    assert "no model is called 'ropes'" in wrong.err and "rope" in wrong.err


def test_columns_metrics_and_notes_are_chosen_for_a_paper(tmp_path, records, unsaved):
    chosen = Selection.of(["rope", "alibi"], ["nonoverlapping"], ["1024", "change"], notes=False)
    written = write_report(records, tmp_path / "study", choice=chosen)
    texts = {path.name: path.read_text("utf-8") for path in (tmp_path / "study").glob("*.[mt]*")}
    (head,) = (line for line in texts["table.md"].splitlines() if line.startswith("| encoding"))
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["encoding", "1024 (16x)", "change"]
    assert texts["table.md"].count("###") == 1 and "nonoverlapping" in texts["table.md"]
    assert "positions.png" in {path.name for path in written}
    one = Selection(metrics=("same_targets",))
    written = write_report(records, tmp_path / "other", choice=one)
    assert "positions.png" not in {path.name for path in written}  # it is of nonoverlapping
    for name in ("table.md", "baseline.md"):
        assert "Half of the 95 %" not in texts[name], name
    assert "% Change" not in texts["table.tex"] and r"\caption{" in texts["table.tex"]
    for wrong, words in (
        (Selection(columns=("chagne",)), "no column is called 'chagne'; did you mean 'change'"),
        (Selection(metrics=("slidin",)), "no table has the metric 'slidin'"),
    ):
        with pytest.raises(ValueError, match=words):
            write_report(records, tmp_path / "wrong", choice=wrong)


def test_runs_count_where_a_report_was_written_into_their_folder(tmp_path, records):
    for one in records[:2]:
        write(tmp_path / one.id / "result.json", one)
    (tmp_path / "runs.jsonl").write_text(encode(records[0]))
    assert len(load(tmp_path)) == 2


def test_a_model_scored_as_if_trained_at_fewer_tokens_is_not_said_to_be():
    made = pretrained(make_record("llama", [2.5] * 5))
    config = made.config | {"eval": made.config["eval"] | {"reference": 1024}}
    assert "Pretrained on up to 64 tokens" in facts_of([made])
    assert "Taken as pretrained on up to 64" in facts_of([replace(made, config=config)])
