"""Paths as people write them in a config, with `~` and environment variables, and what is there."""

import os
import re
from pathlib import Path

from pe_jax.errors import nearest


def expanded(path: str, knob: str) -> str:
    """`path` with `~`, $NAME and ${NAME} replaced by what they stand for; one that is there as it
    is, and one that begins with an unknown ~user, stay.

    ValueError for an environment variable that is not set; the message says that it stands in
    `knob`, as "data.data_dir".
    """
    if os.path.exists(path):
        return path
    filled = os.path.expanduser(os.path.expandvars(path))
    if unset := re.search(r"\$\{?(\w+)", filled):
        raise ValueError(f"the environment variable {unset[1]} of {knob} is not set")
    return filled


def cache() -> Path:
    """The folder of what may be made again: $XDG_CACHE_HOME/pe_jax, by default ~/.cache/pe_jax.
    FileNotFoundError where there is no home.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "pe_jax")
    except RuntimeError as error:  # neither HOME nor an account of the system
        raise FileNotFoundError(str(error)) from error


def existing(place: Path, what: str, more: str = "") -> Path:
    """`place`; FileNotFoundError if nothing lies there, "no {what} {place}" with similar
    names in its folder, and `more`.
    """
    if not place.exists():
        names = os.listdir(place.parent) if place.parent.is_dir() else []
        raise FileNotFoundError(f"no {what} {place}{nearest(place.name, names, 3)}{more}")
    return place
