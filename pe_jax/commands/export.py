"""A model as a folder that HuggingFace's transformers reads, with the same logits: a pretrained
model with another scaling of RoPE, or a model that was trained here.

    pe-jax export --model=hf:DIR --swap=yarn --length=16384 --out=DIR2
    pe-jax export --workdir=DIR/RUN --out=DIR2

Of a pretrained model weights and tokenizer are copied, and config.json gets the scaling, made for
--length tokens (rope_scaling, or rope_parameters where the model has that). A model trained here
becomes a Llama, where its shape is one. What config.json cannot say is refused.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from pe_jax.commands import cli

OPTIONS = flags.FlagValues()
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
integer = functools.partial(flags.DEFINE_integer, flag_values=OPTIONS)
_MODEL = string("model", None, "hf:DIR or gguf:PATH.")
_WORKDIR = string("workdir", None, "A run instead of it: <workdir>/<run id>.")
_SEED = integer("model_seed", None, "Which of the run's models; default: the first.")
_SWAP = string("swap", "", "The scaling, as in eval.swaps; default: as it is.")
_LENGTH = integer(
    "length",
    None,
    "Tokens that the scaling is made for; default: the factor of a swap times the length that it "
    "counts from, at least the training length; without a swap the training length.",
)
_OUT = string("out", None, "A new folder.")


def main() -> int:
    if bool(_MODEL.value) == bool(_WORKDIR.value) or not _OUT.value:
        return cli.fail("give --model=hf:DIR or --workdir=RUN, and --out=DIR for what is written")
    from pe_jax.errors import Refused

    out = Path(_OUT.value)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        return cli.fail(f"{out} is there already: name a new folder by --out")
    try:
        paths = _pretrained(_MODEL.value, out) if _MODEL.value else _trained(out)
    except (Refused, ValueError, TypeError, OSError) as error:
        return cli.fail(error)
    for path in paths:
        print(path)
    return 0


def _pretrained(source: str, out: Path) -> Sequence[Path]:
    from pe_jax.pretrained import export
    from pe_jax.pretrained.load import load
    from pe_jax.pretrained.source import Source
    from pe_jax.storage.checkpoints import flat

    there = Source.of(source)
    about = there.about
    own = about.encodings
    encodings, length = _made(own, about.length)
    if source.startswith("hf:"):
        folder = there.files[-1].parent
        config = export.with_scaling(
            json.loads((folder / "config.json").read_text("utf-8")), encodings, length, own
        )
        weights = [path for path in there.files if path.suffix == ".safetensors"]
        return export.copied(folder, weights, config, length, out)
    model = load(source)
    params, tokenizer = flat(model.params), model.tokenizer.as_json()
    return export.written(about.lm, encodings, length, params, tokenizer, out)


def _trained(out: Path) -> Sequence[Path]:
    from pe_jax.pretrained import export
    from pe_jax.runs.trained import Trained
    from pe_jax.storage.checkpoints import flat

    model = Trained.of(_WORKDIR.value or "", _SEED.value, print)
    encodings, length = _made(model.members, model.run.train.length)
    params, tokenizer = flat(model.params), model.tokenizer.as_json()
    return export.written(model.run.lm, encodings, length, params, tokenizer, out)


def _made(own, trained: int):
    """(the encodings with the swap, made for the length; the length)."""
    from pe_jax.encodings.scaled import Scaled
    from pe_jax.fields import Count, check_value
    from pe_jax.specs.swap import swap

    encodings = swap(own, _SWAP.value) if _SWAP.value else own
    length = _LENGTH.value
    if length is not None:
        check_value(length, Count, "--length")
    elif not _SWAP.value:  # by a scaling of its own a model reads what it was trained for
        length = trained
    else:
        lengths = [
            int(factor * (getattr(e, "length", None) or trained))
            for e in encodings
            if (factor := getattr(e, "factor", None) or 1) > 1
        ]
        if not lengths and any(isinstance(e, Scaled) and e.factor is None for e in encodings):
            raise ValueError(
                f"--swap={_SWAP.value} depends on the length that the model is to read, and "
                f"{trained} is what it was trained for: give --length"
            )
        length = max([trained, *lengths])
    return tuple(e.at(length) for e in encodings), length
