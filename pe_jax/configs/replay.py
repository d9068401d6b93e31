"""The config of an earlier run, from the record in its folder: `--config=replay.py:DIR`.

The record is result.json or config.json of a run's folder, or queued.json of a sweep's.
"""

import json
from pathlib import Path

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

NAMES = "result.json", "config.json", "queued.json"


def get_config(arg=""):
    """The config in the record at the path `arg`, or in the first record of the folder `arg`."""
    path = next((Path(arg, name) for name in NAMES if Path(arg, name).is_file()), Path(arg))
    if not path.is_file():
        raise ValueError(f"no record of a run in {arg!r}: --config=replay.py:DIR names its folder")
    try:
        return ConfigDict(_settable(json.loads(path.read_bytes())["config"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{arg} is no record of a run: {type(error).__name__}: {error}") from error


def _settable(value):
    # A value of JSON as a config has it: lists are tuples, and None is a placeholder for flags
    if isinstance(value, dict):
        return {name: _settable(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return tuple(map(_settable, value))
    return placeholder(object) if value is None else value
