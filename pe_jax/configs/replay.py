"""A run again, from its record: `--config=replay.py:DIR/config.json`, or a line of its own
in a file.
"""

import json
from pathlib import Path

from ml_collections import ConfigDict


def get_config(arg=""):
    """The config that a config.json or result.json holds; of a run's folder, its config.json's."""
    if not arg:
        raise ValueError("give the record to replay: --config=replay.py:DIR/config.json")
    path = Path(arg, "config.json") if Path(arg).is_dir() else Path(arg)
    try:
        return ConfigDict(json.loads(path.read_bytes())["config"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{arg} is no record of a run: {type(error).__name__}: {error}") from error
