"""Configs completed by the pretrained model that they start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pe_jax.encodings.dynamic_ntk import DynamicNTK
from pe_jax.encodings.scaled import Scaled
from pe_jax.model.config import LmConfig
from pe_jax.pretrained.source import Source
from pe_jax.runs.config import DataConfig, RunConfig, members_of, with_tuples
from pe_jax.runs.init_from import is_pretrained
from pe_jax.specs.parse import Member, defaults, layers_of, parse
from pe_jax.specs.swap import kin
from pe_jax.training.config import TrainConfig


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config in sections, completed by the pretrained model of its train.init_from; without one
    it stays as it is. Fields that the config leaves at their defaults get the model's values:

    - section `lm`, the shape; ValueError for a field of it that is set to another value;
    - data.tokenizer, and of an encoder the task, masked_text;
    - of a member of the spec, the fields that it shares with the model's encoding of its family, as
      in a swap, and the `length` of a scaling, which is the model's training length. Values that
      the spec sets, as in "rope(base=10000.0)", stay;
    - of a run of no steps, the training length; and it gets one seed.
    """
    train = config.get("train", {})
    source = train.get("init_from")
    if not is_pretrained(source):
        return {**config}
    model = Source.of(source)
    data = config.get("data", {})
    if data.get("tokenizer", DataConfig.tokenizer) == DataConfig.tokenizer:
        data = {**data, "tokenizer": source}
    given = with_tuples(config.get("lm", {}))
    lm = {**given, **_lm_fields(given, model)}
    whole = {**config, "lm": lm, "data": data, "pe": _pe_section(config["pe"], model)}
    if not model.about.lm.causal and config["task"].get("name", "text") == "text":
        whole["task"] = {"name": "masked_text"}
    if train.get("steps") == 0:
        run, counted_from = config.get("run", {}), config.get("eval", {}).get("reference")
        length = train.get("length")
        # Beside an eval.reference the default length is meant: `Run.pretrained(trained=64)`.
        if length is None or (length == TrainConfig.length and not counted_from):
            whole["train"] = {**train, "length": model.about.length}
        if tuple(run.get("seeds", RunConfig.seeds)) == RunConfig.seeds:
            whole["run"] = {**run, "seeds": (0,)}
    return whole


def _lm_fields(given: Mapping[str, Any], model: Source) -> dict[str, Any]:
    free = "dropout", "dtype", "attention", "memory"  # these the model leaves to the config
    fields = {name: value for name, value in vars(model.about.lm).items() if name not in free}
    usual = vars(LmConfig())
    for name, value in fields.items():
        if given.get(name, value) not in (value, usual[name]):
            raise ValueError(
                f"lm.{name} is {value!r} in {model.text}, got {given[name]!r}: leave it out, since "
                "the shape of a pretrained model is its own"
            )
    return fields


def _pe_section(section: Mapping[str, Any], model: Source) -> dict[str, Any]:
    spec, given = members_of(section)
    filled = {}
    for member in parse(spec):
        fields, usual = given.get(member.id, {}), defaults(member.cls)
        free = {n for n, value in usual.items() if fields.get(n, value) == value} - {*member.fields}
        theirs = _member_fields(member, model)
        if fields := {**fields, **{name: theirs[name] for name in theirs.keys() & free}}:
            filled[member.id] = fields
    return {**section, **filled}


def _member_fields(member: Member, model: Source) -> dict[str, Any]:
    about = model.about
    length = {"length": about.length} if issubclass(member.cls, Scaled | DynamicNTK) else {}
    kindred = [old for old in about.spec if kin(member.cls, old.cls)]
    if len(kindred) > 1:
        if "layers" not in member.fields:
            raise ValueError(
                f"{member.id!r} could be any of {len(kindred)} members of the model's "
                f"{str(about.spec)!r}: name its layers, as in that spec, or all of them by [:]"
            )
        dims = about.lm.dims(about.length)
        layers = {*layers_of(member.encoding(dims))}
        kindred = [old for old in kindred if layers <= {*layers_of(old.encoding(dims))}] or kindred
    return length | (kindred[0].fields if kindred else {})
