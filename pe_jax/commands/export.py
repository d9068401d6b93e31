"""A model as a folder that HuggingFace's transformers reads, with the same logits: a pretrained
model with another scaling of RoPE, or a model that was trained here.

    pe-jax export --model=hf:DIR --swap=yarn --length=16384 --out=DIR2
    pe-jax export --workdir=DIR/RUN --out=DIR2

Of a pretrained model weights and tokenizer are copied, and config.json gets the scaling, made for
--length tokens (rope_scaling, or rope_parameters where the model has that). A model trained here
becomes a Llama, where its shape is one. What config.json cannot say is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax.commands import cli

if TYPE_CHECKING:
    from pe_jax.encoding import Encoding

OPTIONS = cli.Options()
_MODEL = OPTIONS.string("model", None, "hf:DIR or gguf:PATH.")
_WORKDIR = OPTIONS.string("workdir", None, "A run instead of it: <workdir>/<run id>.")
_SEED = OPTIONS.integer("model_seed", None, "Seed of the run's model; default: the first.")
_SWAP = OPTIONS.string("swap", "", "The scaling, as in eval.swaps; default: as it is.")
_LENGTH = OPTIONS.integer(
    "length", None, "Tokens that the scaling is made for; default: by its factor.", lower_bound=1
)
_OUT = OPTIONS.string("out", None, "A new folder.", required=True)


def main() -> int:
    if bool(_MODEL.value) == bool(_WORKDIR.value):
        return cli.fail("give either --workdir=RUN, a trained run, or --model=hf:DIR or gguf:PATH")
    out = Path(_OUT.value)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        return cli.fail(f"{out} is there already: name a new folder by --out")
    from pe_jax.pretrained import export
    from pe_jax.pretrained.load import load
    from pe_jax.pretrained.source import Source, read_json
    from pe_jax.runs.trained import Trained
    from pe_jax.storage.checkpoints import flat

    if _MODEL.value and _MODEL.value.startswith("hf:"):
        source = Source.of(_MODEL.value)
        own, folder = source.about.encodings, source.files[-1].parent
        encodings, length = _made(own, source.about.length)
        config = read_json(folder / "config.json")
        config = export.with_scaling(config, encodings, length, own)
        weights = [path for path in source.files if path.suffix == ".safetensors"]
        paths = export.copied(folder, weights, config, length, out)
    else:
        if _MODEL.value:
            model = load(_MODEL.value)
            lm, trained = model.lm, model.length
        else:
            model = Trained.of(_WORKDIR.value, _SEED.value)
            lm, trained = model.run.lm, model.run.train.length
        encodings, length = _made(model.members, trained)
        tokenizer = model.tokenizer.as_json()
        paths = export.written(lm, encodings, length, flat(model.params), tokenizer, out)
    for path in paths:
        print(path)
    return 0


def _made(own: tuple[Encoding, ...], trained: int) -> tuple[tuple[Encoding, ...], int]:
    # The encodings with the swap, made for the length; and the length
    from pe_jax.encodings.scaled import Scaled
    from pe_jax.specs.swap import swap

    encodings, length = swap(own, _SWAP.value) if _SWAP.value else own, _LENGTH.value
    if length is None and _SWAP.value:
        unknown = any(isinstance(e, Scaled) and (e.factor is None or e.length) for e in encodings)
        if unknown or any(isinstance(e, Scaled) for e in own):
            raise ValueError(f"give --length, the tokens that --swap={_SWAP.value} is made for")
        length = int(trained * max(getattr(e, "factor", None) or 1 for e in encodings))
    length = length or trained
    return tuple(e.at(length) for e in encodings), length
