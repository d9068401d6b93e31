"""The swap that a model should get, and its numbers."""

import dataclasses
import io

import numpy as np
import pytest
import rich.console
from scipy import stats as scipy_stats

from pe_jax.encoding import Dims
from pe_jax.pretrained.export import with_scaling
from pe_jax.pretrained.recommend import recommend
from pe_jax.pretrained.recommend import sheet as printed
from pe_jax.pretrained.served import fixed, programs
from pe_jax.record import CorpusRecord, Replica, Result, Row, Training, Way
from pe_jax.report import sheet, stats
from pe_jax.specs.parse import parse
from pe_jax.specs.swap import swap as swapped

DIMS = Dims(model=32, heads=4, head=8, layers=2, train_len=64)
LENGTHS, PLACES = (16, 64, 128), 8
NOISE = np.random.default_rng(0).normal(size=(6, PLACES))
NOISE -= NOISE.mean(axis=1, keepdims=True)
WORSE = {"": 0.5, "yarn": 0.0, "pi": 0.004, "rerope": 0.001, "window": 0.2}
"""Bits at 128 above those of yarn; pi scatters little, rerope much."""
SCATTER = {"": 0.05, "yarn": 0.0, "pi": 0.002, "rerope": 0.05, "window": 0.02}


def result(metrics=("same_targets", "kl", "niah_single_1_exact"), reference=64, gain=0.2):
    rows = []
    for i, swap in enumerate(WORSE):
        for length in LENGTHS:
            for place in range(PLACES):
                text = 1.2 + 0.1 * NOISE[5, place] + (gain if length == 16 else 0)
                if length == 128:
                    text += WORSE[swap] + SCATTER[swap] * NOISE[i, place]
                values = {"same_targets": text, "kl": (length == 128) * (WORSE[swap] + 0.01)}
                right = {"yarn": 80, "pi": 90, "rerope": 100}.get(swap, 0) if length == 128 else 90
                values["changed"] = (length == 128) * 100 * min(1.0, WORSE[swap] + 0.1)
                values["niah_single_1_exact"] = right if place else 100
                broken = (not swap and length == 128) * (8 + 2 * NOISE[i, place])
                values["longppl"] = np.exp(0.5 + 0.1 * NOISE[5, place] + broken)
                for metric in metrics:
                    kind = "sample" if metric.startswith("niah") else "place"
                    where = {"replica": Replica(kind, place), "way": Way(swap=swap)}
                    taken = {"seconds": 2.0 + i, "length": length, "metric": metric}
                    rows.append(Row(value=float(values[metric]), **where, **taken))
    config = {"eval": {"metrics": metrics, "lengths": LENGTHS, "reference": reference}}
    config |= {"train": {"init_from": "hf:my models"}}
    return Result(
        id="small-1",
        label="small",
        config=config,
        seeds=(0,),
        corpus=CorpusRecord(source="files:b", hash=""),
        rows=tuple(rows),
        train=Training(length=64, steps=0),
    )


@pytest.fixture
def found():
    return recommend(result(), parse("rope").encodings(DIMS))


def test_swaps_are_sorted_with_paired_differences_and_equivalence(found):
    assert [c.name for c in found.choices] == ["yarn", "rerope", "pi", "window", "as it is"]
    assert found.baseline == "yarn"
    by = {c.name: c for c in found.choices}
    difference = WORSE["pi"] + SCATTER["pi"] * NOISE[[*WORSE].index("pi")]
    error = difference.std(ddof=1) / np.sqrt(PLACES)
    assert by["pi"].difference.change.mean == pytest.approx(0.004)
    assert by["pi"].difference.change.half == pytest.approx(
        scipy_stats.t.ppf(0.975, PLACES - 1) * error
    )
    high = 0.004 + scipy_stats.t.ppf(1 - 0.05 / 4, PLACES - 1) * error  # the least p of four
    for margin, equal in ((high + 1e-6, True), (high - 1e-6, False)):
        again = recommend(result(), parse("rope").encodings(DIMS), margin)
        assert {c.name: c.difference.equivalent for c in again.choices}["pi"] is equal
    assert [c.name for c in found.choices if c.difference.p <= 0.05] == ["pi", "window", "as it is"]
    assert not by["rerope"].difference.equivalent  # it scatters too much, however near its mean is
    assert [c.name for c in found.choices if c.scores[0].best] == ["yarn", "rerope"]
    assert not any(row[1].bold for row in printed(found).rows)  # 2 of 5 are more than a third


def test_the_choice_is_not_distinguishable_from_the_best_and_needs_no_code(found):
    best = {c.name: [cell.best for cell in c.scores] for c in found.choices}
    assert best["yarn"] == [True, True, False] and best["rerope"] == [True, False, True]
    assert found.chosen.name == "yarn"
    assert {c.name for c in found.choices if c.scaling is None} == {"rerope", "window"}
    text = sheet.markdown([printed(found)])
    assert "Choose yarn. Better by niah single 1 exact: rerope." in text
    assert '"factor": 2.0' in text and '"rope_type": "yarn"' in text
    assert "pe-jax export '--model=hf:my models' --swap=yarn --length=128 --out=DIR" in text


def test_the_answer_stands_above_the_table_with_values_beside_differences(found):
    text = sheet.markdown([printed(found)])
    assert text.index("Choose yarn.") < text.index("| swap")
    row = next(line for line in text.splitlines() if line.startswith("| pi "))
    assert [cell.strip() for cell in row.split("|")[2:4]][0] == "1.204"
    assert "+0.004 ± " in row
    page = io.StringIO()
    rich.console.Console(file=page, width=200).print(*sheet.terminal([printed(found)]))
    lines = page.getvalue().splitlines()
    assert lines[1].startswith("Choose yarn.") and "own code" in page.getvalue()
    assert "Choose yarn." in sheet.latex([printed(found)])


def test_scores_no_better_than_chance_are_named(monkeypatch):
    made = result(("same_targets",))
    guessed = [
        dataclasses.replace(row, metric="records", value=2.4 + 0.01 * NOISE[0, row.replica.number])
        for row in made.rows
    ]
    config = made.config | {"eval": made.config["eval"] | {"metrics": ("same_targets", "records")}}
    for value, said in ((0.0, True), (-1.5, False)):
        rows = [dataclasses.replace(row, value=row.value + value) for row in guessed]
        both = dataclasses.replace(made, rows=(*made.rows, *rows), config=config)
        text = sheet.markdown([printed(recommend(both, parse("rope").encodings(DIMS)))])
        assert ("No row is better than chance by records, 2.3." in text) == said


def test_what_is_chosen_is_the_fixed_factor_that_programs_serve(monkeypatch):
    """Scaled by need yarn costs nothing within 64 tokens; served it costs a hundredth of a bit."""
    served = "yarn(factor=2.0)"
    monkeypatch.setitem(WORSE, served, 0.0)
    monkeypatch.setitem(SCATTER, served, 0.0)
    made = result(("same_targets", "kl", "changed"))
    costs = {"same_targets": 0.01, "kl": 0.02, "changed": 3.0}
    rows = [
        dataclasses.replace(row, value=row.value + costs[row.metric] * (1 + NOISE[0, number]))
        if row.way.swap == served and row.length == 64
        else row
        for row in made.rows
        for number in [row.replica.number]
    ]
    found = recommend(dataclasses.replace(made, rows=tuple(rows)), parse("rope").encodings(DIMS))
    by = {choice.name: choice for choice in found.choices}
    assert by["yarn"].scaling is None and by[served].scaling["rope_scaling"]["factor"] == 2
    assert found.chosen.name == served
    assert [i.mean for i in by[served].within] == pytest.approx([0.01, 0.02, 3.0])
    assert [i.mean for i in by["yarn"].within] == pytest.approx([0, 0, 0])
    text = sheet.markdown([printed(found)])
    assert f"Choose {served}. " in text and "it costs 0.010 ± 0.0" in text
    assert "changes 3.000 ± " in text and "of the first choices" in text


def test_a_choice_is_of_what_the_programs_asked_for_serve(monkeypatch):
    """Without the fixed form yarn is served by none in this form; dynamic NTK by transformers."""
    monkeypatch.setitem(WORSE, "dynamic_ntk", -0.1)
    monkeypatch.setitem(SCATTER, "dynamic_ntk", 0.0)
    made, rope = result(("same_targets",)), parse("rope").encodings(DIMS)
    for serve, scaled in ((("transformers",), True), (("transformers", "vllm"), False)):
        by = {choice.name: choice for choice in recommend(made, rope, serve=serve).choices}
        assert (by["dynamic_ntk"].scaling is not None) == scaled
        assert by["as it is"].scaling and by["yarn"].scaling is None


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("yarn", "yarn(factor=2.0)"),
        ("yarn(mscale=0.0)", "yarn(factor=2.0,mscale=0.0)"),
        ("ntk", "ntk(factor=2.0)"),
        ("yarn(factor=4.0)", None),
        ("dynamic_ntk", None),
        ("rerope", None),
        ("yarn[0]", None),
    ],
)
def test_the_fixed_form_of_a_swap_has_the_factor_of_the_longest_length(spec, wanted):
    rope = parse("rope").encodings(DIMS)
    assert fixed(rope, spec, 128) == wanted
    assert fixed(rope, spec, 64) is None


def test_config_json_scales_a_gemma_3_in_layers_without_a_window():
    gemma = parse("rope[1]+rope(base=100.0)[0]+window(window=9)[0]").encodings(DIMS)
    found = {c.name: c for c in recommend(result(), gemma).choices}
    assert found["yarn"].scaling["rope_scaling"]["rope_type"] == "yarn"
    assert found["rerope"].scaling is None
    assert found["as it is"].scaling == {"max_position_embeddings": 128}


def test_config_json_has_the_names_of_its_family():
    rope = parse("rope").encodings(DIMS)
    phi = {c.name: c for c in recommend(result(), rope, family="phi3").choices}
    assert phi["yarn"].scaling is None  # Phi-3 has longrope alone
    neox = {c.name: c for c in recommend(result(), rope, family="gpt_neox").choices}
    assert neox["yarn"].scaling["rotary_emb_base"] == 10_000


def test_perplexities_are_compared_by_their_logarithms():
    """Perplexities of a model that breaks down scatter too much for any test to be significant."""
    scored = result(("longppl",))
    found = recommend(scored, parse("rope").encodings(DIMS))
    by = {c.name: c for c in found.choices}
    values = [np.log(r.value) for r in scored.rows if not r.way and r.length == LENGTHS[-1]]
    assert by["as it is"].scores[0].mean == pytest.approx(np.mean(values))
    assert by["as it is"].scores[0].half == pytest.approx(stats.interval(values).half)
    assert by["as it is"].difference.change.mean == pytest.approx(8)
    assert by["as it is"].difference.p < 0.001 and not by["as it is"].scores[0].best
    assert "nats per key token" in sheet.markdown([printed(found)])


def test_dynamic_ntk_counts_from_its_own_length_in_config_json(monkeypatch):
    """As in the folder that is exported: dynamic NTK grows beyond max_position_embeddings."""
    spec = "dynamic_ntk(length=32)"
    monkeypatch.setitem(WORSE, spec, -0.1)
    monkeypatch.setitem(SCATTER, spec, 0.0)
    made = recommend(result(("same_targets",)), parse("rope").encodings(DIMS))
    text = sheet.markdown([printed(made)])
    assert '"rope_type": "dynamic"' in text and '"max_position_embeddings": 32' in text


def test_the_export_command_is_printed_for_models_that_can_be_exported(monkeypatch):
    """A GGUF file is exported as a Llama, which a Gemma is not."""
    monkeypatch.setitem(WORSE, "yarn", -0.1)
    llama = {"activation": "silu", "gated": True}
    for kind, lm, can in (("hf", {}, True), ("gguf", llama, True), ("gguf", {}, False)):
        made = result(("same_targets",))
        config = made.config | {"train": {"init_from": f"{kind}:model"}, "lm": lm}
        found = recommend(dataclasses.replace(made, config=config), parse("rope").encodings(DIMS))
        text = sheet.markdown([printed(found)])
        assert '"rope_type": "yarn"' in text and ("pe-jax export" in text) == can


def test_a_model_whose_swaps_are_no_better_stays_as_it_is(monkeypatch):
    monkeypatch.setitem(WORSE, "", 0.0005)
    alone = recommend(result(("same_targets",)), parse("rope").encodings(DIMS))
    assert alone.chosen.name == "as it is"
    text = sheet.markdown([printed(alone)])
    assert "Keep the model as it is." in text and "export" not in text


def test_where_the_best_needs_own_code_the_best_that_config_json_says_is_named(monkeypatch):
    monkeypatch.setitem(WORSE, "rerope", -0.1)
    monkeypatch.setitem(SCATTER, "rerope", 0.0)
    made = recommend(result(), parse("rope").encodings(DIMS))
    assert made.chosen.name == "rerope"
    text = sheet.markdown([printed(made)])
    assert "rerope needs own code. The best without is yarn." in text
    assert '"rope_type": "yarn"' in text and "--swap=yarn --length=128" in text


def test_right_and_wrong_answers_have_mcnemars_test():
    """As it is the model is right at the first place alone, with rerope and pi at all."""
    asked = result(("niah_single_1_exact",), reference=128)
    rows = [dataclasses.replace(row, value=100.0 * (row.value >= 90)) for row in asked.rows]
    made = recommend(dataclasses.replace(asked, rows=tuple(rows)), parse("rope").encodings(DIMS))
    by = {choice.name: choice.difference.p for choice in made.choices}
    assert made.baseline == "as it is"
    assert by["rerope"] == by["pi"] == pytest.approx(4 * 2 * 0.5 ** (PLACES - 1))


def test_as_if_trained_at_fewer_tokens_the_unchanged_model_is_the_truth():
    found = recommend(result(reference=128), parse("rope").encodings(DIMS))
    assert found.baseline == "as it is"
    assert "as it is" not in [c.name for c in found.ranked]
    assert found.chosen.way
    lacking = [row for row in result().rows if row.length != 128]
    none = dataclasses.replace(result(), rows=tuple(lacking))
    assert recommend(none, parse("rope").encodings(DIMS)).chosen is None


def test_llama_cpp_rounds_the_ends_of_the_ramp():
    rope = parse("rope").encodings(DIMS)
    for spec, serves in (("yarn(factor=2.0)", True), ("yarn(factor=2.0,truncate=False)", False)):
        made = swapped(rope, spec)
        scaling = with_scaling({"model_type": "llama"}, made, 128, rope)
        assert ("llama.cpp" in programs(made, scaling, 128)) == serves


def test_a_swap_without_a_score_at_the_longest_length_has_none():
    made = result(("same_targets",))
    rows = tuple(
        dataclasses.replace(row, value=None)
        if (row.way.swap, row.length) == ("rerope", 128)
        else row
        for row in made.rows
    )
    found = recommend(dataclasses.replace(made, rows=rows), parse("rope").encodings(DIMS))
    text = sheet.markdown([printed(found)])
    assert "| rerope " in text and "nan" not in text
