"""Paths as people write them in a config, with `~` and environment variables."""

import os
import re


def expanded(path: str, knob: str) -> str:
    """`path` with `~`, $NAME and ${NAME} replaced by what they stand for; a path that begins with
    an unknown ~user stays as it is.

    ValueError for an environment variable that is not set; the message says that it stands in
    `knob`, as "data.data_dir".
    """
    filled = os.path.expanduser(os.path.expandvars(path))
    if unset := re.search(r"\$\{?(\w+)", filled):
        raise ValueError(f"the environment variable {unset[1]} of {knob} is not set")
    return filled
