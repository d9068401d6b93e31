"""--config: a Python file with get_config(), its argument, and the fields that flags set.

`--config=FILE:ARGUMENT --config.train.steps=9` is get_config("ARGUMENT") of FILE, with a field set.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags
from ml_collections import ConfigDict, config_flags

from pe_jax import contract
from pe_jax.errors import nearest

PACKAGE = Path(__file__).parents[1] / "configs"
SAID = ValueError, OSError  # of a config or a file; their message is enough
CLONE = Path(__file__).parents[2]  # of an installed package: the folder of all packages


class ConfigFile(NamedTuple):
    """A config file that was executed."""

    module: types.ModuleType
    """Without its get_sweep if there is an argument: FILE:pe=SPEC is that run alone."""
    config: ConfigDict
    """get_config(argument) with the fields of the command line."""
    fields: dict[str, Any]
    """Those fields, as in {"train.steps": 200}."""


def words() -> list[str]:
    """The words of the command line that set fields."""
    return [word for word in sys.argv if word.startswith("--config.")]


def read(given: str) -> ConfigFile:
    """The value of --config, with the fields in sys.argv. ValueError in one line for whatever is
    wrong with the file or the fields.
    """
    name, _, argument = given.partition(":")
    path = str(find(name).resolve())
    loader = importlib.machinery.SourceFileLoader("pe_jax_config_file", path)
    module = types.ModuleType(loader.name)
    module.__file__ = path
    sys.modules[loader.name] = module  # dataclasses look it up
    with contract.calling(name, f"{path}:", SAID):
        loader.exec_module(module)
        if not hasattr(module, "get_config"):
            raise ValueError(f"{path} has no get_config: pe_jax.configs.base has one to import")
        config = config_of(module, argument) if argument else module.get_config()
    if argument:
        vars(module).pop("get_sweep", None)
    if not isinstance(config, ConfigDict):
        raise ValueError(f"{path}: get_config() must give a ConfigDict, got {str(config)[:60]!r}")
    argv, options = ["", *words()], flags.FlagValues()
    for flag, _, value in (word.partition("=") for word in argv):
        if flag == "--config.run.seeds" and value.isdecimal():  # ml_collections makes a tuple of it
            raise ValueError(f"{flag} lists seeds, as in '(0,1,2)' or '({value},)', got {value}")
    try:
        flag = config_flags.DEFINE_config_dict("config", config, flag_values=options, sys_argv=argv)
        options(argv)
    except (AttributeError, LookupError) as error:  # ml_collections names the nearest
        text = " ".join(str(getattr(error.args[0], "args", error.args)[0]).split())
        raise ValueError(f"no such field: {text} See pe-jax list fields") from None
    fields = config_flags.get_override_values(options["config"])
    if "train.rate" in fields and flag.value.train.rates:
        raise ValueError("train.rate is not used beside rates: give --config.train.rates='()', too")
    return ConfigFile(module, flag.value, fields)


def config_of(module: Any, argument: str) -> ConfigDict:
    """get_config(argument); before an argument "pe=SPEC" stands what its default has before pe=."""
    usual = getattr(module.get_config, "__defaults__", None) or ("",)
    usual, pe, _ = str(usual[0]).partition("pe=")
    return module.get_config((usual if pe and argument.startswith(pe) else "") + argument)


def find(name: str) -> Path:
    """A file of the working directory, else for NAME.py and configs/NAME.py the config of that name
    in the package or its clone. ValueError without one.
    """
    path, configs = Path(name), known()
    if path.is_file():
        return path
    if path.name in configs and path.parent in (Path(), Path("configs")):
        return configs[path.name]
    near = nearest(path.name, configs)
    raise ValueError(f"no config file {name!r}{near} `pe-jax list configs` prints the package's")


def known() -> dict[str, Path]:
    """The configs of the package and, in a clone, of its folder configs/, by their names."""
    folders = (CLONE / "configs", PACKAGE) if (CLONE / "pyproject.toml").is_file() else (PACKAGE,)
    return {path.name: path for folder in folders for path in folder.glob("[!_]*.py")}
