"""scripts/long_context: its arguments, its report, and that its processes measure a trained run."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import Lab, the_run

from experiments.benchmark import long, long_report, long_runs
from experiments.benchmark.long_worker import LAST, PLACES, measure, sequences, targets
from pe_jax.data.tokenizer import BYTES
from pe_jax.record import Corpus, Result, Training
from pe_jax.storage import records


def test_the_same_targets_at_every_length_in_several_places():
    """Before places that leave room for the longest length, in the documents that have it."""
    documents = [1000 * d + np.arange(size) for d, size in ((1, 90), (2, 30), (3, 70))]
    found = []
    for length in (16, 32, 64):
        cut, joined = sequences(documents, length, targets((16, 32, 64)), BYTES)
        assert cut.tokens.shape == (PLACES, length + 1) and not joined
        rows = zip(cut.tokens.tolist(), cut.lo, cut.hi, strict=True)
        found.append([row[lo + 1 : hi + 1] for row, lo, hi in rows])
        assert cut.last == 9  # the row after the last target's is not scored
    assert found[0] == found[1] == found[2]
    assert len({token for place in found[0] for token in place}) == PLACES * 8
    assert {token // 1000 for place in found[0] for token in place} == {1, 3}


def test_documents_are_joined_where_none_has_room_for_all_places():
    documents = [np.arange(20), np.arange(100, 150)]
    cut, joined = sequences(documents, 48, targets((8, 48)), BYTES)
    assert joined and cut.targets == PLACES * 4
    together = [*range(100, 150), *range(20)]
    assert cut.tokens[0].tolist()[: cut.hi[0]] == together[: cut.hi[0]]
    with pytest.raises(ValueError, match="the test split has 70 tokens"):
        sequences(documents, 128, targets((128,)), BYTES)


def test_targets_are_1024_unless_the_shortest_length_has_not_so_many():
    config = targets((4096, 16384, 131072))
    assert (config.targets, config.last, max(config.lengths)) == (1024, LAST, 131072)
    assert (targets((256, 64)).targets, targets((256, 64)).last) == (128, 32)


def test_arguments():
    options = long.arguments(["--workdir=runs", "--lengths=512,64,512", "--gradients="])
    assert (options.lengths, options.gradients, options.swap) == ((64, 512), (), "window")
    assert options.out == Path("results/long_context")


@pytest.mark.parametrize("wrong", ["--lengths=long", "--lengths=16384,0", "--gradients=-1", "--x"])
def test_wrong_arguments_end_with_code_2(wrong, capsys):
    with pytest.raises(SystemExit) as error:
        long.arguments(["--workdir=runs", wrong])
    assert error.value.code == 2
    assert wrong.strip("-").partition("=")[0] in capsys.readouterr().err


def found(label, length, kind="pass", swap="", **more):
    return {"label": label, "id": f"{label}-1a2b3c4d", "swap": swap, "length": length} | {
        "kind": kind,
        **more,
    }


def scored(seconds, peak, bits=None):
    scores = {} if bits is None else {"targets": 1024, "bits_per_byte": bits}
    return {"seconds": seconds, "peak_memory_mib": peak, "joined": True} | scores


RECORD = {
    "commit": "0123456789abcdef",
    "device": {"kind": "A processor", "threads": 2},
    "source": "stdlib",
    "found": [
        found("rope", 1024, **scored(1.25, 600.4, 2.5)),
        found("rope", 16384, **scored(1234.56, 1500.0, 3.0)),
        found("rope", 8192, "gradient", **scored(20.0, 2048.0)),
        found("rope", 1024, swap="window", **scored(0.5, 590.0, 2.25)),
        found("rope", 16384, swap="window", reason="not finite"),
        found("learned", 1024, reason="beyond its 64 positions"),
        found("learned", 16384, reason="beyond its 64 positions"),
    ],
}


def cells(text, title):
    """{model: [cells]} of the table below a title."""
    below = text.partition(f"### {title}\n")[2].partition("###")[0]
    rows = [line.strip("|").split("|") for line in below.splitlines() if line.startswith("|")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}


def test_tables_name_every_model_in_order_and_say_what_is_lacking():
    text = long_report.markdown(RECORD)
    seconds = cells(text, "Seconds of a pass")
    assert seconds["model"] == ["1,024", "16,384"]
    assert [model for model in seconds if ":" not in model][1:] == [
        "rope",
        "rope, window",
        "learned",
    ]
    assert seconds["rope"] == ["1.2", "1,234.6"]
    assert seconds["rope, window"] == ["0.5", "n/a (not finite)"]
    assert seconds["learned"] == ["n/a (beyond its 64 positions)"] * 2
    assert cells(text, "Peak memory of a pass, MiB")["rope"] == ["600", "1,500"]
    assert cells(text, "Bits per byte, same targets")["rope"] == ["2.500", "3.000"]
    assert "Scored are the 1,024 tokens before 4 places" in text
    assert cells(text, "Gradients: seconds, peak memory")["rope"] == ["20.0 s, 2,048 MiB"]
    assert "A processor, 2 threads; commit 0123456789ab" in text and "joined" in text
    gradients = [one for one in RECORD["found"] if one["kind"] == "gradient"]
    text = long_report.markdown(RECORD | {"found": gradients})
    assert text.count("###") == 1


def test_figure_has_every_value_and_lines_of_slope_1():
    memory, seconds, bits = long_report.figure(RECORD).axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in memory.get_lines()}
    assert drawn.keys() == {"rope", "rope, window", "slope 1"}
    assert drawn["rope"] == [[1024, 600.4], [16384, 1500]]
    for axes in (memory, seconds):
        (x, y), (longer, higher) = axes.get_lines()[-1].get_xydata()
        assert math.isclose(higher / y, longer / x)
        assert axes.get_xscale() == axes.get_yscale() == "log"
    assert bits.get_lines()[1].get_xydata().tolist() == [[1024, 2.25]]
    assert long_report.figure(RECORD | {"found": RECORD["found"][-1:]}).axes


def published(folder):
    """A folder with the record of one run, without its model."""
    folder.mkdir()
    result = Result(
        id="rope-1a2b3c4d",
        label="rope",
        config={},
        seeds=(0,),
        corpus=Corpus(source="stdlib", hash="0" * 64),
        rows=(),
        train=Training(length=64, steps=4),
    )
    (folder / "runs.jsonl").write_text(records.encode(result) + "\n")
    return folder


def test_the_environment_is_that_of_a_worker_that_came_to_measure(tmp_path, monkeypatch):
    """This process only waits; what failed is told by its last line."""
    answers = [
        subprocess.CompletedProcess([], 1, "", "Traceback\nMemoryError: too much\n"),
        subprocess.CompletedProcess([], -9, "", ""),
        subprocess.CompletedProcess([], 0, json.dumps(found("rope", 64, reason="short")), ""),
    ]
    environment = {"device": {"kind": "Another", "threads": 1}, "commit": "ab"}
    last = found("rope", 128, "gradient", **scored(1.0, 2.0), environment=environment)
    answers.append(subprocess.CompletedProcess([], 0, f"noise\n{json.dumps(last)}\n", ""))
    asked, really = [], subprocess.run

    def run(command, **options):
        if "experiments.benchmark.long_worker" not in command:
            return really(command, **options)
        asked.append(command[5:])
        return answers[len(asked) - 1]

    monkeypatch.setattr(subprocess, "run", run)
    options = [f"--workdir={published(tmp_path / 'runs')}", "--lengths=32,48,64", "--gradients=128"]
    options += ["--swap=", f"--out={tmp_path / 'out'}"]
    record = long_runs.run(long.arguments(options))
    lengths = ["32", "48", "64", "128"]
    kinds = zip(lengths, ("pass", "pass", "pass", "gradient"), strict=True)
    assert asked == [[length, kind, *lengths] for length, kind in kinds]
    reasons = [one.get("reason") for one in record["found"]]
    assert reasons == ["MemoryError: too much", "ended with code -9", "short", None]
    assert {one["label"] for one in record["found"]} == {"rope"}
    assert (record["device"], record["commit"]) == (environment["device"], "ab")


def script(*arguments):
    command = [sys.executable, "-m", "experiments.benchmark.long", *arguments]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def test_errors_are_a_line_and_code_2(tmp_path):
    done = script(f"--workdir={tmp_path / 'none'}")
    assert done.returncode == 2
    assert "no results in" in done.stderr and done.stderr.count("\n") == 1


def test_a_misspelt_swap_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    folder = published(tmp_path / "runs")
    monkeypatch.setattr(sys, "argv", ["long_context", f"--workdir={folder}", "--swap=windwo"])
    assert long.main() == 2
    assert "window" in capsys.readouterr().err


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """That of one run, trained for 12 steps."""
    cache = tmp_path_factory.getbasetemp() / "programs"
    lab = Lab(tmp_path_factory.mktemp("lab"), cache)
    run = lab.run(lab.folder / "runs", "learned", **{"pe.learned.clip": True, "train.steps": 4})
    assert run.wait().code == 0, run.err
    return lab.folder / "runs"


@pytest.mark.slow
def test_end_to_end(workdir, tmp_path):
    options = ["--lengths=256,512", "--gradients=256", "--swap=", f"--out={tmp_path / 'out'}"]
    done = script(f"--workdir={workdir}", *options)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out" / "long_context.json").read_text())
    assert [(one["kind"], one["length"]) for one in record["found"]] == [
        ("pass", 256),
        ("pass", 512),
        ("gradient", 256),
    ]
    for one in record["found"]:
        assert one["seconds"] > 0 and one["peak_memory_mib"] > 50
        assert one["environment"].items() <= record.items()
    for one in record["found"][:2]:
        assert 1 < one["bits_per_byte"] < 12 and one["targets"] == PLACES * 128
    assert (tmp_path / "out" / "table.md").read_text() in done.stdout
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {
        ".json",
        ".md",
        ".png",
        ".pdf",
    }
    path = tmp_path / "out" / "long_context.json"
    path.write_text(json.dumps(record | {"found": record["found"][:2]}))
    again = script(f"--workdir={workdir}", *options)
    assert again.returncode == 0 and again.stderr.count("\n") == 1, again.stderr
    assert (
        again.stderr.startswith("3/3 ")
        and json.loads(path.read_text())["found"][:2] == (record["found"][:2])
    )


def test_a_pass_is_the_models_own_loss(workdir):
    """By the plain forward pass of the restored model; a window that hides nothing changes none."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    from pe_jax.runs.trained import Trained

    folder, lengths = the_run(workdir), (64, 96)
    got = measure(folder, "", 96, "pass", lengths)
    trained = Trained.of(folder)
    cut, _ = sequences(trained.run.load().splits["test"], 96, targets(lengths), BYTES)
    params, tokens = jax.tree.map(jnp.asarray, trained.params), jnp.asarray(cut.tokens)
    logits, _ = nnx.merge(trained.graphdef, params)(tokens[:, :-1])
    nats = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    want = nats[:, -33:-1].mean() / math.log(2)
    assert (got["targets"], cut.last) == (PLACES * 32, 33)
    assert got["bits_per_byte"] == pytest.approx(float(want), rel=1e-5)
    wide = measure(folder, "window(window=96)", 96, "pass", lengths)
    assert wide["bits_per_byte"] == pytest.approx(got["bits_per_byte"], rel=1e-5)
    assert "tokens" in measure(folder, "", 10**7, "gradient", (10**7,))["reason"]
