"""What may be ranked: results that differ in text, training, protocol or size share no table."""

from dataclasses import replace

import pytest
from drawn import drawn as of_task
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import facts_of, make_record, tables_of, write

from pe_jax.record import CorpusRecord, Vocabulary
from pe_jax.report import groups, labels, sheet, sheets, style
from pe_jax.report.page import Report
from pe_jax.report.selection import Selection

OF_EVALUATION = ("split", "targets", "last", "reference")
BPE = Vocabulary(spec="bpe:512", vocabulary=512, sha256="ab" * 32)
RANKED = {
    "corpus": ["a" * 64, "b" * 64],
    "scored": [None, "a" * 64, "c" * 64],
    "tokenizer": [Vocabulary(), BPE, replace(BPE, sha256="cd" * 32)],
    "length": [64, 128],
    "steps": [350, 700],
    "batch": [8, 32],
    "split": [None, "test", "valid"],
    "targets": [1024, 4096],
    "last": [None, 32, 64],
    "longest": [1024, 2048],
    "reference": [None, 64, 512],
    "layers": [2, 4],
    "model": [64, 96],
    "heads": [None, 4],
}
FREE = {
    "rate": [1e-3, 3e-3],
    "memory": [0, 48],
    "attention": ["auto", "dense"],
    "seeds": [(0, 1, 2), (0, 1), (5, 6, 7)],
}


def drawn(label, fields):
    """A result with these fields; what is None is not in its config, as in old records."""

    def section(**values):
        return {name: value for name, value in values.items() if value is not None}

    f = fields
    lengths = [64, 128, 256, 512, 1024, f["longest"]]
    config = {
        "pe": {"spec": label},
        "train": section(batch=f["batch"], rate=f["rate"], steps=f["steps"]),
        "eval": section(lengths=lengths, **{n: f[n] for n in OF_EVALUATION}),
        "lm": section(
            layers=f["layers"],
            model=f["model"],
            heads=f["heads"],
            memory=f["memory"],
            attention=f["attention"],
        ),
    }
    result = make_record(label, [2.5, 2.6, 2.7, 2.8, 2.9], window=False, seeds=f["seeds"])
    return replace(
        result,
        config=config,
        corpus=CorpusRecord(source="text", hash=f["corpus"]),
        scored=f["scored"] and CorpusRecord(source="other", hash=f["scored"]),
        tokenizer=f["tokenizer"],
        train=replace(result.train, length=f["length"], steps=f["steps"]),
    )


def meaning(f):
    """What the fields of RANKED mean, defaults filled in."""
    scored = f["scored"] if f["scored"] != f["corpus"] else None
    half = f["length"] // 2
    filled = {"last": f["last"] or half, "scored": scored, "reference": f["reference"] or 2 * half}
    return {name: f[name] for name in RANKED} | filled | {"split": f["split"] or "test"}


FIELDS = st.fixed_dictionaries(
    {name: st.sampled_from(values) for name, values in (RANKED | FREE).items()}
)
settings.register_profile("same", derandomize=True, database=None, deadline=None, max_examples=60)
settings.load_profile("same")


@pytest.mark.parametrize("name", [*RANKED, *FREE])
@settings(max_examples=8)
@given(FIELDS, st.data())
def test_one_change_splits_the_table_if_and_only_if_it_is_of_the_list(name, fields, data):
    others = [value for value in (RANKED | FREE)[name] if value != fields[name]]
    pair = fields, fields | {name: data.draw(st.sampled_from(others))}
    assert_shared(pair, meaning(pair[0]) == meaning(pair[1]))


def assert_shared(pair, shares):
    """That two results of these fields are in one table, or in one each that says why."""
    found = tables_of([drawn("rope", pair[0]), drawn("t5", pair[1])], "same_targets")
    models = sorted(sum(row.trained for row in table.rows) for table in found)
    assert models == ([2] if shares else [1, 1])
    assert len({table.title for table in found}) == len(found)
    alone = "validation text" if pair[0]["split"] == "valid" else ""
    assert all(table.heading == alone if shares else table.heading for table in found)


@given(st.lists(FIELDS, min_size=2, max_size=5))
def test_groups_are_a_partition_by_what_the_fields_mean(several):
    results = [drawn(f"e{i}", fields) for i, fields in enumerate(several)]
    meant = {
        r.id: tuple(map(str, meaning(f).values())) for r, f in zip(results, several, strict=True)
    }
    found = groups.comparable(results)
    assert sorted(r.id for group in found for r in group.runs) == sorted(meant)
    assert all(len({meant[r.id] for r in group.runs}) == 1 for group in found)
    assert len(found) == len(set(meant.values()))
    assert len(set(labels.names(results).values())) == len(results)
    reversed_ = groups.comparable(results[::-1])
    assert [group.apart for group in reversed_] == [group.apart for group in found]


def test_a_field_of_the_model_that_is_off_is_as_one_that_an_older_record_lacks():
    older, newer = changed("rope"), changed("t5")
    off = newer.config["lm"] | {"gated": False, "kv_heads": None, "biases": ""}
    newer = replace(newer, config=newer.config | {"lm": off})
    assert len(tables_of([older, newer], "same_targets")) == 1
    on = replace(newer, config=newer.config | {"lm": off | {"gated": True}})
    assert len(tables_of([older, on], "same_targets")) == 2


def changed(label, **parts):
    base = {name: values[0] for name, values in (RANKED | FREE).items()}
    return drawn(label, base | parts)


def test_a_heading_says_in_words_what_differs():
    for parts, words in (
        ({"length": 128, "steps": 700}, "trained at 128 tokens, 700 steps"),
        ({"corpus": "b" * 64}, "text text (SHA-256 bbbbbbbbbbbb)"),
        ({"scored": "c" * 64}, "scored on other (SHA-256 cccccccccccc)"),
        ({"split": "valid"}, "validation text"),
        ({"tokenizer": BPE}, "tokenizer bpe:512 (SHA-256 abababababab)"),
        ({"longest": 2048}, "evaluated at up to 2048 tokens"),
        ({"last": 16}, "the last 16 tokens of a window scored"),
        ({"layers": 4, "model": 96}, "4 layers, width 96"),
        ({"layers": 1}, "1 layer"),
        ({"targets": 4096}, "4,096 targets"),
    ):
        both = [changed("rope"), changed("t5", **parts)]
        headings = [table.heading for table in tables_of(both, "same_targets")]
        assert words in headings and len(headings) == 2
    other = tables_of([changed("rope"), changed("t5", last=16)], "same_targets")
    assert "the last L/2 tokens of a window scored" in [table.heading for table in other]


def test_shorter_training_comes_first_whatever_the_order_of_the_results():
    results = [changed("rope", steps=n) for n in (1400, 350, 700)]
    results = [replace(r, id=f"rope-{i:08d}") for i, r in enumerate(results)]
    wanted = ["350 steps", "700 steps", "1,400 steps"]
    assert [table.heading for table in tables_of(results, "same_targets")] == wanted
    assert set(labels.names(results).values()) == {f"rope, {steps}" for steps in wanted}


def test_formats_tell_the_tables_of_a_metric_apart():
    found = tables_of([changed("rope"), changed("t5", steps=700)], "same_targets")
    assert "### Bits per byte, same targets (lower is better): 350 steps\n" in (
        sheet.markdown(sheets.extrapolation(found))
    )
    text = sheet.latex(sheets.extrapolation(found))
    assert r"\label{tab:same_targets}" in text and r"\label{tab:same_targets-2}" in text
    lines = sheet.csv(sheets.extrapolation(found)).splitlines()
    assert lines[0].startswith("metric,train.steps,encoding,")
    assert [line.split(",")[1] for line in lines[1:]] == ["350", "350", "700", "700"]


def test_each_table_of_the_first_metric_has_figures_of_its_own_models(tmp_path, unsaved):
    labels = (("rope", 350), ("t5", 350), ("rope", 700), ("alibi", 700))
    results = [replace(changed(n, steps=steps), id=f"{n}-{steps}") for n, steps in labels]
    written = {path.name for path in write(results, tmp_path / "study", baseline="t5")}
    kinds = ("curves", "positions")
    assert {f"{kind}{end}.png" for kind in kinds for end in ("", "-2")} <= written
    found = [one for _, one in Report.of(results, baseline="t5").figures]
    assert [one.name for one in found] == [f"{kind}{end}" for end in ("", "-2") for kind in kinds]
    assert [one.caption.endswith(" 700 steps.") for one in found] == [False] * 2 + [True] * 2
    drawn = [{name for name, _ in style.hits(one.figure)} for one in found]
    first, second = {"rope", "t5"}, {"rope", "alibi"}
    assert drawn == [first, first, second, second]
    assert "minus those of t5" in found[1].caption and "minus those of alibi" in found[3].caption
    html = (tmp_path / "study" / "report.html").read_text("utf-8")
    places = [html.index(text) for text in (": 350 steps</h2>", "350 steps.</figcaption>")]
    places += [html.index(text) for text in (": 700 steps</h2>", "700 steps.</figcaption>")]
    assert places == sorted(places)


def test_rows_are_chosen_by_what_their_tables_call_them():
    rates = [(350, 1e-3), (350, 3e-3), (700, 1e-3)]
    results = [
        replace(changed("rope", steps=steps, rate=rate), id=f"rope-{steps}-{rate}")
        for steps, rate in rates
    ]
    with pytest.raises(ValueError, match="no model is called 'rop'.*Known: .*rope, rate 0.003"):
        Selection.of(["rop"]).study(results)
    for rows, shown in (
        (["rope"], results),
        (["rope, rate 0.003"], results[1:2]),
        (["rope, rate 0.001, 700 steps"], results[2:]),
        (["rope, rate 0.001, 700 steps", "rope"], [results[2], *results[:2]]),
    ):
        choice = Selection.of(rows)
        study = choice.study(results)
        assert [*study.runs.values()] == shown
    ordered = choice.tables(tables_of(results, "same_targets"), study)
    assert [row.run for table in ordered for row in table.rows if row.trained] == [
        r.id for r in results
    ]


def test_another_text_than_that_of_training_is_named():
    assert "other, is not the text of training" in facts_of([changed("t5", scored="c" * 64)])


def test_models_of_a_loss_of_all_tokens_are_ranked_apart():
    """A record that says nothing of the loss had one of the scored tokens."""
    rope, alibi, t5 = (of_task("dyck", spec, 1) for spec in ("rope", "alibi", "t5"))
    trained = {loss: rope.config["train"] | {"loss": loss} for loss in ("scored", "all")}
    alibi = replace(alibi, config=alibi.config | {"train": trained["scored"]})
    t5 = replace(t5, config=t5.config | {"train": trained["all"]})
    of_all, of_scored = tables_of([rope, alibi, t5], "accuracy")
    assert of_all.heading == "a loss of all tokens"
    assert of_scored.heading == "a loss of scored tokens"
    assert {row.label for row in of_scored.rows if row.trained} == {"rope", "alibi"}
