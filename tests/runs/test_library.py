"""What `import pe_jax` gives: lazily, and all that a notebook needs."""

import re
from pathlib import Path

import pytest
from commands import tiny_on, write_text

import pe_jax

ROOT = Path(__file__).resolve().parents[2]


def test_every_name_is_there_and_in_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    section = readme.partition("## In a notebook")[2].partition("\n## ")[0]
    for name in pe_jax.__all__:
        assert getattr(pe_jax, name) is not None
        assert re.search(rf"\b{name}\b", section), name
    assert {*dir(pe_jax)} == {*pe_jax.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'encoder'"):
        pe_jax.__getattr__("encoder")


def test_no_module_hides_a_name():
    modules = {path.stem for path in (ROOT / "pe_jax").iterdir()}
    assert not modules.intersection(pe_jax.__all__)


@pytest.mark.slow
def test_the_code_of_the_readme_trains_and_draws(tmp_path, monkeypatch):
    """The block runs as it stands, on a small text and with small numbers."""
    readme = (ROOT / "README.md").read_text("utf-8")
    section = readme.partition("## In a notebook")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.S)
    config = tiny_on(write_text(tmp_path / "text"))
    whole = pe_jax.Run.of

    def small(given):
        return whole(given if "lm" in given else config | {"pe": given["pe"]})

    monkeypatch.setattr(pe_jax.Run, "of", small)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code, names)
    frame = names["frame"]
    assert set(frame["label"]) == {"rope", "alibi"} and frame["value"].notna().all()
    assert len(names["figure"].axes[0].lines) >= 2
    assert set(names["more"]["length"]) >= {64, 256} and set(names["more"]["seed"]) == {0}
    assert names["logits"].shape == (6, 256) and names["text"]


def test_a_spec_stands_for_its_section():
    run = pe_jax.Run.of({"pe": "rope+t5"})
    assert run == pe_jax.Run.of({"pe": {"spec": "rope+t5"}}) and run.label == "rope+t5"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"pe": 3}, "config.pe must be a section, .* got 3"),
        ({"pe": "rope", "train": 100}, "config.train must be a section, .* got 100"),
        ({"pe": {"spec": "rope", "rope": 5.0}}, "config.pe.rope must be a section, .* got 5.0"),
        ({"pe": "rope", "trian": {}}, "the config has no 'trian'; did you mean 'train'"),
        ({"pe": "rope", "train": {"step": 1}}, "config.train has no 'step'; did you mean 'steps'"),
        ({}, "the config has no pe, which names the encodings, as in {"),
    ],
)
def test_a_config_that_is_none_is_told_in_a_sentence(config, said):
    with pytest.raises(ValueError, match=said):
        pe_jax.Run.of(config)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A config of two steps and one seed."""
    config = tiny_on(write_text(tmp_path_factory.mktemp("library") / "text")) | {"pe": "nope"}
    config["train"] |= {"steps": 2}
    config["eval"] |= {"swaps": ()}
    config["run"] |= {"seeds": (3,)}
    return config


def test_a_terminal_gets_a_bar(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal is to rich
    pe_jax.execute(pe_jax.Run.of(config), tmp_path)
    out, err = capsys.readouterr()
    assert not out and "nope" in err and "100 %" in err
    assert err.rfind("\x1b[?25h") > err.rfind("\x1b[?25l")  # the cursor is back


def test_folders_may_be_strings(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = pe_jax.Run.of(config)
    result = pe_jax.execute(run, "runs")
    assert pe_jax.execute(run, tmp_path / "runs") == result and result.seeds == (3,)
    assert pe_jax.Trained.of("runs").seed == pe_jax.load(f"runs/{run.id}", seed=3).seed == 3


def test_a_pretrained_model_is_loaded_by_the_same_name():
    model = pe_jax.load(f"hf:{ROOT / 'tests/golden/pretrained/llama_tied'}", weights="bfloat16")
    assert model.weights == "bfloat16" and model.decode(model.encode("the path")) == "the path"
    assert model.logits("the path").shape == (model.encode("the path").size, model.lm.vocab)
    assert re.fullmatch(
        r"Pretrained llama_tied: rope.*, [\d,]+ parameters in bfloat16, .* 32\n  hf:.*", repr(model)
    )
    with pytest.raises(ValueError, match="no run in"):
        pe_jax.load("nowhere")


def test_what_a_cell_ends_with_is_told_in_a_few_lines(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    run = pe_jax.Run.of(config)
    result = pe_jax.execute(run, tmp_path, verbose=False)
    assert capsys.readouterr() == ("", "")
    size = f"{run.parameters().total:,} parameters"
    assert repr(run) == (
        f"Run {run.id}: nope, {size}\n"
        f"  trains 2 steps at length 16 on {run.data.source}, seeds 3\n"
        "  scores lengths 16, 32 by same_targets, nonoverlapping"
    )
    assert repr(result) == (
        f"Result {run.id}: nope, {size}, trained at length 16, seeds 3, {len(result.rows)} scores"
    )
    assert repr(pe_jax.load(tmp_path)) == (
        f"Trained nope: seed 3 after 2 steps at length 16, {size}\n  {tmp_path / run.id}"
    )
