"""README.md: its length, its links, and its commands as a reader gives them."""

import re
import sys

import pytest
from commands import write_text
from documents import ROOT, assert_works, commands, files, program, small

README = (ROOT / "README.md").read_text("utf-8")


def test_it_is_read_in_some_minutes():
    assert len(re.sub("<!--.*?-->", "", README, flags=re.DOTALL).split()) <= 1300


def test_what_it_links_to_is_there():
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", README)
    assert links and not [link for link in links if not (ROOT / link).exists()]


@pytest.mark.slow
def test_its_commands_work(tmp_path):
    """In order, each as it stands but for small models, without blocks marked as not run."""
    for name in ("configs", "results", "docs", "pe_jax", "experiments", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    program(tmp_path / "scripts/setup", "true")
    program(tmp_path / ".venv/bin/python", f'exec {sys.executable} "$@"')
    (tmp_path / ".venv/bin/activate").touch()
    program(tmp_path / "scripts/quickstart", "")
    (tmp_path / "scripts/quickstart").write_bytes((ROOT / "scripts/quickstart").read_bytes())
    write_text(tmp_path / "novels")
    for name, code in files(README).items():
        (tmp_path / name).write_text(code)
    for command in commands(README):
        assert_works(small(command), tmp_path)
    assert (tmp_path / "runs/quickstart/report/report.html").is_file()
    assert (tmp_path / "paper/table.tex").is_file()
    tiny = "--config.lm.model=8 --config.lm.heads=1 --config.lm.layers=1 --config.train.batch=2"
    assert_works(f"./scripts/quickstart --quick {tiny}", tmp_path)
    assert (tmp_path / "runs/quick/report/report.html").is_file()
