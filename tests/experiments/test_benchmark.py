"""scripts/benchmark: its arithmetic, its report, and that its sides train the same model."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from experiments.benchmark import __main__ as command
from experiments.benchmark import encodings, paired, pretrained
from experiments.benchmark.encodings import Plan
from experiments.benchmark.encodings_table import exponent, misses
from experiments.benchmark.plain import PlainLM
from experiments.benchmark.sides import CALL, OURS, Workload, pe_jax_side, plain_jax_side
from pe_jax.atlas import groups, kinds
from pe_jax.compose.parse import make
from pe_jax.model.config import LmConfig
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import build

ROOT = Path(__file__).parents[2]
TINY = Workload(
    LmConfig(vocab=11, layers=2, model=16, heads=2, mlp=32),
    TrainConfig(length=6, batch=3, steps_per_call=CALL),
)


def test_interval_is_that_of_the_binomial():
    assert paired.interval(range(12)) == (2, 9)  # P(B(12, 1/2) <= 2) = 0.019, <= 3: 0.073
    assert paired.interval([3, 1, 2, 6, 5, 4]) == (1, 6)
    assert paired.interval(range(5)) is None  # P(B(5, 1/2) = 0) = 0.031


def test_ratios_are_paired_by_turn():
    times = {OURS: [10.0, 20.0, 40.0], "other": [20.0, 80.0, 50.0]}
    ours, other = paired.compare(times)
    assert (ours.ratio, ours.median, ours.low, ours.high) == (1.0, 20.0, 10.0, 40.0)
    assert other.ratio == 0.5  # the median of 0.5, 0.25, 0.8; the ratio of medians is 0.4


def test_sides_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        paired.compare({OURS: [1.0, 2.0], "other": [1.0]})


def test_arguments():
    assert command.arguments([]).pairs == 12
    assert command.arguments(["--quick", "--pairs=9"]).pairs == 3
    assert command.arguments(["--allocator=tcmalloc"]).allocator == "tcmalloc"


def test_a_pretrained_model_is_timed_at_every_length_with_every_swap(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained, "THEIRS", "no_such_library")
    source = f"hf:{ROOT / 'tests' / 'golden' / 'pretrained' / 'llama_tied'}"
    swaps = command.arguments(["--pretrained=x", "--swaps=pi,window(window=8,sinks=2)"]).swaps
    assert pretrained.main(source, (32, 48), swaps, 2, tmp_path) == 0
    found = json.loads((tmp_path / "pretrained.json").read_text())["lengths"]
    assert found.keys() == {"32", "48"}
    for own in found.values():
        assert own.keys() == {"pe_jax", "pe_jax, pi", "pe_jax, window(window=8,sinks=2)"}
        assert all(len(side["seconds"]) == 2 and side["peak_mib"] > 50 for side in own.values())
    assert found["32"]["pe_jax, pi"]["nats"] == found["32"]["pe_jax"]["nats"]  # within training
    assert found["48"]["pe_jax, pi"]["nats"] != found["48"]["pe_jax"]["nats"]
    text = (tmp_path / "pretrained.md").read_text()
    assert text.count("| pe_jax, pi |") == 2 and "n/a" in text


def test_a_swap_of_a_pretrained_model_stands_beside_the_other_library():
    sides = {"pe_jax": [2.0, 6.0], "transformers": [2.0, 4.0], "pe_jax, pi": [4.0, 10.0]}
    found = {
        name: {"seconds": seconds, "nats": 1.5, "peak_mib": 100.0 * i}
        for i, (name, seconds) in enumerate(sides.items(), 1)
    }
    text = pretrained.markdown(
        {
            "model": "m",
            "turns": 2,
            "machine": {"processor": "p", "cores": 2, "load_before": 0.1},
            "sides": {"pe_jax": {"versions": {"jax": "1"}}, "transformers": {"versions": {}}},
            "lengths": {"32": found},
        }
    )
    assert "pe_jax 300 MiB, transformers 200 MiB" in text
    assert "| pe_jax, pi | 7.0 (4.0 - 10.0) | 2.25 | 1.5000 |" in text  # median of 2 and 2.5
    assert "| transformers | 3.0 (2.0 - 4.0) | 1.00 |" in text


@pytest.mark.parametrize("wrong", ["--pairs=0", "--allocator=jemalloc", "--pair"])
def test_wrong_arguments_end_with_code_2(wrong, capsys):
    with pytest.raises(SystemExit) as error:
        command.arguments([wrong])
    assert error.value.code == 2
    assert wrong.strip("-").partition("=")[0] in capsys.readouterr().err


def test_missing_allocator_says_what_to_install(monkeypatch):
    monkeypatch.setattr(paired.ctypes.util, "find_library", lambda name: None)
    with pytest.raises(ValueError, match="libtcmalloc_minimal"):
        paired.environment("tcmalloc")


def test_allocator_is_preloaded_only_on_request(monkeypatch):
    monkeypatch.setattr(paired.ctypes.util, "find_library", lambda name: f"lib{name}.so.4")
    monkeypatch.setenv("LD_PRELOAD", "libother.so")
    assert paired.environment("tcmalloc")["LD_PRELOAD"] == "libtcmalloc_minimal.so.4"
    assert "LD_PRELOAD" not in paired.environment("malloc")


def test_report_names_every_side_and_what_is_absent():
    facts = {
        "parameters": 853120,
        "threads": 2,
        "allocator": "tcmalloc",
        "form": "eager",
        "versions": {"jax": "0.10.2"},
    }
    times = {OURS: [10.0] * 6, "other": [20.0] * 5 + [40.0]}
    record = {
        "shape": Workload().sizes(),
        "one_core": False,
        "pairs": 6,
        "machine": {"processor": "A processor", "cores": 2, "load_before": 0.1},
        "load_after": 0.2,
        "sides": dict.fromkeys(times, facts),
        "absent": ["a third"],
    }
    text = paired.markdown(record, paired.compare(times))
    (other,) = (line for line in text.splitlines() if line.startswith("| other"))
    assert "20 (20 - 40) | 0.500 (0.250 - 0.500) | 853,120 | 2 | tcmalloc" in other
    assert f"| a third | {paired.ABSENT} |" in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


def test_plain_jax_is_the_same_model():
    """With the weights of pe_jax.model.lm.LM, the same logits."""
    ours = build(TINY.lm, make("rope", TINY.lm.dims(6)), 0)
    weights = nnx.to_pure_dict(nnx.split(ours, nnx.Param)[1])
    graphdef, state = nnx.split(PlainLM(TINY.lm, rngs=nnx.Rngs(0)))
    shapes = jax.tree.map(jnp.shape, nnx.to_pure_dict(state))
    weights = {name: weights[name] for name in shapes}
    for block in weights["blocks"].values():
        block["down"]["kernel"] = block["down"]["kernel"].T
    assert jax.tree.map(jnp.shape, weights) == shapes
    tokens = jnp.asarray(TINY.batches()[0, :, :-1])
    plain = nnx.merge(graphdef, weights)(tokens)
    np.testing.assert_allclose(plain, ours(tokens)[0], rtol=1e-5, atol=1e-5)


def test_both_forms_count_the_same_parameters_and_train():
    """A step that did nothing would make a side look fast."""
    facts, step = pe_jax_side(TINY, "rope")
    plain, plain_step = plain_jax_side(TINY)
    assert (
        facts["parameters"]
        == plain["parameters"]
        == 11 * 16 * 2 + 2 * (2 * 32 * 16) + 2 * (4 * 16 * 16) + 16 * (2 * 2 + 1)
    )
    first, plain_first = step(CALL), plain_step(CALL)
    for _ in range(4):
        last, plain_last = step(CALL), plain_step(CALL)
    assert last < 0.9 * first
    assert plain_last < 0.9 * plain_first


def test_help_lists_the_options():
    done = subprocess.run(
        [sys.executable, "-m", "experiments.benchmark", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--one_core" in done.stdout


def test_record_is_json(tmp_path):
    """Too few turns for an interval is null, which JSON knows; an infinite one it does not."""
    row = paired.compare({OURS: [1.0], "other": [2.0]})[1]
    text = json.dumps({"interval": row.interval}, allow_nan=False)
    assert json.loads(text) == {"interval": None}


# --encodings


SMALL_WORK = Workload(LmConfig(vocab=11, layers=1, model=16, heads=2, mlp=32))
SMALL = Plan(SMALL_WORK, ((8, 2, 1),), (32, 64), 2)


def test_arguments_of_encodings():
    assert command.arguments([]).encodings is None
    every = command.arguments(["--encodings"])
    assert (every.encodings, every.turns, str(every.out)) == ((), 6, command.ENCODINGS_OUT)
    some = command.arguments(["--encodings=rope,t5", "--turns=9", "--out=here"])
    assert (some.encodings, some.turns, some.out) == (("rope", "t5"), 9, Path("here"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--turns=3"], "--pairs"),
        (["--encodings", "--turns=0"], "--turns must be at least 1, got 0"),
        (["--encodings", "--pretrained=hf:DIR"], "one of --encodings and --pretrained"),
        (["--encodings", "--one_core"], "--one_core does not go with --encodings"),
        (["--encodings", "--pairs=3"], "--pairs does not go with --encodings"),
        (["--encodings=rope", "--quick"], "--quick does not go with --encodings"),
    ],
)
def test_options_that_do_not_go_together_end_with_code_2(given, told, capsys):
    with pytest.raises(SystemExit) as error:
        command.arguments(given)
    assert error.value.code == 2
    assert told in capsys.readouterr().err


def test_an_unknown_encoding_is_told_before_anything_is_measured(tmp_path, capsys):
    assert encodings.main(["rope", "alibo"], 2, tmp_path / "out") == 2
    assert "did you mean 'alibi'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_encoding_is_measured_against_nope(tmp_path):
    """`learned` serves no more positions than it was trained on."""
    said = []
    kept = encodings.run(["learned", "kerple_log"], SMALL, tmp_path, said.append)
    assert json.loads((tmp_path / "encodings.json").read_text()) == json.loads(json.dumps(kept))
    learned, kerple = kept["found"]
    for one in kept["found"]:
        (part,) = one["training"]
        ratios = [own / nope for own, nope in zip(part["ms"], part["ms_nope"], strict=True)]
        assert part["ratio"] == pytest.approx(sum(ratios) / 2)
        assert min(ratios) > 0 and part["interval"] is None
        assert part["memory"] > 0 and part["memory_ratio"] > 0
    assert (learned["group"], kerple["group"]) == ("input", "bias")
    assert [one["reason"] for one in learned["evaluation"]] == 2 * ["beyond its 8 positions"]
    assert 0.5 < exponent(kerple) < 2.5
    assert exponent(learned) is None
    text = (tmp_path / "encodings.md").read_text()
    assert "n/a (beyond its 8 positions)" in text and "too few turns" in text
    assert said[0].startswith("1/2 learned: ") and said[1].endswith("about 0 minutes left")


def found(name, group="bias", times=(1.0, 1.0), memory=1.0, grows=2.0):
    """A record as `measure` makes it; memory of evaluation `grows` from one length to the next."""
    training = [
        {"length": length, "ratio": ratio, "interval": (ratio, ratio), "memory_ratio": memory}
        for length, ratio in zip((128, 1024), times, strict=True)
    ]
    evaluation = [{"length": 8, "memory": 2**20}, {"length": 16, "memory": grows * 2**20}]
    one = {"name": name, "spec": name, "group": group}
    return one | {"training": training, "evaluation": evaluation}


def test_what_misses_its_aim_is_computed():
    assert misses(found("a", times=(1.16, 1.15), memory=1.15)) == ["time at 128"]
    assert misses(found("a", "content", (1.2, 1.5))) == []
    assert misses(found("a", "content", (1.51, 1.0), 1.51)) == [
        "time at 128",
        "memory at 128",
        "memory at 1,024",
    ]
    assert misses(found("a", grows=2.5)) == ["memory not linear"]
    unsure = found("a", times=(1.2, 1.0))
    unsure["training"][0]["interval"] = (1.1, 1.3)
    assert misses(unsure) == ["perhaps time at 128"]


@pytest.fixture
def counted(monkeypatch):
    """Names that `run` measures; "t5" fails the first time, and "alibi" is cut off."""
    names = []

    def measure(bench, name):
        names.append(name)
        if names.count(name) == 1 and name == "alibi":
            raise KeyboardInterrupt
        if names.count(name) == 1 and name == "t5":
            raise RuntimeError("no such luck\nand more")
        return found(name, times=(2.0, 1.0) if name == "rope" else (1.0, 1.1))

    monkeypatch.setattr(encodings.Bench, "measure", measure)
    return names


def test_a_run_that_is_cut_off_keeps_what_it_has_and_goes_on(tmp_path, counted, capsys):
    names = ["rope", "t5", "alibi", "fire"]
    assert encodings.main(names, 6, tmp_path) == 130
    assert "the same command goes on" in capsys.readouterr().err
    text = (tmp_path / "encodings.md").read_text()
    assert "| `t5` | failed: RuntimeError: no such luck |" in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1

    assert encodings.main(names, 6, tmp_path) == 0
    assert counted == ["rope", "t5", "alibi", "t5", "alibi", "fire"]
    table = capsys.readouterr().out
    order = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert order == ["t5", "alibi", "fire", "rope"]  # by cost
    assert "3 of 4 keep within it; not rope (time at 128)." in table


def test_records_of_other_conditions_are_not_mixed_in(tmp_path, counted, capsys):
    assert encodings.main(["rope"], 6, tmp_path) == 0
    assert encodings.main(["fire"], 9, tmp_path) == 2
    assert "measured under other conditions (plan)" in capsys.readouterr().err
    assert encodings.main(["fire"], 6, tmp_path) == 0
    assert counted == ["rope", "fire"]
    assert encodings.main([], 9, tmp_path) == 130  # all, and "alibi" cuts it off
    assert "measured under other conditions (plan): all anew" in capsys.readouterr().err
    again = json.loads((tmp_path / "encodings.json").read_text())
    assert again["about"]["plan"]["turns"] == 9
    assert [one["name"] for one in again["found"]] == counted[2:-1]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("learned", kinds.Kind("absolute", False)),
        ("rope", kinds.Kind("relative", True)),
        ("fire", kinds.Kind("relative", False)),
        ("tupe", kinds.Kind("both", False)),
        ("cope", kinds.Kind("order", True)),
        ("randomized", kinds.Kind("moved", None)),
    ],
)
def test_kinds_of_encodings(name, want):
    assert kinds.kind(name) == want


def test_what_only_moves_positions_is_judged_with_rope():
    dims = LmConfig().dims(64)
    assert [groups.spec_of(name, dims) for name in ("shape", "nope", "log_n")] == [
        "shape+rope",
        "nope",
        "log_n",
    ]
