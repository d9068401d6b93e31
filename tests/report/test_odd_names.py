"""A name may be long and hold anything: tables, figures and the page show it, and none breaks."""

import csv
import dataclasses
import io
import re

from PIL import Image
from studies import make_record, make_records, write

from pe_jax.record import CorpusRecord
from pe_jax.report import differences, labels, sheet, sheets
from pe_jax.report.page import Report
from pe_jax.report.phrases import short

ODD = (
    "x" * 400,
    r"a$\nothing$b$",
    "<script>alert(1)</script>",
    "a|b`c*d_e",
    r"\input{x}%#&~^{$",
    "=cmd|'/C calc'!A0",
    "a\nb\r\tc",
)


def test_a_report_is_whole_whatever_its_runs_are_called(tmp_path):
    results = zip(make_records(), ODD, strict=True)
    called = [dataclasses.replace(result, label=name) for result, name in results]
    for path in write(called, tmp_path):
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert max(image.size) < 2500, path
    assert "<script>alert(1)" not in (tmp_path / "report.html").read_text()
    assert r"\input{" not in (tmp_path / "table.tex").read_text()
    rows = list(csv.reader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert {len(row) for row in rows} == {len(rows[0])}
    shown = {" ".join(name.split()) for name in ODD}
    assert shown <= {row[1] for row in rows}
    table = [line for line in (tmp_path / "table.md").read_text().splitlines() if line[:1] == "|"]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


LINKS = "![x](javascript:alert(1)) [a](http://evil) [b][c] www.evil.org"
HTML = "files:</script><script>alert(2)</script>\n# <img src=x onerror=alert(1)>"


def test_markdown_has_no_html_and_no_links_of_a_name_or_a_source():
    results = [
        dataclasses.replace(
            make_record(f"{name} {LINKS}", [2.5] * 5), corpus=CorpusRecord(source=HTML, hash="")
        )
        for name in ("a", "b")
    ]
    report = Report.of(results)
    compared = differences.compare(report.study, report.study)
    texts = [
        *(sheet.markdown(report.sheets[name]) for name in ("table", "baseline")),
        sheet.markdown(sheets.comparison(compared, HTML, LINKS), HTML),
    ]
    for text in texts:
        assert "evil" in text and not re.search(r"(?<!\\)<(?!/?sup>)", text)
        assert not re.search(r"\][(\[:]|(?<!\\)://|www\.", text)
        assert len(re.findall("^# ", text, re.M)) == text.startswith("# ")


def test_markdown_reads_nothing_in_a_name():
    shown = {"pe/__init__.py:A": r"pe/\_\_init\_\_.py:A", "a_b `c`": r"a_b \`c\`"}
    shown |= {"~~b~~": r"\~\~b\~\~", "R&amp;D & Q": r"R\&amp;D & Q"}
    assert {name: sheet._md(name) for name in shown} == shown


def test_a_users_class_is_called_by_its_name():
    shown = {"a b/own.py:Mine(x=1)[::2]": "Mine(x=1)[::2]", "rope+/a/own.py:Mine": "rope+Mine"}
    shown |= {"rope from x/own.py:Mine": "rope from Mine", "own.py:A from b.py:B": "A from B"}
    assert {label: labels.readable(label) for label in shown} == shown
    files = ("a/own.py:Mine", "b/own.py:Mine")
    called = [dataclasses.replace(make_record(file, [2.5] * 5), id=file) for file in files]
    assert [*labels.names(called).values()] == [f"Mine, pe.spec {file}" for file in files]


def test_a_long_name_loses_its_middle_in_figures():
    assert short("rope") == "rope" and short("a" * 40) == "a" * 40
    assert short("a" * 30 + "b" * 30) == "a" * 20 + "…" + "b" * 19
