"""Paths as people write them in a config."""

import os
import re


def expanded(path: str, knob: str) -> str:
    """`path` with `~`, $NAME and ${NAME} filled in; what begins with an unknown ~user stays.

    ValueError for an environment variable that is not set, which names `knob`, where it was given.
    """
    filled = os.path.expanduser(os.path.expandvars(path))
    if unset := re.search(r"\$\{?(\w+)", filled):
        raise ValueError(f"the environment variable {unset[1]} of {knob} is not set")
    return filled
