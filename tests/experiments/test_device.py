"""scripts/gpu: cases compute what they say, processes may die, tables say what was refused."""

import functools
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from configs import gpt2_small
from experiments.device import __main__ as device
from experiments.device import serve
from experiments.device.attention import Sizes, inputs, of_jax, ours_of
from experiments.device.cases import fused
from experiments.device.report import markdown
from pe_jax.attention.dense import attend
from pe_jax.encodings import ENCODINGS
from pe_jax.specs.parse import parse

ROOT = Path(__file__).resolve().parents[2]
TINY = Sizes(batch=2, length=40, heads=2, head=16)


@pytest.mark.parametrize(
    "spec",
    [
        *(pytest.param(spec, marks=pytest.mark.slow) for spec in ("rope", "alibi", "t5")),
        "rope+window(window=16)",
    ],
)
def test_both_forms_are_near_dense_attention_in_float32(spec):
    params, (*vectors, _) = inputs(spec, TINY)
    wide = [a.astype(jnp.float32) for a in vectors]
    exact = np.asarray(ours_of(spec, TINY, attend, params, *wide))
    for form in (
        functools.partial(ours_of, spec, TINY, fused()),
        functools.partial(of_jax, "xla", spec, TINY),
    ):
        off = np.abs(np.asarray(form(params, *vectors), np.float32) - exact).max()
        assert 1e-4 < off / np.abs(exact).max() < 0.01


def test_the_model_of_the_peers_is_gpt2_small():
    config, of = gpt2_small.get_config(), serve.SIZES["full"]
    lm, train = config.lm, config.train
    assert (of.layers, of.heads, of.head) == (lm.layers, lm.heads, lm.model // lm.heads)
    assert (of.vocab, of.length, of.batch) == (lm.vocab, train.length, train.batch)
    assert of.evaluated == max(config.eval.lengths)


def test_the_kernel_is_tried_with_every_encoding():
    used = {member.name for spec in device.specs("full") for member in parse(spec)}
    assert used == set(ENCODINGS)
    assert len(set(device.specs("full"))) == len(device.specs("full"))


DYING = """
import json, sys
for case in sys.argv[1:]:
    if case == "b":
        sys.exit(7)
    print(json.dumps({"case": case}), flush=True)
"""


def test_a_process_that_dies_costs_one_case():
    found = list(device.rows([sys.executable, "-c", DYING], "abc", time.monotonic() + 60))
    assert [row["case"] for row in found] == ["a", "b", "c"]
    assert [row.get("refused") for row in found] == [None, "its process ended: 7", None]


def test_processes_that_answer_nothing_are_not_started_for_ever():
    assert not list(device.rows([sys.executable, "-c", "exit(3)"], "abc", time.monotonic() + 60))


def test_time_that_is_over_refuses_nothing():
    begun = time.monotonic()
    assert not list(device.rows(["sleep", "30"], "abc"[:1], begun + 0.2))
    assert time.monotonic() - begun < 20


class Failing:
    def __init__(self, scale, word):
        if word == "never":
            raise ValueError("no such word\nand more")
        if word == "late":
            time.sleep(3)

        self.ms = float(word == "ever") or math.nan

    def row(self):
        return {"ms": [self.ms]}


def test_a_case_that_raises_is_refused_and_the_others_are_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # `serve` replaces it
    monkeypatch.setitem(serve.PATIENCE, "tiny", 1.0)
    cases = [f"part/{word}" for word in ("never", "late", "infinite", "ever")]
    serve.serve({"part": Failing}, {"device": "x"}, 4, ["tiny", *cases])
    first, late, infinite, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert "not JSON compliant" in infinite["refused"] and "ms" not in infinite
    assert late["refused"] == "not compiled in 1 s"
    assert first == {"case": "part/never", "device": "x", "refused": "ValueError: no such word"}
    assert second == {"case": "part/ever", "device": "x", "ms": [1.0]}


def test_the_tables_have_speeds_their_share_of_the_peak_and_refusals():
    known = {"device": "NVIDIA H200", "versions": {"jax": "1"}, "commit": "a" * 40}
    rows = [
        {"case": "step/gpt2_small/rope", "ms": [100.0], "tokens": 65536, "operations": 5.6e13},
        {"case": "step/gpt2_small/t5", "ms": [125.0], "tokens": 65536, "operations": 5.6e13},
        {"case": "step/gpt2_small/fire", "refused": "RESOURCE_EXHAUSTED"},
        {"case": "attention/1024/rope/fused", "forward": [1.0], "both": [3.0]},
        {"case": "attention/1024/rope/JAX", "forward": [2.0], "both": [6.0]},
        {"case": "kernel/cope", "unclaimed": "logits has no form for tiles"},
    ]
    text = markdown([row | known for row in rows])
    # 0.45 is 5.6e13 / .125 / 989e12.
    assert "| gpt2_small | t5 | 65,536 | 125.0 | 524,288 | 0.80 | 0.45 |" in text
    assert "| gpt2_small | fire | n/a: RESOURCE_EXHAUSTED |" in text
    assert "| 1024 | rope | JAX | 2.00 | 0.50 | 6.00 | 0.50 |" in text
    assert "0 encodings take the fused kernel" in text


@pytest.mark.slow
def test_all_of_it_runs_on_a_cpu_and_goes_on_where_it_stopped(tmp_path):
    command = [sys.executable, "-m", "experiments.device", "--device=cpu", "--tiny"]
    command += [f"--out={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "device.jsonl").read_text().splitlines()]
    assert not [row for row in rows if "refused" in row]
    measured = {row["case"] for row in rows}
    wanted = {case for part in device.SHARES for case in device.cases(part, "tiny")}
    assert wanted - measured == {case for case in wanted if case.endswith(device.PEERS)}
    for row in rows:
        if "output" in row:
            assert max(row["output"]["fused float32"], row["gradients"]["fused float32"]) < 1e-5
    begun = time.monotonic()
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert again.stdout == done.stdout and time.monotonic() - begun < 60
