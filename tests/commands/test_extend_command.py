"""`pe-jax extend` as a user starts it, and its folder in the hands of the other commands."""

import re

import numpy as np
import pytest
from commands import ROOT, Lab

from pe_jax.pretrained.load import load

MODEL = f"--model=hf:{ROOT / 'tests' / 'golden' / 'pretrained' / 'llama_tied'}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    (lab.folder / "book.txt").write_text("the path of a moth\n" * 200)
    return lab


def start(lab, *arguments):
    asked = (MODEL, f"--source=files:{lab.folder / 'book.txt'}", "--lengths=16,64", "--last=8")
    return lab.start("extend", *asked, *arguments).wait()


def test_a_pretrained_model_gets_its_table_page_and_standing(lab, tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "out"
    documented = (ROOT / "docs" / "pretrained.md").read_text("utf-8")
    (lab.folder / "slow_pi.py").write_text(re.findall(r"```python\n(.*?)```", documented, re.S)[0])
    swaps = f"--swaps=window(window=16,sinks=4),{lab.folder / 'slow_pi.py'}:SlowPI"
    done = start(lab, swaps, "--places=2", f"--workdir={runs}", f"--out={out}")
    assert done.code == 0, done.err
    (folder,) = runs.iterdir()
    assert done.out.splitlines()[-1] == str(folder / "result.json")
    assert "llama_tied, window(window=16,sinks=4)" in done.out and "2 places" in done.out
    assert "slow_pi.py:SlowPI" in done.out
    assert (out / "report.html").exists() and (out / "runs.jsonl").exists()
    stands = lab.start("status", f"--workdir={runs}").wait()
    assert stands.code == 0 and "1 run: 1 finished" in stands.out
    again = lab.start("evaluate", f"--workdir={folder}", "--lengths=32").wait()
    assert again.code == 0 and "32 (1x)" in again.out and "2 places" in again.out, again.err


def test_a_pretrained_model_writes_what_the_library_decodes(lab):
    asked = (MODEL, "--prompt=the path ", "--tokens=6", "--temperature=0")
    done = lab.start("generate", *asked).wait()
    model = load(MODEL.partition("=")[2])
    ids = list(model.encode("the path "))
    for _ in range(6):
        ids.append(int(model.logits(ids)[-1].argmax()))
    text = model.tokenizer.decode(np.array(ids)).decode("utf-8", errors="replace")
    assert (done.code, done.out) == (0, f"{text}\n"), done.err
    both = lab.start("generate", MODEL, "--workdir=runs").wait()
    assert both.code == 2 and "give either --workdir=RUN" in both.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--places=1"], "intervals are over places"),
        (["--swaps=yarm"], "did you mean 'yarn'?"),
        (["--last=16"], "--last must be below the shortest evaluation length 16"),
        (["--lengths=16,9000"], "for the longest of --lengths"),
        (["--model=hf:nowhere"], "no model nowhere"),
    ],
)
def test_mistakes_are_told_in_one_line(lab, tmp_path, arguments, words):
    done = start(lab, f"--workdir={tmp_path / 'runs'}", *arguments)
    assert (done.code, done.err.count("\n"), words in done.err) == (2, 1, True), done.err
    assert not (tmp_path / "runs").exists()
