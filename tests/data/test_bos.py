"""A token that a tokenizer puts before every text stands before all that a model reads."""

import dataclasses
import json

import numpy as np
import pytest
import tokenizers
from commands import run_of
from tokenizers import processors

from pe_jax.data.batches import Batches, Segments
from pe_jax.data.tokenizer import BYTES, named, of_bytes
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.longppl import Short
from pe_jax.evaluation.windows import windows
from pe_jax.metric import Request

BOS = 256
TEXT = np.tile(np.frombuffer(b"The quick brown fox jumps over the lazy dog. ", np.uint8), 90)


def of_template(tmp_path, single):
    model = tokenizers.Tokenizer.from_str(of_bytes())
    model.add_special_tokens(["<s>", "</s>"])
    model.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", BOS), ("</s>", 257), ("<t>", 999)]
    )
    model.save(str(tmp_path / "tokenizer.json"))
    return named(f"file:{tmp_path / 'tokenizer.json'}")


@pytest.fixture
def tokenizer(tmp_path):
    return of_template(tmp_path, "<s> $A </s>")


def cut(metric, length, tokenizer):
    config = EvalConfig((128, 256), (metric,), (), targets=64, last=32, samples=2, reference=128)
    (tokens,) = tokenizer.encode([TEXT])
    return windows([tokens], metric, length, config.resolved(128), tokenizer)


@pytest.mark.parametrize(
    ("single", "said"),
    [("<s> </s> $A", r"puts the tokens \[256, 257\] before"), ("<t> $A", r"the tokens \[999\]")],
)
def test_more_than_one_or_one_that_is_not_its_own_is_refused(tmp_path, single, said):
    with pytest.raises(ValueError, match=said):
        of_template(tmp_path, single)


def test_a_run_that_reads_it_is_another_run(tmp_path, tokenizer):
    with_it = run_of(**{"data.tokenizer": tokenizer.spec})
    text = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(text | {"post_processor": None}))
    assert run_of(**{"data.tokenizer": tokenizer.spec}).id != with_it.id


def test_it_is_what_the_template_begins_with(tmp_path, tokenizer):
    assert tokenizer.bos == BOS and BYTES.bos is None
    assert of_template(tmp_path, "$A </s>").bos is None
    (tokens,) = tokenizer.encode([TEXT])
    assert tokenizer.framed(tokens)[:2].tolist() == [BOS, tokens[0]]
    assert BYTES.framed(tokens).tolist() == tokens.tolist()
    (twice,) = tokenizer.encode([np.frombuffer(b"<s>a", np.uint8)])
    assert tokenizer.framed(twice).tolist() == [BOS, ord("a")]
    assert BOS not in tokens and tokenizer.decode(tokens) == TEXT.tobytes()


@pytest.mark.parametrize("metric", ["same_targets", "nonoverlapping", "longppl"])
def test_it_takes_the_place_of_the_first_token_of_a_window(tokenizer, metric):
    with_it, without = cut(metric, 256, tokenizer), cut(metric, 256, BYTES)
    assert (with_it.tokens[:, 0] == BOS).all()
    np.testing.assert_array_equal(with_it.tokens[:, 1:], without.tokens[:, 1:])
    np.testing.assert_array_equal(with_it.scored, without.scored)
    np.testing.assert_array_equal(with_it.sizes, without.sizes)


def test_it_begins_the_short_contexts_of_key_tokens(tokenizer):
    short = Short.of(128)
    pieces, usual = (short.windows(cut("longppl", 128, t)) for t in (tokenizer, BYTES))
    assert (pieces.tokens[:, 0] == BOS).all() and short.tokens == 32
    np.testing.assert_array_equal(pieces.tokens[:, 1:], usual.tokens[:, 1:])


@pytest.mark.parametrize("metric", ["passkey", "niah_single_1"])
def test_it_stands_before_a_prompt_that_is_shorter_by_it(tokenizer, metric):
    length = 512 if metric == "passkey" else 1024
    config = EvalConfig((length,), (metric,), (), samples=3).resolved(length)
    with_it, shorter = (
        windows([TEXT], metric, n, dataclasses.replace(config, lengths=(n,)), t)
        for n, t in ((length, tokenizer), (length - 1, BYTES))
    )
    assert (with_it.tokens[:, 0] == BOS).all()
    np.testing.assert_array_equal(with_it.tokens[:, 1:], shorter.tokens)
    np.testing.assert_array_equal(with_it.scored[:, 1:], shorter.scored)


def test_a_prompt_without_room_is_told_the_length_that_was_asked_for(tokenizer):
    for n, before in ((100, 1), (101, 0)):
        request = Request(tokenizer, n, 0, before=before)
        with pytest.raises(ValueError, match=f"got the length {n}: .* at least {150 + before}"):
            raise request.short("this", 151)


def test_training_reads_it_before_every_window_and_every_piece_of_a_memory():
    documents = [np.arange(100, dtype=np.int32), np.arange(100, 300, dtype=np.int32)]
    of_windows, usual = (Batches(documents, 8, 6, 1, bos)[3] for bos in (999, None))
    assert (of_windows[:, 0] == 999).all()
    np.testing.assert_array_equal(of_windows[:, 1:], usual[:, 1:])
    (tokens, fresh), (before, _) = (Segments(documents, 8, 6, 1, 4, bos)[0] for bos in (999, None))
    assert fresh.any() and not fresh.all()
    np.testing.assert_array_equal(tokens[:, 0] == 999, fresh)
    np.testing.assert_array_equal(tokens[:, 1:], before[:, 1:])
