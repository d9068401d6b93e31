"""Tokenizers: nothing is lost, bytes are counted exactly, and what could break it is refused."""

import json
import math
import shutil
import sys
import unicodedata
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from commands import Lab, result, rewrite, run_of, the_run, tiny
from evaluated import ends, evaluated, stacked
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

from pe_jax import record
from pe_jax.data import tokenizer
from pe_jax.data.corpus import SPLITS, Document, Source, read
from pe_jax.data.load import load
from pe_jax.data.tokenizer import BYTES, kept, tokenize, vocabulary
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.windows import windows
from pe_jax.metric import TextMetric
from pe_jax.metrics import METRICS
from pe_jax.model.config import LmConfig
from pe_jax.runs.trained import Trained
from pe_jax.specs.parse import make
from pe_jax.storage import records
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, structure

PROSE = (
    "def f(x):\n\treturn  x\r\n\n"
    "The cat’s hat, naïve café: “déjà vu”. "
    "位置编码决定了模型能否外推到更长的序列。语言模型 "
    "👩‍👩‍👧 🏳️‍🌈 👍🏽 "
    "e\u0301a\u0308o\u0328\u0301 한국어 עברית हिन्दी "
)
SIZE = 320

OF_TEXT = tuple(name for name, m in METRICS.items() if isinstance(m, TextMetric) and not m.masks)


def document(text):
    return np.frombuffer(text.encode(), np.uint8)


def corpus(*texts):
    """A corpus whose splits all hold the texts."""
    documents = [Document(str(i), text.encode()) for i, text in enumerate(texts)]
    return read(Source("made", dict.fromkeys(SPLITS, documents), ("no split", "no split")))


def varied(words=1500, seed=0):
    """The words of PROSE in some order, with other spaces between them."""
    rng = np.random.default_rng(seed)
    known = PROSE.split(" ")
    gaps = rng.choice([" ", "  ", "\n", ""], words)
    return "".join(w + g for w, g in zip(rng.choice(known, words), gaps, strict=True))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def trained(cache):
    """A small BPE, trained on text of many scripts."""
    return tokenize(corpus(varied()), f"bpe:{SIZE}").tokenizer


def any_text(seed, size=300):
    """Characters of any plane, few of which were seen in training, between seen words."""
    rng = np.random.default_rng(seed)
    points = rng.integers(0, sys.maxunicode + 1, size)
    strange = [chr(p) for p in points if not 0xD800 <= p < 0xE000]
    return "".join(rng.permutation(strange + varied(size, seed).split(" ")))


TEXTS = {
    "seen": varied(),
    "empty": "",
    "space": " \t\r\n \u00a0\u3000 ",
    "any character": any_text(1),
    "decomposed": unicodedata.normalize("NFD", varied(50)),
    "all bytes of GPT-2's alphabet": "".join(tokenizer.ALPHABET),
}


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_lost(trained, name):
    text = TEXTS[name]
    (tokens,) = trained.encode([document(text)])
    assert trained.decode(tokens) == text.encode()
    assert trained.sizes[tokens].sum() == len(text.encode())
    assert tokens.dtype == np.uint16


@pytest.mark.parametrize(
    ("seed", "end", "added", "cut"),
    [
        (0, "\n", [], True),
        (1, "\n", [], True),
        (2, "\n", [], True),
        (0, "\r\n", [], True),
        (0, "\n", ["ab"], True),
        (0, "\n", ["a\nb"], False),  # a cut could be inside it
    ],
)
def test_a_long_document_is_encoded_as_if_at_once(
    trained, seed, end, added, cut, monkeypatch, tmp_path
):
    lines = any_text(seed) + varied(3000, seed).replace(" ", "\n ", 200)
    text = lines.replace("\n", end)
    library = tokenizers.Tokenizer.from_str(trained.json)
    library.add_tokens(added)
    library.save(str(tmp_path / "tokenizer.json"))
    trained = tokenizer.named(f"file:{tmp_path / 'tokenizer.json'}")
    whole = library.encode(text).ids
    parts = []
    monkeypatch.setattr(tokenizer, "_parts", noting(tokenizer._parts, parts))
    for size in (1, 100, 5000):
        parts.clear()
        monkeypatch.setattr(tokenizer, "PART", size)
        monkeypatch.setattr(tokenizer, "GROUP", 3)
        documents = [document(text), document(""), document(PROSE)]
        found = trained.encode(documents)
        assert found[0].tolist() == whole and found[1].size == 0
        assert trained.decode(found[2]) == PROSE.encode()
        assert (len(parts) > 3 + len(text) // (50 * size)) == cut


def noting(function, calls):
    def noted(*arguments):
        for part in function(*arguments):
            calls.append(part)
            yield part

    return noted


def test_pieces_are_the_bytes_of_the_librarys_own_tokens(trained):
    library = tokenizers.Tokenizer.from_str(trained.json)
    assert set(tokenizer.ALPHABET) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(p for p in trained.pieces if len(p) == 1) == [bytes([b]) for b in range(256)]
    assert len(set(trained.pieces)) == len(trained.pieces) == library.get_vocab_size() == SIZE
    text = any_text(2)
    (tokens,) = trained.encode([document(text)])
    assert library.encode(text).ids == tokens.tolist()
    assert library.decode(tokens.tolist()) == text
    whole = [i for i, piece in enumerate(trained.pieces) if valid(piece)]
    assert [library.decode([i]).encode() for i in whole] == [trained.pieces[i] for i in whole]


def valid(piece):
    try:
        return bool(piece.decode())
    except UnicodeDecodeError:
        return False


def test_bytes_are_the_documents_themselves():
    made = corpus(PROSE, "x")
    tokens = tokenize(made, "bytes")
    assert tokens.splits == dict(made.splits)  # the documents themselves, not equal ones
    assert tokens.about == made.describe()
    assert tokens.tokenizer.decode(tokens.splits["test"][0]) == PROSE.encode()
    assert tokens.tokenizer.decode(np.array([104, 300, 105])) == b"hi"
    assert set(tokens.tokenizer.sizes) == {1} and vocabulary("bytes") == 256
    assert tokens.tokenizer.describe() == record.Vocabulary()
    assert records.plain(record.Vocabulary()) == {
        "spec": "bytes",
        "vocabulary": 256,
        "sha256": None,
    }


def configured(**fields):
    return EvalConfig(**{"lengths": (8, 16, 32), "metrics": OF_TEXT, **fields}).resolved(8)


@pytest.mark.parametrize("metric", [name for name in OF_TEXT if not METRICS[name].compares])
def test_the_bytes_of_every_scored_target_count_once(trained, metric):
    documents = trained.encode([document(varied(400, seed)) for seed in range(3)])
    config = configured(targets=160)
    for E in config.lengths:
        cut = windows(documents, metric, E, config, trained)
        scored = [
            trained.pieces[row[r + 1]]
            for row, lo, hi in zip(cut.tokens, *ends(cut), strict=True)
            for r in range(lo, hi)
        ]
        assert (len(scored), len(b"".join(scored))) == (cut.targets, cut.bytes)
        assert cut.bytes == windows(documents, metric, 8, config, trained).bytes
        nats = cut.tokens[:, -cut.last :] + 0.5
        values = cut.value(nats) * math.log(2)
        total = sum(
            row[r + 1] + 0.5
            for row, lo, hi in zip(cut.tokens, *ends(cut), strict=True)
            for r in range(lo, hi)
        )
        assert values == pytest.approx(total / cut.bytes, rel=1e-12)


def test_a_model_that_knows_nothing_scores_its_vocabulary(trained):
    """log2 V bits a token, over the bytes of the tokens: rows and curves, through `evaluate`."""
    lm = LmConfig(vocab=SIZE, layers=1, model=8, heads=2, mlp=4)
    encodings = make("nope", lm.dims(8))
    params = init(lm, encodings, TrainConfig(), [0])["params"]
    params["head"]["kernel"] = jnp.zeros_like(params["head"]["kernel"])
    documents = trained.encode([document(varied(400, seed)) for seed in range(2)])
    config = configured(targets=64, lengths=(8, 16), swaps=(), metrics=("nonoverlapping",))
    graphdef, _ = structure(lm, encodings)
    models = stacked(graphdef, params, encodings, seeds=(0,))
    found = evaluated(models, documents, config, trained)
    for row in found.rows:
        size = windows(documents, row.metric, row.length, config, trained).bytes
        assert size > 64
        assert row.value == pytest.approx(math.log2(SIZE) * 64 / size, rel=1e-5)
    cut = windows(documents, "nonoverlapping", 16, config, trained)
    for place, value in zip(*cut.curve(np.full((4, 16), math.log(SIZE))), strict=True):
        assert place == round(place)  # bins of one position
        size = trained.sizes[cut.tokens[:, round(place)]].sum()
        assert value == pytest.approx(math.log2(SIZE) * 4 / size)


def test_what_is_trained_is_kept_and_found_again(tmp_path, monkeypatch, trained):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = tokenize(corpus(varied()), f"bpe:{SIZE}").tokenizer.json
    assert first == trained.json  # trained anew
    with monkeypatch.context() as patch:
        patch.setattr(tokenizer, "_train", None)
        assert tokenize(corpus(varied()), f"bpe:{SIZE}").tokenizer.json == first
    tokenize(corpus(varied()), f"bpe:{SIZE - 1}")
    tokenize(corpus(varied(seed=1)), f"bpe:{SIZE}")
    monkeypatch.setattr(tokenizers, "__version__", "0.0")
    tokenize(corpus(varied()), f"bpe:{SIZE}")
    assert len(list((tmp_path / "pe_jax").iterdir())) == 4


def test_a_cache_that_cannot_be_written_is_none(tmp_path, monkeypatch, trained):
    (tmp_path / "pe_jax").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tokenize(corpus(varied()), f"bpe:{SIZE}").tokenizer.json == trained.json


# tokenizer.json files of others.


def saved(path, trained, change):
    model = tokenizers.Tokenizer.from_str(trained.json)
    model = change(model) or model
    model.save(str(path))
    return f"file:{path}"


def setting(name, value):
    return lambda model: setattr(model, name, value)


def sequence(*steps):
    return setting("pre_tokenizer", pre_tokenizers.Sequence([*steps]))


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
UNFIT = {
    "normalizer": setting("normalizer", normalizers.NFKC()),
    "prefix": setting("pre_tokenizer", pre_tokenizers.ByteLevel()),
    "metaspace": setting("pre_tokenizer", pre_tokenizers.Metaspace()),
    "none": setting("pre_tokenizer", None),
    "words": setting("model", models.WordLevel({"a": 0}, "a")),
    "bytes": setting("model", models.BPE({"a": 0}, [])),
    "characters": setting("model", models.BPE({"’": 0}, [])),
    "dropout": lambda model: setattr(model.model, "dropout", 0.5),
    "removed": sequence(pre_tokenizers.Split(Regex(r"\s+"), "removed"), BYTE_LEVEL),
    "stripping": lambda model: model.add_tokens([AddedToken("cat", lstrip=True)]) and None,
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_tokenizer_that_is_not_lossless_is_refused(tmp_path, trained, name):
    spec = saved(tmp_path / "tokenizer.json", trained, UNFIT[name])
    with pytest.raises(ValueError, match=f"{spec} is not lossless"):
        tokenize(corpus(varied()), spec)


def test_a_panic_of_the_library_is_an_error_and_an_interrupt_is_none(tmp_path, trained):
    slow = pre_tokenizers.Split(Regex("a+" * 6 + "b"), "isolated")
    spec = saved(tmp_path / "tokenizer.json", trained, sequence(slow, BYTE_LEVEL))
    with pytest.raises(ValueError, match=f"{spec} fails at this text: .*retry-limit"):
        tokenize(corpus("a" * 300), spec)
    with pytest.raises(KeyboardInterrupt), tokenizer._library_errors(spec, "fails"):
        raise KeyboardInterrupt


def test_a_tokenizer_that_normalises_to_nfc_keeps_what_is_in_it(tmp_path, trained):
    """As those of Qwen and Pythia do."""
    spec = saved(tmp_path / "tokenizer.json", trained, setting("normalizer", normalizers.NFC()))
    text = unicodedata.normalize("NFC", PROSE)
    found = tokenize(corpus(text), spec)
    assert found.tokenizer.decode(found.splits["train"][0]) == text.encode()
    with pytest.raises(ValueError, match="not lossless"):
        tokenize(corpus(text + "e\u0301"), spec)


def of_characters(**fields):
    """A BPE of SentencePiece: "▁" for a space, and bytes for what it has no token for."""
    single = {f"<0x{byte:02X}>": byte for byte in range(256)}
    vocab = single | {"▁": 256, "t": 257, "h": 258, "th": 259, "▁th": 260}
    merges = [("t", "h"), ("▁", "th")]
    model = tokenizers.Tokenizer(models.BPE(vocab, merges, **{"byte_fallback": True, **fields}))
    model.normalizer = normalizers.Replace(" ", "▁")
    return model


def test_a_bpe_of_characters_that_knows_every_byte_serves(tmp_path):
    of_characters().save(str(tmp_path / "tokenizer.json"))
    spec = f"file:{tmp_path / 'tokenizer.json'}"
    found = tokenize(corpus(PROSE + " th  th"), spec)
    assert found.tokenizer.decode(found.splits["train"][0]) == (PROSE + " th  th").encode()
    assert found.splits["train"][0][-3:].tolist() == [260, 256, 260]
    with pytest.raises(ValueError, match="not lossless"):
        tokenize(corpus("a ▁ b"), spec)
    of_characters(byte_fallback=False).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="not lossless"):
        tokenize(corpus(PROSE), spec)


FIT = {
    "as it is": lambda model: None,
    "digits apart": sequence(pre_tokenizers.Digits(individual_digits=True), BYTE_LEVEL),
    "truncating": lambda model: model.enable_truncation(4),
    "padding": lambda model: model.enable_padding(length=5000),
    "special": lambda model: model.add_special_tokens(["<|end|>", "位置"]) and None,
}


@pytest.mark.parametrize("name", FIT)
def test_a_lossless_tokenizer_of_others_serves(tmp_path, trained, name):
    spec = saved(tmp_path / "tokenizer.json", trained, FIT[name])
    text = varied() + "12345<|end|>" + PROSE
    found = tokenize(corpus(text), spec)
    assert found.tokenizer.decode(found.splits["train"][0]) == text.encode()
    assert found.tokenizer.sizes[found.splits["train"][0]].sum() == len(text.encode())
    assert vocabulary(spec) == len(found.tokenizer.pieces) == SIZE + 2 * (name == "special")
    if name == "special":
        assert (found.splits["train"][0] == SIZE).sum() == 1
    described = found.tokenizer.describe()
    assert described.spec == spec and len(described.sha256) == 64


def test_ids_may_have_gaps(tmp_path, trained):
    parts = json.loads(trained.json)
    vocab = parts["model"]["vocab"]
    last = max(vocab, key=vocab.__getitem__)
    vocab[last] = SIZE + 9
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(parts))
    assert vocabulary(f"file:{path}") == SIZE + 10
    found = tokenize(corpus(varied()), f"file:{path}")
    assert found.splits["test"][0].max() == SIZE + 9
    assert found.tokenizer.decode(found.splits["test"][0]) == varied().encode()


# Runs.


def test_the_vocabulary_is_known_before_any_text(tmp_path, trained):
    (tmp_path / "mine.json").write_text(trained.json)
    usual = run_of().parameters().total
    for spec, size in (("bytes", 256), ("bpe:300", 300), (f"file:{tmp_path}/mine.json", SIZE)):
        run = run_of(**{"data.tokenizer": spec, "data.source": "files:nowhere"})
        assert run.lm.vocab == run.encodings[0].dims.vocab == size
        assert run.parameters().total == usual + 2 * 16 * (size - 256)
    assert run_of(**{"data.tokenizer": "bpe:300", "lm.vocab": 512}).lm.vocab == 512


def test_a_pretrained_models_tokens_can_be_those_of_any_run():
    for source in ("hf:{}/llama", "gguf:{}/gguf/model.gguf"):
        spec = source.format(Path(__file__).parents[1] / "golden/pretrained")
        assert run_of(**{"data.tokenizer": spec}).lm.vocab == vocabulary(spec) == 257
        tokens = tokenize(corpus("the 12 paths"), spec)
        (cut,) = tokens.splits["train"]
        assert [tokens.tokenizer.pieces[token] for token in cut][:2] == [b"th", b"e"]


def test_a_changed_file_is_another_run(tmp_path, trained):
    path = tmp_path / "mine.json"
    path.write_text(trained.json)
    first = run_of(**{"data.tokenizer": f"file:{path}"}).id
    assert run_of(**{"data.tokenizer": f"file:{path}"}).id == first
    path.write_text(trained.json + "\n")
    assert run_of(**{"data.tokenizer": f"file:{path}"}).id != first
    assert run_of(**{"data.tokenizer": "bpe:300"}).id != run_of().id


MISTAKES = {
    "name": ("bep:4096", "unknown data.tokenizer 'bep:4096'; did you mean 'bpe'\\? Known: bytes"),
    "no size": ("bpe:", "needs N of at least 257.*got 'bpe:'"),
    "a path": ("{folder}/mine.json", "write file:{folder}/mine.json"),
    "no path": ("file:", "unknown data.tokenizer 'file:'; did you mean 'file'"),
    "no model": ("hf:{folder}/lama", "no model .*lama; did you mean 'llama'"),
    "no file": ("file:{folder}/mnie.json", "no tokenizer .*mnie.json; did you mean 'mine.json'"),
    "no variable": ("file:$NOWHERE_AT_ALL/a.json", "NOWHERE_AT_ALL of data.tokenizer is not set"),
    "no tokenizer": ("file:{folder}/other.json", "other.json is no tokenizer.json: "),
    "no text": ("file:{folder}/binary.json", "binary.json is no tokenizer.json: "),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_before_any_text_is_read(tmp_path, trained, mistake):
    contents = {"mine": trained.json, "other": '{"a": 1}'}
    for name, content in contents.items():
        (tmp_path / f"{name}.json").write_text(content)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "llama").mkdir()
    spec, words = (part.format(folder=tmp_path) for part in MISTAKES[mistake])
    with pytest.raises((ValueError, OSError), match=words):
        run_of(**{"data.tokenizer": spec})


def test_too_little_text_and_a_missing_library_are_told(monkeypatch):
    with pytest.raises(ValueError, match=r"no pairs left to merge at \d+ tokens; ask for fewer"):
        tokenize(corpus("a few words, a few words"), "bpe:300")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert len(tokenize(corpus(PROSE), "bytes").tokenizer.pieces) == 256
    with pytest.raises(ValueError, match="--extra=pretrained in the clone"):
        tokenize(corpus(PROSE), "bpe:300")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    for i in range(10):
        (lab.folder / f"text/{i:02d}.txt").write_text(varied(1500, i))
    return lab


def start(lab, cache, workdir, spec):
    values = {"data.source": lab.text, "data.tokenizer": spec, "run.seeds": (0,), "train.steps": 2}
    arguments = ("--config=configs/base.py:pe=rope", *tiny(**values), f"--workdir={workdir}")
    return lab.start("run", *arguments, XDG_CACHE_HOME=str(cache)).wait()


@pytest.fixture(scope="module")
def run(lab, cache):
    """The folder of a run with a BPE of 300 tokens."""
    done = start(lab, cache, lab.folder / "runs", "bpe:300")
    assert done.code == 0, done.err
    return the_run(lab.folder / "runs")


def test_a_run_records_its_tokenizer_and_the_bytes_scored(run):
    found = result(run)
    assert found["tokenizer"]["spec"] == "bpe:300" and found["tokenizer"]["vocabulary"] == 300
    assert found["corpus"]["bytes"]["train"] > 10000
    assert found["targets"] == {"same_targets": 256, "nonoverlapping": 256}
    for metric, sizes in found["target_bytes"].items():
        assert set(sizes) == {"16", "32"} and len(set(sizes.values())) == 1
        assert 256 < sizes["16"] < 1024, metric
    for row in found["rows"]:
        tokens = row["value"] * found["target_bytes"][row["metric"]]["16"] / 256
        assert 4 < tokens < math.log2(300) + 1  # bits a token, of a model that knows little


def test_the_tokenizer_of_a_run_gives_the_same_tokens(run, lab):
    own = kept(run, records.read(record.Begun, run / "config.json").tokenizer)
    assert records.plain(own.describe()) == result(run)["tokenizer"]
    assert own.decode(own.encode([document(PROSE)])[0]) == PROSE.encode()
    model = Trained.of(run)
    assert model.encode(PROSE).tolist() == own.encode([document(PROSE)])[0].tolist()
    assert model.decode(model.encode(PROSE)) == PROSE
    assert kept(run, record.Vocabulary()) is BYTES  # as of a record that names none
    text = load(lab.text)
    again, found = (tokenize(text, spec) for spec in (f"file:{run / 'tokenizer.json'}", "bpe:300"))
    for split in SPLITS:
        for ours, theirs in zip(again.splits[split], found.splits[split], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_run_does_not_go_on_with_other_tokens(run, lab, cache, tmp_path):
    folder = tmp_path / run.name
    shutil.copytree(run, folder)
    (folder / "result.json").unlink()
    about = json.loads((folder / "config.json").read_text())
    rewrite(folder / "config.json", tokenizer=about["tokenizer"] | {"sha256": "0" * 64})
    done = start(lab, cache, tmp_path, "bpe:300")
    assert done.code == 2 and "was begun with other tokens (bpe:300" in done.err, done.err
    assert len(done.err.splitlines()) == 1 and not (folder / "result.json").exists()


def test_a_run_that_starts_from_another_has_its_tokens(run, lab):
    """A BPE of the same size trained on other text would fit, and mean other tokens."""
    (lab.folder / "other.txt").write_text(varied(20000, 99).upper())
    other = {"train.init_from": str(run), "data.source": f"files:{lab.folder / 'other.txt'}"}
    other |= {"run.seeds": (0,)}
    with pytest.raises(Refused, match=r"other tokens \(bpe:300\).*tokenizer=file:.*tokenizer.json"):
        run_of(**other, **{"data.tokenizer": "bpe:300"}).load()
    with pytest.raises(Refused, match="learned other tokens .* than data.tokenizer=bytes"):
        run_of(**other, **{"lm.vocab": 300}).load()
    child = run_of(**other, **{"data.tokenizer": f"file:{run / 'tokenizer.json'}"})
    assert child.load().trained.tokenizer.pieces == kept(run, child.init_from.tokens).pieces
    with pytest.raises(ValueError, match=r"embedding has the shape \[300, .* and \[320, "):
        run_of(**other, **{"data.tokenizer": "bpe:320"})
