"""`pe-jax extend` as a user starts it, and its folder in the hands of the other commands."""

import json
import re
import shutil

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
    asked = "--lengths=64", "--places=2"
    done = start(lab, swaps, *asked, f"--workdir={runs}", f"--out={out}")
    assert done.code == 0, done.err
    (folder,) = runs.iterdir()
    assert done.out.splitlines()[-1] == str(folder / "result.json")
    assert done.out.count("─\n") == 1  # one table
    assert "window(window=16,sinks=4)" in done.out and "2 places" in done.out
    assert "slow_pi.py:SlowPI" in done.out and "What to choose: Choose " in done.out
    assert (out / "report.html").exists() and (out / "runs.jsonl").exists()
    assert "also scored: 32 tokens" in done.out
    assert (out / "differences.png").exists()
    answer = (out / "answer.md").read_text("utf-8")
    assert "Which scaling should llama_tied get at 64 tokens?" in answer and "Choose" in answer
    assert "Which scaling should llama" in (out / "report.html").read_text("utf-8")
    stands = lab.start("status", f"--workdir={runs}").wait()
    assert stands.code == 0 and "1 run: 1 finished" in stands.out
    again = lab.start("evaluate", f"--workdir={folder}", "--lengths=32").wait()
    assert again.code == 0 and "llama_tied" in again.out


def test_a_pretrained_model_writes_what_the_library_decodes(lab):
    asked = (MODEL, "--prompt=the path ", "--tokens=3", "--temperature=0")
    done = lab.start("generate", *asked).wait()
    model = load(MODEL.partition("=")[2])
    ids = list(model.encode("the path "))
    for _ in range(3):
        ids.append(int(model.logits(ids)[-1].argmax()))
    text = model.tokenizer.decode(np.array(ids)).decode("utf-8", errors="replace")
    assert (done.code, done.out) == (0, f"{text}\n"), done.err
    both = lab.start("generate", MODEL, "--workdir=runs").wait()
    assert both.code == 2 and "give either --workdir=RUN" in both.err


def test_a_scaled_model_gets_its_own_scaling_and_one_that_turns_part_of_a_head_none(lab):
    """Without --swaps, of those that take the place of plain RoPE the rest are left out."""
    source = f"--source=files:{lab.folder / 'book.txt'}"
    asked = (source, "--lengths=16,64", "--last=8", "--metrics=same_targets", "--dry_run")
    done = lab.start("extend", MODEL.removesuffix("_tied"), *asked, "--places=2").wait()
    assert done.code == 0, done.err
    assert "cannot replace or do not change llama3(" in done.out and "): pi, ntk," in done.out
    neox = f"--model=hf:{ROOT / 'tests' / 'golden' / 'pretrained' / 'gpt_neox'}"
    done = lab.start("extend", neox, *asked, "--places=2").wait()
    assert done.code == 2 and "can take the place of this model's partial_rope" in done.err


def test_a_scaling_that_the_model_has_makes_an_export_no_longer(lab, tmp_path):
    llama3 = f"{MODEL.removesuffix('_tied')}"  # 16 tokens by 4, for 32
    for i, (model, flags, length) in enumerate(
        (
            (llama3, (), 32),
            (llama3, ("--length=48",), 48),
            (MODEL, ("--swap=yarn(factor=3.0)",), 96),
        )
    ):
        done = lab.start("export", model, *flags, f"--out={tmp_path / str(i)}").wait()
        assert done.code == 0, done.err
        config = json.loads((tmp_path / str(i) / "config.json").read_text())
        assert config["max_position_embeddings"] == length
    wrong = lab.start("export", llama3, "--length=0", f"--out={tmp_path / 'no'}")
    assert "--length must be an integer of at least 1, got 0" in wrong.wait().err


def test_prompts_are_shown_with_the_tokens_of_what_they_ask_for_and_time_is_estimated(lab):
    folder = shutil.copytree(MODEL.partition("hf:")[2], lab.folder / "longer")
    about = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 1600}
    (folder / "config.json").write_text(json.dumps(about))
    asked = ("--metrics=same_targets,kl,records,niah_single_1", "--lengths=1600,1800", "--places=2")
    source, model = f"--source=files:{lab.folder / 'book.txt'}", f"--model=hf:{folder}"
    shown = lab.start("extend", model, source, *asked, "--last=8", "--inspect").wait()
    assert shown.code == 0, shown.err
    needles = re.findall(r"needle, tokens (\d+) to (\d+) of 1601: (.*)", shown.out)
    assert len(needles) == 16 and all("The code of" in needle[2] for needle in needles)
    assert "A special magic number is hidden" in shown.out and "scored, 128 tokens" in shown.out
    dry = lab.start("extend", model, source, *asked, "--swaps=pi", "--dry_run").wait()
    assert dry.code == 0, dry.err
    assert "a window of 1600 tokens takes" in dry.out and "in all about" in dry.out
    # 2 places by 1 text pass, 8 records and 8 needles, as it is and with pi; 2 to compare with
    assert "1800 tokens: 36 windows, about" in dry.out
    # within 1,600 tokens pi is the model itself
    assert "1600 tokens: 18 windows and 2 to compare with, about" in dry.out
    # 3 kinds of windows, at 1,600 tokens of one way, at 1,800 of two, and what kl compares with
    assert "\n10 programs to compile, about" in dry.out, dry.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--places=1"], "intervals are over places"),
        (["--swaps=yarm"], "did you mean 'yarn'?"),
        (["--baseline=yarm", "--swaps=yarn"], "did you mean 'yarn'?"),
        (["--margin=-1"], "--margin must be a finite number above 0, got -1"),
        (["--last=16"], "--last must be below the shortest evaluation length 16"),
        (["--lengths=16,9000"], "for the longest of --lengths"),
        (["--model=hf:nowhere"], "no model nowhere"),
        (["--as_if=64"], "--as_if must be between 2 and 32"),
        (["--as_if=20"], "trained for 32 tokens, got --lengths up to 64: leave longer ones out"),
        (["--metrics=records"], "the sentences of records alone have"),
        (["--inspect"], "no metric has any"),
    ],
)
def test_mistakes_are_told_in_one_line(lab, tmp_path, arguments, words):
    done = start(lab, f"--workdir={tmp_path / 'runs'}", *arguments)
    assert (done.code, done.err.count("\n"), words in done.err) == (2, 1, True), done.err
    assert not (tmp_path / "runs").exists()
