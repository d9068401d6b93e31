"""docs/: its commands are executed or marked as not run, and the site builds strictly."""

import dataclasses
import importlib
import os
import re
import subprocess
import sys

import pytest
from commands import write_text
from documents import ROOT, assert_works, commands, files, small

import pe_jax
from pe_jax.commands import cli
from pe_jax.commands.list import sections
from pe_jax.encodings import ENCODINGS
from pe_jax.tasks import TASKS

DOCS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in ROOT.glob("docs/**/*.md")}
MARK = "<!-- commands not run: "
EXECUTED = sorted(name for name, text in DOCS.items() if commands(text) and MARK not in text)
MODEL = ROOT / "tests/golden/pretrained/llama_tied"
SMALLER = {
    "hf:DIR": f"hf:{MODEL}",
    "--lengths=4096,8192,16384": "--lengths=16,32,64 --last=8 --places=2",
}
"""A small pretrained model for a reader's, and lengths that it has."""


def test_every_page_with_commands_is_executed_or_says_that_it_is_not():
    shown = re.compile(r"^(    |```sh\n)(pe-jax|scripts/|\./)", re.M)
    silent = [name for name, text in DOCS.items() if shown.search(text) and MARK not in text]
    assert sorted(silent) == EXECUTED


def test_every_option_of_a_documented_command_is_one_of_it():
    knobs = {flag.partition("=")[0] for *_, fields in sections() for flag in fields}
    knobs = {knob.removeprefix("--") for knob in knobs}
    knobs |= {
        f"config.task.{field.name}" for cls in TASKS.values() for field in dataclasses.fields(cls)
    }
    wrong = []
    for page, text in DOCS.items():
        for line in re.findall(r"\bpe-jax \w+ -.*", text.replace("\\\n", " ")):
            words = re.findall(r"^pe-jax (\w+)|(?<=[\s\[`])--([\w.]+)", line.partition("#")[0])
            name = words[0][0]
            options = importlib.import_module(f"pe_jax.commands.{name}").OPTIONS
            known = {*options, "help"} | (knobs if "config" in options else set())
            wrong += [(page, name, flag) for _, flag in words[1:] if flag not in known]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("page", EXECUTED)
def test_the_commands_of_a_page_work(tmp_path, page):
    """In order, each as it stands but for small models and lengths."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    for name in ("novels", "books"):
        write_text(tmp_path / name)
    for name, code in files(DOCS[page]).items():
        (tmp_path / name).write_text(code)
    shown = commands(DOCS[page])
    assert shown
    for command in shown:
        for text, smaller in SMALLER.items():
            command = command.replace(text, smaller)
        assert_works(small(command), tmp_path)


@pytest.mark.slow
def test_the_site_builds_strictly_without_resources_from_elsewhere(tmp_path):
    environment = os.environ | {"PYTHON": sys.executable}
    command = ["scripts/site", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    wanted = {"names": pe_jax.__all__, "commands": cli.COMMANDS}
    wanted |= {"encodings": ENCODINGS, "tasks": TASKS}
    assert not {f"reference/{kind}/{one}.html" for kind in wanted for one in wanted[kind]} - pages
    loaded = re.compile(r'<(?:script|img|link rel="(?:stylesheet|preconnect)")[^>]*"https?://[^"]+')
    assert not [page for page in pages if loaded.search((tmp_path / page).read_text())]
