"""`pe-jax extend` as a user starts it, and its folder in the hands of the other commands."""

import json
import re
import shutil
import sys

import numpy as np
import pytest
from commands import ROOT, Lab

from pe_jax.pretrained.load import load
from pe_jax.pretrained.source import Source

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
    assert "window(window=16,sinks=4)" in done.out
    assert "slow_pi.py:SlowPI" in done.out
    assert (out / "report.html").exists() and (out / "runs.jsonl").exists()
    assert (out / "curves.png").exists()
    answer = (out / "answer.md").read_text("utf-8")
    assert "Which scaling should llama_tied get at 64 tokens?" in answer and "Choose" in answer
    assert "Which scaling should llama" in (out / "report.html").read_text("utf-8")
    stands = lab.start("status", f"--workdir={runs}").wait()
    assert stands.code == 0 and "1 run: 1 finished" in stands.out
    again = lab.start("evaluate", f"--workdir={folder}", "--lengths=32").wait()
    assert again.code == 0 and "llama_tied" in again.out


def test_a_dry_run_says_how_long_it_takes_and_writes_nothing(lab, tmp_path):
    asked = "--swaps=yarn,lm_infinite", "--places=2", f"--workdir={tmp_path}", "--dry_run"
    dry = start(lab, *asked)
    assert dry.code == 0, dry.err
    # of each place at 16, 32 and 64 as it is, at 64 with each swap, and with fixed YaRN below it
    assert " s for 14 windows of 16 to 64 tokens" in dry.out and "MB of memory" in dry.out
    assert not [*tmp_path.iterdir()]
    assert start(lab, *asked[:-1]).code == 0
    assert start(lab, *asked).out.startswith("all scores are there")
    fewer = start(lab, "--as_if=8", "--lengths=8,32", "--last=4", "--swaps=yarn", "--dry_run")
    assert "as it is and with yarn, yarn(factor=4.0)" in fewer.out


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


def test_default_swaps_are_those_that_change_the_model(lab, tmp_path):
    """A scaled model has its own scaling with a larger factor; none replaces dynamic NTK."""
    source, out = f"--source=files:{lab.folder / 'book.txt'}", tmp_path / "out"
    asked = (source, "--lengths=16,128", "--last=8", "--metrics=same_targets", "--places=2")
    scaled = MODEL.removesuffix("_tied")
    done = lab.start("extend", scaled, *asked, f"--workdir={tmp_path}", f"--out={out}").wait()
    assert done.code == 0, done.err
    swaps = [line.partition(",")[0] for line in (out / "answer.csv").read_text().splitlines()[1:]]
    assert sorted(swaps) == ["as it is", "llama3(factor=8.0)"]
    dynamic = MODEL.replace("llama_tied", "llama_dynamic")
    done = lab.start("extend", dynamic, *asked).wait()
    assert done.code == 2 and "can take the place of this model's dynamic_ntk" in done.err


def test_an_encoder_is_answered_for_by_masked_scores_and_exported(lab, tmp_path):
    """With another base in its layers without a window."""
    folder = shutil.copytree(ROOT / "tests/golden/pretrained/modernbert", tmp_path / "modernbert")
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"]["full_attention"] = {"rope_type": "default", "rope_theta": 500.0}
    (folder / "config.json").write_text(json.dumps(config))
    model, out = f"--model=hf:{folder}", tmp_path / "out"
    asked = f"--source=files:{lab.folder / 'book.txt'}", "--lengths=32,64", "--last=16"
    asked += "--places=2", "--swaps=ntk", f"--workdir={tmp_path / 'runs'}", f"--out={out}"
    done = lab.start("extend", model, *asked).wait()
    assert done.code == 0, done.err
    rows = (out / "answer.csv").read_text().splitlines()
    assert "masked_tokens,first_choices" in rows[0] and "global_rope_theta" in "".join(rows)
    swaps = sorted(row.partition(",")[0] for row in rows[1:])
    assert swaps == ["as it is", "ntk", "ntk(factor=2.0)"]
    done = lab.start("export", model, "--swap=ntk", "--length=64", f"--out={tmp_path / 'long'}")
    assert done.wait().code == 0, done.err
    tokens = np.random.default_rng(0).integers(256, size=64)
    wanted, long = load(f"hf:{folder}").logits(tokens, swap="ntk"), load(f"hf:{tmp_path / 'long'}")
    np.testing.assert_allclose(long.logits(tokens), wanted, atol=1e-5)
    assert long.length == 64 and "base=500.0)[0,3]" not in long.spec


def test_a_scaling_that_the_model_has_makes_an_export_no_longer(lab, tmp_path):
    llama3 = f"{MODEL.removesuffix('_tied')}"  # 16 tokens by 4, for 32
    cases = [(llama3, (), 32), (llama3, ("--length=48",), 48)]
    cases += [(MODEL, ("--swap=yarn(factor=3.0)",), 96)]
    for i, (model, flags, length) in enumerate(cases):
        done = lab.start("export", model, *flags, f"--out={tmp_path / str(i)}").wait()
        assert done.code == 0, done.err
        config = json.loads((tmp_path / str(i) / "config.json").read_text())
        assert config["max_position_embeddings"] == length
    wrong = lab.start("export", llama3, "--length=0", f"--out={tmp_path / 'no'}")
    assert "--length=0" in wrong.wait().err


@pytest.mark.parametrize("missing", ["safetensors", "tokenizers"])
def test_a_missing_library_is_said_before_anything_is_written(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match="needs safetensors and tokenizers: .*extra=pretrained"):
        Source.of(MODEL.partition("=")[2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--places=1"], "--places=1"),
        (["--swaps=yarm"], "did you mean 'yarn'?"),
        (["--margin=0"], "--margin=0"),
        (["--lengths=16,x"], "--lengths=16,x: invalid literal"),
        (["--last=16"], "eval.last must be below the shortest evaluation length 16"),
        (["--lengths=16,9000"], "for the longest of eval.lengths"),
        (["--model=hf:nowhere"], "no model nowhere"),
        (["--serve=vlm"], "unknown program 'vlm'; did you mean 'vllm'?"),
        (["--as_if=64"], "--as_if must be between 2 and 32"),
        (["--as_if=20"], "with --as_if the lengths are at most 32"),
        (["--metrics=records"], "the sentences of records alone have"),
    ],
)
def test_mistakes_are_one_line(lab, tmp_path, arguments, words):
    done = start(lab, f"--workdir={tmp_path / 'runs'}", *arguments)
    assert (done.code, done.err.count("\n"), words in done.err) == (2, 1, True), done.err
    assert not (tmp_path / "runs").exists()
