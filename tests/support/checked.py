"""Annotations are checked as the tests run."""

import beartype


def checked(function):
    """The function with its annotations checked by beartype. The sections of a config are left as
    they are: they check their fields themselves, and the tests want their messages.
    """
    own = function.__qualname__.endswith(("Config.__init__", "Resources.__init__"))
    return function if own else beartype.beartype(function)
