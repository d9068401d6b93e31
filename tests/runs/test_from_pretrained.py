"""Starting from a pretrained model: what it says of a run, what is taken over, what is refused."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import lines, messages, result, run_of, stop_at
from flax import nnx
from studies import table_of

from configs import continued
from pe_jax.commands.sweep import show
from pe_jax.data.batches import Batches
from pe_jax.errors import Refused
from pe_jax.pretrained.load import load
from pe_jax.record import Result
from pe_jax.report.notes import glossary
from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.runs.folder import Folder
from pe_jax.runs.run import Run
from pe_jax.runs.trained import Trained
from pe_jax.storage import records
from pe_jax.sweep import queue

GOLDEN = Path(__file__).parents[1] / "golden" / "pretrained"
LENGTH = 32  # for which the models were made
YARN = "yarn(factor=4.0)"
SHORT = {
    "train.length": 4 * LENGTH,
    "train.rate": 3e-3,
    "train.steps": 8,
    "train.warmup": 0,
    "eval.lengths": (4 * LENGTH,),
    "eval.metrics": ("same_targets",),
    "eval.swaps": (),
    "eval.last": 16,
    "lm.model": 64,  # the default, as of layers and heads: it is the model that says them
    "lm.layers": 2,
    "lm.heads": 4,
}


@pytest.fixture(scope="module")
def folder(lab):
    """A model's folder, which tests may move away."""
    return Path(shutil.copytree(GOLDEN / "llama_tied", lab.folder / "llama_tied"))


def planned(lab, source, spec=YARN, **values):
    """The Run of `spec` that starts from a pretrained model."""
    return run_of(spec, **{"data.source": lab.text, "train.init_from": source} | SHORT | values)


@pytest.fixture(scope="module")
def done(lab, folder):
    """The folder of a finished run."""
    run = planned(lab, f"hf:{folder}")
    execute(run, lab.folder / "continued")
    return lab.folder / "continued" / run.id


# What the model says


OTHER = [pytest.param(name, marks=pytest.mark.slow) for name in ("qwen3", "gpt_neox")]


@pytest.mark.parametrize("name", ["llama", *OTHER, "gguf/model.gguf"])
def test_shape_and_tokens_are_the_models(lab, name):
    source = f"{'gguf' if 'gguf' in name else 'hf'}:{GOLDEN / name}"
    run, model = planned(lab, source), load(source)
    assert vars(run.lm) == vars(model.lm) and run.data.tokenizer == source
    assert run.init_from.record.new == ()
    tokens = run.load().trained
    assert tokens.tokenizer.pieces == model.tokenizer.pieces and len(tokens.splits["train"])


def test_an_encoding_has_what_the_model_says_and_the_spec_does_not(lab):
    def fields(spec, name="llama", **values):
        run = planned(lab, f"hf:{GOLDEN / name}", spec, **values)
        assert Run.of(json.loads(json.dumps(run.config))).id == run.id
        return run.encodings[0]

    scaled = fields(YARN)  # the model's own is llama3, with factor 4 of 16 tokens at base 500
    assert (scaled.base, scaled.factor, scaled.length) == (500.0, 4.0, 16)
    assert fields("rope").base == 500.0
    assert fields("rope(base=10000.0)").base == 10000.0  # RoPE's default, but set
    assert fields("rope", **{"pe.rope.base": 2e4}).base == 2e4
    for scaling in ("yarn", "dynamic_ntk"):
        assert fields(scaling, "llama_tied").length == LENGTH
    assert fields("rope[0]+yarn[1]", "gemma3").base == 100.0  # that of its layers with a window
    assert fields("yarn[1]", "gemma3").base == fields("yarn[:]", "gemma3").base == 5000.0
    with pytest.raises(ValueError, match=r"'yarn' could be any of 2 members .* layers, as in that"):
        fields("yarn", "gemma3")
    window = fields("t5+window", "mistral").dims
    assert window.train_len == 4 * LENGTH


def test_an_id_depends_on_the_models_files_and_not_on_where_they_lie(lab, folder, tmp_path):
    first = planned(lab, f"hf:{folder}").id
    copy = Path(shutil.copytree(folder, tmp_path / "other"))
    assert planned(lab, f"hf:{copy}").id == first
    assert first.startswith("yarn_factor_4.0_length_32_from_llama_9.06k-")
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert planned(lab, f"hf:{copy}").id != first
    assert run_of(YARN, **{"data.source": lab.text} | SHORT).id != first


def test_a_parameter_that_the_model_lacks_is_new_and_listed(lab, folder):
    start = planned(lab, f"hf:{folder}", "rope+t5").init_from
    assert start.record.new == ("pe.t5.table",)
    assert "llama_tied with rope: " in start.summary() and "new: pe.t5.table" in start.summary()


# What is refused


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lm.kv_heads": 4}, "lm.kv_heads is 2 in .*llama_tied, got 4: leave it out"),
        ({"lm.layers": 3}, "lm.layers is 2 in .*got 3"),
        ({"train.init_from": "hf:{}_tide"}, "no model .*llama_tide; did you mean .*'llama_tied'"),
        ({"train.init_from": "hf:"}, "is hf:DIR or gguf:PATH, got 'hf:'"),
        ({"train.init_from": "hf"}, "train.init_from=hf is no folder of"),
        ({"train.init_from": "hf:{}_tied/.."}, "no config.json in"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(lab, folder, values, words):
    at = str(folder).removesuffix("_tied")
    values = {k: v.format(at) if isinstance(v, str) else v for k, v in values.items()}
    with pytest.raises((ValueError, OSError), match=words) as told:
        planned(lab, **{"source": f"hf:{folder}"} | values)
    assert "\n" not in str(told.value)


def test_other_tokens_are_refused_with_the_models(lab, folder):
    other = planned(lab, f"hf:{folder}", **{"data.tokenizer": f"file:{folder}/tokenizer.json"})
    assert len(other.load().trained.splits["train"])  # the same by another name
    with pytest.raises(Refused, match="other tokens .*: use --config.data.tokenizer=hf:.*_tied$"):
        planned(lab, f"hf:{folder}", **{"data.tokenizer": "bpe:257"}).load()


def test_damaged_weights_are_refused(lab, tmp_path):
    copy = Path(shutil.copytree(GOLDEN / "llama_tied", tmp_path / "copy"))
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(Refused, match="is no whole safetensors file"):
        planned(lab, f"hf:{copy}").init_from({}, (0,))


# Runs


def test_the_first_loss_is_that_of_the_pretrained_model(lab, folder):
    run = planned(lab, f"hf:{folder}", "rope", **{"train.length": LENGTH, "train.steps": 1})
    with pytest.raises(KeyboardInterrupt), stop_at(1):
        execute(run, lab.folder / "plain", verbose=False)
    (line, *_) = lines(lab.folder / "plain" / run.id)
    model = load(f"hf:{folder}")
    logits = jax.jit(lambda tokens: nnx.merge(model.graphdef, model.params)(tokens)[0])
    for seed, loss in zip((0, 1), line["loss"], strict=True):
        read = Batches(run.load().trained.splits["train"], LENGTH, run.train.batch, seed)
        window = np.asarray(read[0])
        log_p = jax.nn.log_softmax(logits(jnp.asarray(window[:, :-1])))
        nats = -np.take_along_axis(np.asarray(log_p), window[:, 1:, None], -1).mean()
        assert loss == pytest.approx(nats, rel=1e-5)


def test_training_lowers_the_loss(done):
    losses = [line["loss"] for line in lines(done) if "loss" in line]
    assert all(last < first - 0.05 for first, last in zip(losses[0], losses[-1], strict=True))


@pytest.mark.slow
def test_devices_and_memory_do_not_change_the_loss(lab, folder, done):
    alone = [line["loss"] for line in lines(done) if "loss" in line]
    run = planned(lab, f"hf:{folder}", **{"train.remat": True, "run.mesh": "data:2"})
    assert run.id == done.name
    execute(run, lab.folder / "devices")
    shared = [line["loss"] for line in lines(lab.folder / "devices" / run.id) if "loss" in line]
    np.testing.assert_allclose(shared, alone, rtol=1e-4)


def test_the_record_says_where_the_parameters_came_from(done, folder):
    parent = result(done)["parent"]
    assert parent["id"] == "llama_tied" and parent["label"] == "llama 9.06k"
    assert parent["source"] == f"hf:{folder}" and parent["new"] == parent["dropped"] == []
    assert parent["files"] == load(f"hf:{folder}").files
    table = table_of([records.read(Result, done / "result.json")], "same_targets")
    assert any("A from B" in note for note in glossary(table))


def test_what_was_cut_off_ends_the_same_wherever_the_model_lies(lab, folder, done, tmp_path):
    with pytest.raises(KeyboardInterrupt), stop_at(6):
        execute(planned(lab, f"hf:{folder}"), tmp_path, verbose=False)
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    with messages() as said:
        execute(planned(lab, f"hf:{copy}"), tmp_path, verbose=False)
    assert any("going on from step 4 of 8" in message for message in said)
    assert result(tmp_path / done.name)["digests"] == result(done)["digests"]


def test_a_finished_run_needs_the_model_no_more(lab, folder, done):
    moved = folder.rename(folder.with_name("llama_tied_2"))
    try:
        rows = evaluate_again(done, {"lengths": (LENGTH,)}).rows
        assert {row.length for row in rows} == {LENGTH, 4 * LENGTH}
        model = Trained.of(done, seed=1)
        assert len(model.encode(model.generate("the ", 4))) >= 4
        with pytest.raises(FileNotFoundError, match="no model .*llama_tied; did you mean"):
            planned(lab, f"hf:{folder}")
    finally:
        moved.rename(folder)


# Size

SMOL = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}


def test_the_config_for_accelerators_is_planned_without_reading_weights(tmp_path, capsys):
    folder = Path(shutil.copytree(GOLDEN / "llama_tied", tmp_path / "SmolLM2-135M"))
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(about | SMOL))
    (folder / "model.safetensors").write_bytes(b"")
    *_, config = continued.get_sweep()
    config.train.init_from = f"hf:{folder}"
    run = Run.of(config.to_dict())
    assert run.encodings[0].base == 100000.0 and run.encodings[0].length == 8192
    assert run.train.length == 32768 and run.lm.dtype == "bfloat16" and run.lm.kv_heads == 3
    show([queue.Item(run, Folder(tmp_path), run.config)], {run.id})
    out = capsys.readouterr().out
    assert "134,515,008" in out and "1 run, 1 to do" in out and "yarn(factor=4.0" in out
