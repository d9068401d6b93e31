"""Runs on tasks whose samples are drawn: trained, scored by length, resumed, extended, reported."""

import json
import shutil

import jax
import numpy as np
import pytest
from commands import on_line, stop_at

from pe_jax import Trained
from pe_jax.evaluation import passes
from pe_jax.evaluation.scoring import predict
from pe_jax.runs import rates
from pe_jax.runs.execute import execute
from pe_jax.runs.folder import Folder
from pe_jax.runs.run import Run
from pe_jax.storage import jsonl as stored
from pe_jax.training import samples

CONFIG = {
    "pe": "rope",
    "task": "reverse_string",
    "lm": {"layers": 1, "model": 16, "heads": 2, "causal": False},
    "train": {"length": 8, "steps": 12, "batch": 8, "steps_per_call": 3},
    "eval": {"lengths": (1, 8, 12, 16, 20), "samples": 40, "swaps": ()},
    "run": {"seeds": (0, 1)},
}


@pytest.fixture(autouse=True, scope="module")
def one_size():
    """Samples of training have one size: a program of four takes longer to compile."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(samples, "SHAPES", 1)
        yield


def config(**sections):
    return CONFIG | {name: CONFIG.get(name, {}) | more for name, more in sections.items()}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def result(workdir):
    return execute(Run.of(CONFIG), workdir)


@pytest.fixture
def finished(result, workdir, tmp_path):
    """A work directory of its own with the finished run."""
    return shutil.copytree(workdir, tmp_path / "again")


@pytest.fixture
def trained(finished):
    """The same without the scores."""
    (folder,) = (path for path in finished.iterdir() if path.is_dir())
    for name in ("result.json", "scores.jsonl"):
        (folder / name).unlink()
    return finished


def test_every_seed_metric_and_length_has_a_row(result):
    found = {(row.replica.number, row.metric, row.length) for row in result.rows}
    assert len(found) == len(result.rows) == 2 * 2 * 5
    assert all(0 <= row.value <= 100 for row in result.rows)
    assert result.corpus.source == "reverse_string" and result.tokenizer.vocabulary == 3


def test_the_evaluation_of_many_lengths_compiles_few_programs(trained):
    before = predict._cache_size()
    execute(Run.of(config(eval={"lengths": tuple(range(1, 60, 6)), "samples": 4})), trained)
    assert predict._cache_size() - before <= 3  # padded to 16, 32 and 64


def test_a_score_depends_neither_on_the_batch_nor_on_what_else_is_asked(result, trained):
    other = execute(Run.of(config(eval={"lengths": (12,), "batch_tokens": 100})), trained)
    known = {(row.replica.number, row.metric, row.length): row.value for row in result.rows}
    assert other.rows
    assert all(row.value == known[row.replica.number, row.metric, row.length] for row in other.rows)


def test_more_lengths_train_nothing(finished):
    (folder,) = (path for path in finished.iterdir() if path.is_dir())
    lines = (folder / "metrics.jsonl").read_text().count('"loss"')
    longer = execute(Run.of(config(eval={"lengths": (8, 24)})), finished)
    assert {row.length for row in longer.rows} == {8, 24}
    assert (folder / "metrics.jsonl").read_text().count('"loss"') == lines
    assert sum("row" in line for line in stored.read_lines(folder / "scores.jsonl")) == 24
    more, less = Run.of(config(eval={"lengths": (8, 24)})), Run.of(CONFIG)
    assert Folder(folder).complete(more.run.seeds, more.asked()) == longer
    assert Folder(folder).complete(less.run.seeds, less.asked()) is None  # other lengths


def test_an_evaluation_that_is_cut_off_has_all_baselines_in_the_end(result, trained):
    def cut_off(line):
        if "evaluated" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), on_line(cut_off):
        execute(Run.of(CONFIG), trained)
    again = execute(Run.of(CONFIG), trained)
    assert again.baselines == result.baselines and {b.length for b in again.baselines} >= {8, 20}


def test_a_mesh_scores_as_one_device_does(result, trained):
    found = execute(Run.of(config(run={"mesh": "seed:2,data:2"}, eval={"lengths": (20,)})), trained)
    values = [row.value for row in result.rows if row.length in (8, 20)]
    np.testing.assert_allclose([row.value for row in found.rows], values, atol=2.6)


@pytest.mark.slow
def test_a_mesh_trains_and_scores_as_one_device_does(result, tmp_path):
    found = execute(Run.of(config(run={"mesh": "seed:2,data:2"})), tmp_path)
    np.testing.assert_allclose(found.train.loss, result.train.loss, rtol=1e-5)
    values = [[row.value for row in rows] for rows in (found.rows, result.rows)]
    np.testing.assert_allclose(*values, atol=2.6)  # one of 40 samples


@pytest.mark.slow
def test_a_killed_training_ends_the_same(tmp_path, result):
    """The samples of a step depend on seed and step alone."""
    first = Run.of(CONFIG).train.steps_per_call
    with pytest.raises(KeyboardInterrupt), stop_at(3 * first):
        execute(Run.of(config(log={"checkpoint_seconds": 0.0})), tmp_path)
    again = execute(Run.of(CONFIG), tmp_path)
    assert again.digests == result.digests and again.rows == result.rows


def test_variants_have_rows_depths_and_baselines_of_their_own(tmp_path):
    causal = {"lm": {"layers": 1, "model": 16, "heads": 2}, "run": {"seeds": (0,)}}
    asked = {"lengths": (8, 16), "samples": 40, "swaps": (), "metrics": ("accuracy",)}
    plain = config(train={"steps": 3}) | causal | {"task": "flip_flop", "eval": asked}
    more = plain | {"eval": asked | {"variants": ("ignore=0.98",)}}
    first = execute(Run.of(plain), tmp_path)
    both = execute(Run.of(more), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # nothing is trained again
    assert both.rows[:2] == first.rows and both.curves[:2] == first.curves
    ways = [(str(row.way), row.length) for row in both.rows[2:]]
    assert ways == [("ignore=0.98", 8), ("ignore=0.98", 16)]
    assert {(one.name, str(one.way), one.length) for one in both.baselines} == {
        (name, swap, length)
        for name in ("most frequent", "most frequent symbol", "guess")
        for swap in ("", "ignore=0.98")
        for length in (8, 16)
    }
    assert first.baselines == tuple(one for one in both.baselines if not one.way)
    row, curve = both.rows[1], both.curves[1]
    assert (row.length, row.metric) == (curve.length, curve.metric) == (16, "accuracy")
    found = [value for value in curve.value if value is not None]
    assert len(curve.value) == 10 and min(found) <= row.value <= max(found)


@pytest.mark.slow
def test_exact_matches_are_what_greedy_decoding_gets_right(tmp_path):
    """By teacher forcing, and token by token from the cache."""
    own = config(lm={"causal": True}, train={"length": 3, "steps": 150, "rate": 1e-2})
    own = own | {"eval": {"lengths": (1, 2, 3), "samples": 40, "swaps": ()}, "run": {"seeds": (0,)}}
    run = Run.of(own)
    found = execute(run, tmp_path)
    model = Trained.of(tmp_path)
    exact = {row.length: row.value for row in found.rows if row.metric == "exact_match"}
    assert 0 < min(exact.values()) or max(exact.values()) < 100  # neither perfect nor hopeless
    for n, value in exact.items():
        key = jax.random.fold_in(jax.random.key(2**32 - 1), n)
        keys = jax.vmap(lambda i, key=key: jax.random.split(jax.random.fold_in(key, i))[0])(
            np.arange(40)
        )
        drawn = [run.task.sample(key, np.int32(n), 16) for key in keys]
        right = 0
        for tokens, targets, scored in drawn:
            tokens = [*np.asarray(tokens[: n + 1]).tolist()]
            for _ in range(n):
                tokens.append(int(model.logits(np.array(tokens))[-1].argmax()))
            right += tokens[n + 1 :] == np.asarray(targets)[np.asarray(scored)].tolist()
        assert 100 * right / 40 == value


@pytest.mark.slow
def test_a_rate_is_chosen_by_validation_samples(tmp_path):
    runs = rates.runs_of(config(train={"rates": (1e-5, 1e-2, 3e-2)}))
    chosen = rates.execute_best(runs, tmp_path, verbose=False)
    best = min(chosen.rates, key=lambda tried: tried.mean).rate
    assert best > 1e-5
    scored = {"split": "valid", "metrics": ("bits",), "lengths": (8,), "samples": 8192 // 16}
    alone = execute(Run.of(config(train={"rate": best}, eval=scored)), tmp_path)
    assert tuple(row.value for row in alone.rows) == alone.train.valid == chosen.train.valid
    test = execute(Run.of(config(train={"rate": best}, eval=scored | {"split": "test"})), tmp_path)
    assert {row.value for row in test.rows}.isdisjoint(alone.train.valid)


@pytest.mark.slow
def test_bits_above_bayes_are_those_of_a_model_minus_those_of_the_baseline(tmp_path):
    sections = {"train": {"length": 16}, "eval": {"lengths": (16, 64), "samples": 8}}
    found = execute(Run.of(config(**sections) | {"task": "markov", "lm": {"layers": 1}}), tmp_path)
    bayes = {one.length: one.value for one in found.baselines if one.metric == "last_bits"}
    values = {(row.replica.number, row.metric, row.length): row.value for row in found.rows}
    for seed in (0, 1):
        for n in (16, 64):
            above = values[seed, "last_bits", n] - bayes[n]
            assert values[seed, "above_bayes", n] == pytest.approx(above, abs=1e-6) and above > 0
    assert bayes[16] > bayes[64]


REFUSED = [
    ({"task": "revers_string"}, "unknown task 'revers_string'; did you mean 'reverse_string'"),
    ({"task": {"name": "mqar"}}, "use lm.causal=True"),
    ({"task": {"name": "mqar"}, "lm": {}}, r"Mqar has no sample"),
    ({"task": {"name": "reverse_string", "from": 1}}, "has no field 'from'"),
    ({"eval": {"metrics": ("same_targets",)}}, "no metric of samples that are drawn"),
    ({"task": "text"}, "Text has each token predicted .* use lm.causal=True"),
    ({"pe": "forget_gate"}, "causal"),
    ({"eval": {"metrics": ("above_bayes",)}}, "needs a task with `bayes`"),
    ({"eval": {"metrics": ("last_bits",), "last": 9}}, "eval.last must be at most"),
    ({"eval": {"memory": (8,)}}, "segment memories are for text"),
    ({"eval": {"source": "stdlib"}}, "ReverseString draws its samples"),
    ({"pe": "abacus+learned"}, "causal"),
    (
        {"pe": "abacus+learned", "task": "addition", "lm": {}},
        "learned serves the positions 0 .. 26, and abacus hands on positions to 109 or more",
    ),
    ({"pe": "position_coupling(max_position=99)+learned", "lm": {}}, "positions to 99 or more"),
    ({"pe": "shape+learned"}, "positions to 143 or more"),
    ({"pe": "shape+streaming", "lm": {}}, "streaming takes positions for places .* shape moves"),
    ({"pe": "shape+rope", "lm": {}, "eval": {"swaps": ("streaming",)}}, "and SHAPE moves them"),
    ({"pe": "randomized+learned"}, "positions to 511 or more: give learned room for them"),
]


def test_what_does_not_fit_is_refused_in_one_line(subtests):
    for changed, said in REFUSED:
        with subtests.test(changed=changed):
            with pytest.raises(ValueError, match=said) as error:
                Run.of(CONFIG | changed)
            assert "\n" not in str(error.value)


def test_an_encoding_with_too_few_positions_has_no_value_and_says_why(tmp_path):
    few = config(train={"steps": 3}, eval={"lengths": (8, 12)}, run={"seeds": (0,)})
    found = execute(Run.of(few | {"pe": "learned"}), tmp_path)
    beyond = [row for row in found.rows if row.length > 8]
    assert beyond and all(row.value is None and "16 positions" in row.why for row in beyond)
    assert all(row.value is not None for row in found.rows if row.length <= 8)


def test_a_model_that_is_not_causal_cannot_predict_every_token():
    with pytest.raises(ValueError, match="train.loss=all has each token predict the next"):
        Run.of(config(train={"loss": "all"}))


def test_ids_tell_tasks_curricula_and_a_users_file(tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "import dataclasses\nfrom pe_jax.tasks.reverse_string import ReverseString\n"
        "@dataclasses.dataclass(frozen=True)\nclass Mine(ReverseString):\n    pass\n"
    )
    mine = f"{own}:Mine"
    ids = {Run.of(CONFIG | {"task": task}).id for task in ("reverse_string", "reverse", mine)}
    ids.add(Run.of(config(train={"curriculum": "fixed"})).id)
    ids.add(Run.of(config(train={"loss": "all"}, lm={"causal": True})).id)
    ids.add(Run.of(config(lm={"causal": True})).id)
    own.write_text(own.read_text() + "# another\n")
    ids.add(Run.of(CONFIG | {"task": mine}).id)
    assert len(ids) == 7
    again = json.loads(json.dumps(Run.of(CONFIG | {"task": mine}).config))
    assert Run.of(again).id in ids


LIES = """
import dataclasses
from pe_jax.task import Task
from pe_jax.tasks.reverse_string import ReverseString

@dataclasses.dataclass(frozen=True)
class Late(ReverseString):
    def _answer(self, input):  # right up to the lengths of training
        return super()._answer(input)[: len(input)] if len(input) <= 8 else [0] * len(input)

@dataclasses.dataclass(frozen=True)
class Shifted(ReverseString):
    by: int = 0

    def _answer(self, input):  # of which the samples know nothing
        return super()._answer(input)[self.by :] + [0] * self.by

@dataclasses.dataclass(frozen=True)
class Blind(ReverseString):  # a label beyond its vocabulary, and no oracle
    oracle = Task.oracle

    def vocab(self):
        return super().vocab() - 1

@dataclasses.dataclass(frozen=True)
class Wordless(ReverseString):
    def vocab(self):
        return [][0]

@dataclasses.dataclass(frozen=True)
class Short(ReverseString):
    def has(self, n):
        return n <= 24

    def _draw(self, key, n, longest):
        assert longest <= 24
        return super()._draw(key, n, longest)
"""


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("Blind", {}, ": .*ids beyond its vocabulary"),
        ("Wordless", {}, "'s vocab: IndexError: list index out of range"),
        ("Late", {}, ": .*length 12 has the targets .* oracle says"),
        ("Shifted", {"eval": {"variants": ("by=1",)}}, ", by=1: .* oracle says"),
    ],
)
def test_a_users_task_is_held_against_its_oracle_before_it_trains(tmp_path, name, changed, said):
    path = tmp_path / "lies.py"
    path.write_text(LIES)
    with pytest.raises(ValueError, match=f"^{path}:{name}{said}"):
        Run.of(config(**changed) | {"task": f"{path}:{name}"})


def test_a_users_form_of_reading_text_has_no_samples_to_check(tmp_path):
    (tmp_path / "own.py").write_text(
        "import dataclasses\nfrom pe_jax.tasks.text import Text\n"
        "@dataclasses.dataclass(frozen=True)\nclass Mine(Text):\n    pass\n"
    )
    assert Run.of({"pe": "rope", "task": f"{tmp_path / 'own.py'}:Mine"}).task.reads_text


def test_samples_of_a_users_task_are_padded_to_a_length_that_it_has(tmp_path):
    (tmp_path / "lies.py").write_text(LIES)
    made = config(eval={"lengths": (8, 20)})
    task = Run.of(made | {"task": f"{tmp_path / 'lies.py'}:Short"}).task
    assert (passes.padded(task, 7), passes.padded(task, 20)) == (16, 20)
    sort = Run.of({"pe": "rope", "task": {"name": "sort", "scratchpad": True}}).task
    assert passes.padded(sort, 33) == 33  # 793 tokens, at 64 they are 2,529
