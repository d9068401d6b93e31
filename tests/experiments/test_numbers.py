"""Marked numbers of prose, of two studies whose scores are given."""

import re
from dataclasses import replace

import pytest
from scored import scored
from studies import save_runs

from experiments.docs import numbers
from pe_jax.record import Baseline, Way


@pytest.fixture(autouse=True)
def studies(tmp_path, monkeypatch):
    """`a` has two models trained at 64 tokens and one at 128, `b` two of another width."""

    def model(label, values, width=32, **options):
        config = {"task": {"name": "text"}, "lm": {"model": width}, "train": {"rate": 0.003}}
        return scored(label, values, config=config, **options)

    rope = [{64: 2.0, 128: 3.0}, {64: 2.1, 128: 3.3}, {64: 2.3, 128: 3.2}]
    alibi = [{64: 2.4, 128: 2.5}, {64: 2.4, 128: 2.4}, {64: 2.4, 128: 2.3}]
    yarn = scored("rope", [{128: 2.6}] * 3, way=Way(swap="yarn")).rows
    a = [
        model("rope", rope, more=yarn),
        model("alibi", alibi),
        model("alibi", [{128: 2.2}, {128: 2.3}, {128: 2.3}], length=128),
    ]
    b = [
        model("rope", [{64: 3, 128: 3}], 16),
        model("alibi", [{64: 2, 128: 4}], 16),
        model("t5", [{64: 2.5, 128: 2}], 16),
        model("nope", [{64: 1, 128: 1}], 16),
    ]
    a.append(model("t5", [{64: 2.0, 128: 2.0, 256: 9.0}] * 3))
    best = [
        Baseline(name="bayes", metric="same_targets", length=length, value=value)
        for length, value in ((64, 2.36), (128, 1.72))
    ]
    valid = replace(a[0].train, valid=(2.5, 2.6, None))
    a[0] = replace(a[0], baselines=tuple(best), train=valid)
    for name, records in (("a", a), ("b", b)):
        save_runs(tmp_path / "results" / name, records)
    published = tmp_path / "results/reference/paper.csv"
    published.parent.mkdir()
    published.write_text(
        "task,spec,at,swap,variant,value,better,unit,source,status,setting\n"
        "text,rope,2x,,,9,lower,perplexity,a paper,read,large\n"
        "text,alibi,2x,,,8,lower,perplexity,a paper,read,large\n"
        "text,rope,2.5x,yarn,,1.5,lower,perplexity,a paper,read,large\n"
        "copy(variant='rsc'),alibi,2x,,,70,higher,accuracy,a paper,read,large\n"
    )
    monkeypatch.setattr(numbers, "ROOT", tmp_path)
    numbers.study.cache_clear()
    numbers._tables.cache_clear()


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("a:64 rope same_targets 64", "2.13"),
        ("a:64 rope same_targets 64", "2.1 ± 0.379"),
        ("a:64 rope, yarn same_targets 128", "2.6"),
        ("a:64 rope same_targets 128 less 64", "+1.03 ± 0.38"),
        ("a:64 rope same_targets 64 less 128 nats", "−0.72"),
        ("a:64 rope same_targets 128 less 64 each", "1.0, 1.2, 0.9"),
        ("a:64 rope same_targets 128 less alibi 64", "0.767"),
        ("a:64 rope same_targets 128 less rope, yarn 128", "0.567"),
        ("a:128 alibi same_targets 128 less results/a:64 rope 64", "+0.13"),
        ("a:64 rope same_targets 128 less 64, less alibi 128 less 64", "1.03"),
        ("a:128 alibi same_targets 128 less 2.0, less results/a:64 rope 64 less 2.0", "0.13"),
        ("a:64 rope same_targets 64 less 1.5 nats sd", "−0.20"),
        ("a:64 rope same_targets 128 less 64 p", "0.0072"),
        ("a:64 rope same_targets 128 less 64 tells", "0.499"),
        ("a:64,width=32 rope same_targets 64", "2.13"),
        ("b:steps=350 rope same_targets 64", "3"),
        ("a:64 rope same_targets 64 less 128 nats each", "−0.7,\n−0.8, −0.6"),
        ("a:text t5 same_targets 128", "2"),
        ("a:text t5 same_targets beyond", "5.5"),
        ("a:64 no model: Bayes same_targets 64", "2.36"),
        ("a:64 no model: Bayes same_targets 64 less rope 64 each", "0.4, 0.3, 0.1"),
        ("a:rate=0.003 rope validation 64", "2.55"),
        ("a:64 results/b rho 64", "−0.5"),
        ("a:64 paper rho 2x", "+1.00"),
        ("reference/paper rope published 2x", "9"),
        ("reference/paper:copy(variant='rsc') alibi published 2x", "70"),
        ("reference/paper rope published 2x less rope, yarn 2.5x", "7.50"),
        ("a:64 rope same_targets 64 less results/reference/paper rope, yarn 2.5x nats", "−0.0"),
    ],
)
def test_a_number_is_computed_anew_with_the_decimals_and_the_sign_that_it_has(place, number):
    text, old = "It has <!-- results/{} -->{} bits, 1.23 elsewhere.", re.sub("[1-9]", "0", number)
    new = numbers.written(text.format(place, old.replace("−", "")))
    assert new == text.format(place, number)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("a:64 rope gain", "cannot be read: <!-- results/a:64 rope gain -->1.23"),
        ("a:64 rope same_targets 96", "rope has no same_targets at 96"),
        ("a:64 paper rho 4x", "paper has no column at 4x"),
        ("a:64 paper rho 2x nats", "rho is one number, without"),
        ("reference/paper alibi published 2x", "paper.csv has 2 numbers of 'alibi' at 2x"),
        ("a:64 rope same_targets 64 each", "there are 3 numbers"),
        ("a:64 rope same_targets 64 less p", "'p' is no value"),
        ("b rope same_targets 64 less 2.0 sd", "at least two data points"),
        ("a:64 no model: Bayes same_targets 256", "there is no such number"),
        ("a:64,width=16 rope same_targets 64", "results/a has no part '64,width=16'"),
    ],
)
def test_a_mark_without_a_number_is_an_error(place, said):
    with pytest.raises(ValueError, match=said):
        numbers.written(f"It has <!-- results/{place} -->1.23 bits.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("of <!-- results/b rope same_targets 64 -->3.00 ± 0.10 bits", "there is no such number"),
        ("of <!-- results/b rope same_targets 64 -->1,024.5 bits", "cannot be read"),
        ("of\n  <!-- results/b rope same_targets 64 -->3.00 bits", "begin a line"),
    ],
)
def test_text_in_which_a_mark_would_be_lost_is_an_error(text, said):
    with pytest.raises(ValueError, match=said):
        numbers.written(text)
